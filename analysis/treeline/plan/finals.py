"""After the search: lives of the finalists in turns, anchors between them, and a soak of the winner.

Configurations are compared by service lives. They are run in rounds whose order turns round each time
(A B, B A, A B), so that a slow drift falls on all of them alike, and a round stays on one host, so that
hosts are not compared with one another. An anchor, a configuration that is known to work, is run before,
between and after them and shows the drift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from treeline.keys import ClientKey, Finals, Item, Purpose, RestartKey
from treeline.plan.evidence import Evidence
from treeline.plan.history import InFlight
from treeline.plan.rank import mean, objective_value

GROUP = "finals"
_DECIDING = ("explore", "audit", "retry")

Load = Callable[[RestartKey], Iterable[ClientKey]]
"""The client keys that a cell is measured under."""


@dataclass(frozen=True)
class Life:
    """One planned life, and the round that it belongs to."""

    item: Item
    round: int


@dataclass(frozen=True)
class Contest:
    """Who takes part, in the order of their values so far."""

    finalists: tuple[RestartKey, ...]
    anchor: RestartKey | None


def contest(finals: Finals, evidence: Evidence, cells: Iterable[RestartKey]) -> Contest:
    """The finalists among the measured cells, and the anchor.

    Finalists are the good cells with the highest values of their first lives; one that fails later is no
    longer good, and the next takes its place. The anchor is the good cell with the fewest rows; where that
    is a finalist, its own lives show the drift and there is no anchor.
    """
    good = [key for key in dict.fromkeys(cells) if evidence.cell(key.slug).state == "good"]
    values = ((first_value(evidence, key, finals.objective), key) for key in good)
    valued = [(value, key) for value, key in values if value is not None]
    valued.sort(key=lambda pair: (-pair[0], pair[1].rows, pair[1].slug))
    finalists = tuple(key for _, key in valued[: finals.finalists])
    safest = min(good, key=lambda key: (key.rows, key.graphs, key.budget, key.slug), default=None)
    return Contest(finalists, None if safest in finalists else safest)


def first_value(evidence: Evidence, key: RestartKey, objective: str) -> float | None:
    """The value of the life that decided a cell."""
    cell = key.slug
    for (purpose, _), standing in evidence.items_of(cell).items():
        if purpose in _DECIDING and standing.effect == "good" and standing.last is not None:
            value = objective_value(standing.last.throughput, objective)
            if value is not None:
                return value
    return None


def lives(finals: Finals, taking_part: Contest, load: Load) -> list[Life]:
    """All lives of the finals in their order, those that are over included; without the soak."""
    found: list[Life] = []
    if not finals.lives or not taking_part.finalists:
        return found
    # In front of the first round, in the middle, and behind the last.
    anchors = {0: 1, max(finals.lives // 2, 1): 2, finals.lives: 3}
    for number in range(finals.lives + 1):
        if taking_part.anchor is not None and number in anchors:
            ordinal = anchors[number]
            where = ("at the start", "in the middle", "at the end")[ordinal - 1]
            reason = f"{where}: shows whether the hosts drift while finalists are compared"
            item = _life(taking_part.anchor, load, reason, "anchor", ordinal)
            found.append(Life(item, max(number, 1)))
        if number == finals.lives:
            break
        order = taking_part.finalists if number % 2 == 0 else taking_part.finalists[::-1]
        for place, key in enumerate(order, start=1):
            reason = f"finalist, life {number + 1} of {finals.lives}, {place} of {len(order)} in its round"
            found.append(Life(_life(key, load, reason, "confirm", number + 1), number + 1))
    return found


def soak(finals: Finals, taking_part: Contest, evidence: Evidence, load: Load) -> Item | None:
    """The soak of the winner, or None where none is asked for or nobody won."""
    if finals.soak_s is None or not taking_part.finalists:
        return None
    winner = max(taking_part.finalists, key=lambda key: standing_value(finals, evidence, key) or 0.0)
    reason = (
        f"soak of the winner by {finals.objective}: {finals.soak_s:g} s at maxreq, "
        "because it is not called confirmed before"
    )
    return Item.of(
        winner,
        load(winner),
        reason=reason,
        purpose="confirm",
        ordinal=finals.lives + 1,
        soak_s=finals.soak_s,
    )


def standing_value(finals: Finals, evidence: Evidence, key: RestartKey) -> float | None:
    """Mean value of a finalist's lives in the finals; of its first life where it has none yet."""
    values = []
    for (purpose, ordinal), standing in evidence.items_of(key.slug).items():
        if purpose == "confirm" and ordinal <= finals.lives and standing.effect == "good" and standing.last:
            value = objective_value(standing.last.throughput, finals.objective)
            if value is not None:
                values.append(value)
    return mean(values) if values else first_value(evidence, key, finals.objective)


def wanted(
    finals: Finals,
    evidence: Evidence,
    cells: Iterable[RestartKey],
    load: Load,
) -> list[Life]:
    """Lives that are still to be run, in order; the soak once all others are over."""
    taking_part = contest(finals, evidence, cells)
    left = [life for life in lives(finals, taking_part, load) if evidence.standing(life.item.item_id).open]
    if left:
        return left
    last = soak(finals, taking_part, evidence, load)
    if last is None or not evidence.standing(last.item_id).open:
        return []
    return [Life(last, finals.lives + 1)]


def for_host(
    left: Sequence[Life],
    all_lives: Sequence[Life],
    evidence: Evidence,
    in_flight: Sequence[InFlight],
    host: str,
) -> Item | None:
    """The life that a host runs next: of its own rounds first, then of a round that nobody has begun.

    A round of another host is taken over only while that host works on nothing.
    """
    busy = {flight.item_id: flight.host for flight in in_flight}
    working = set(busy.values())
    owners: dict[int, str] = {}
    for life in all_lives:
        past = evidence.past_of(life.item.item_id)
        owner = past[-1].host if past else busy.get(life.item.item_id)
        if owner is not None:
            owners.setdefault(life.round, owner)
    free = [life for life in left if life.item.item_id not in busy]
    for takes in (
        lambda owner: owner == host,
        lambda owner: owner is None,
        lambda owner: owner not in working,
    ):
        for life in free:
            if takes(owners.get(life.round)):
                return life.item
    return None


def _life(key: RestartKey, load: Load, reason: str, purpose: Purpose, ordinal: int) -> Item:
    return Item.of(
        key,
        load(key),
        reason=reason,
        purpose=purpose,
        ordinal=ordinal,
        lives_group=GROUP,
    )
