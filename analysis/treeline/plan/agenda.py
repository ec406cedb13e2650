"""Everything that a plan still wants of one hardware class, stage after stage.

Stages: the baseline (beside the others), then the cells (a list, or the search for the frontier), then the
throughput search, then the finals. A stage begins when nothing of the one before is wanted any more; what is
in flight is wanted until it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from treeline.keys import ClientKey, Item, Known, Plan, RestartKey
from treeline.plan import finals
from treeline.plan.cells import MAX_BACKS, NEVER_RUN, retry_of
from treeline.plan.evidence import Evidence, group_of
from treeline.plan.finals import Life
from treeline.plan.history import InFlight
from treeline.plan.rank import next_probe, rated
from treeline.plan.search import Search


class Agenda:
    """A plan, what is known, and what follows from both."""

    def __init__(self, plan: Plan, evidence: Evidence, known: Known) -> None:
        self.plan = plan
        self.evidence = evidence
        self.known = known
        self.search = Search(plan.frontier, evidence, known) if plan.frontier is not None else None

    def open_items(self) -> list[Item]:
        """Items wanted now, those in flight included, in the order of handing out."""
        found = list(self._baseline())
        cells = list(self._cells())
        found += cells or self.throughput() or [life.item for life in self._lives()]
        return list({item.item_id: item for item in found}.values())

    @property
    def searching(self) -> bool:
        """Whether cells of the plan are still to be decided."""
        return next(iter(self._cells()), None) is not None

    def pick(self, host: str, in_flight: Sequence[InFlight], *, ahead: bool = True) -> Item | None:
        """The item that a host takes next; None when nothing is free.

        Args:
            in_flight: trials of other hosts.
            ahead: whether steps may be taken that are needed only if trials in flight end as expected.
        """
        busy = {flight.item_id for flight in in_flight}
        for item in self._baseline():
            if item.item_id not in busy:
                return item
        wanted = False
        for item in self._cells():
            wanted = True
            if item.item_id not in busy:
                return item
        if wanted:
            walks = self.search.wants_ahead(busy) if self.search is not None and ahead and busy else iter(())
            return next(iter(walks), None)
        faster = self.throughput()
        if faster:
            return next((item for item in faster if item.item_id not in busy), None)
        left = self._lives()
        if not left or self.plan.finals is None:
            return None
        everything = finals.lives(self.plan.finals, self._contest, self.load)
        return finals.for_host(left, everything, self.evidence, in_flight, host)

    def may_bring_more(self, flight: InFlight) -> bool:
        """Whether some end of this trial would leave work: another try, a repeat, or what it decides."""
        if self.search is not None or self.plan.finals is not None:
            return True
        is_retry = flight.item_id.split("/")[1:2] == ["retry"]
        return not is_retry or self.evidence.standing(flight.item_id).backs < MAX_BACKS

    def _baseline(self) -> Iterator[Item]:
        item = self.plan.baseline
        if item is None or self.known.baseline is not None:
            return
        standing = self.evidence.standing(item.item_id)
        wanted = item if standing.open else retry_of(item, standing)
        if wanted is not None and self.evidence.standing(wanted.item_id).open:
            yield wanted

    def _cells(self) -> Iterator[Item]:
        return self._listed() if self.search is None else self.search.wants()

    def _listed(self) -> Iterator[Item]:
        """Items of a list: planned ones first, then repeats; those that went back wait behind the others.

        An interrupted item keeps its place: it did not go wrong.
        """
        later: list[tuple[bool, int, int, Item]] = []
        for number, planned in enumerate(self.plan.items):
            standing = self.evidence.standing(planned.item_id)
            if standing is NEVER_RUN:
                if planned.cell not in self.known.bad:
                    yield planned
            elif standing.open and standing.backs == standing.interrupted:
                yield planned
            elif standing.open:
                later.append((False, standing.backs - standing.interrupted, number, planned))
            elif (retry := retry_of(planned, standing)) is not None:
                again = self.evidence.standing(retry.item_id)
                if again.open:
                    later.append((True, again.backs - again.interrupted, number, retry))
        yield from (item for *_, item in sorted(later, key=lambda entry: entry[:3]))

    def throughput(self) -> list[Item]:
        """The cell that is measured next to find the fastest budget of each slice, where it is not known."""
        search, spec = self.search, self.plan.frontier
        if search is None or spec is None or not spec.throughput:
            return []
        objective = self.plan.finals.objective if self.plan.finals is not None else "throughput"
        found = []
        for sheet in search.sheets:
            # The largest limit that was seen to work; its life was measured under every client key.
            seen = [
                sheet.slice.key(column.budget, column.highest_good)
                for column in sheet.columns
                if column.highest_good
            ]
            # At fewer requests than the objective asks for, no life would ever give its figure.
            tops = [key for key in seen if rated(self.load(key), objective)]
            values = [finals.first_value(self.evidence, key, objective) for key in tops]
            items = [
                Item.of(
                    key,
                    self.load(key),
                    reason="throughput: its neighbours suggest that the fastest budget is near",
                    purpose="explore",
                    ordinal=3,
                )
                for key in tops
            ]
            able = [
                place
                for place, item in enumerate(items)
                if values[place] is not None or self.evidence.standing(item.item_id).open
            ]
            probe = next_probe([values[place] for place in able])
            if probe is not None:
                found.append(items[able[probe]])
        return found

    def _lives(self) -> list[Life]:
        if self.plan.finals is None:
            return []
        return finals.wanted(self.plan.finals, self.evidence, self.keys_run, self.load)

    @cached_property
    def _contest(self) -> finals.Contest:
        if self.plan.finals is None:
            return finals.Contest((), None)
        return finals.contest(self.plan.finals, self.evidence, self.keys_run)

    @cached_property
    def keys_run(self) -> tuple[RestartKey, ...]:
        """Restart keys of the planned cells that were run at all."""
        if self.plan.frontier is None:
            return tuple(item.key for item in self.plan.items if self.evidence.items_of(item.cell))
        found = []
        for part in self.plan.frontier.slices:
            group, _ = group_of(part.key(1, 1).slug)
            planned = {column.budget: column.maxreqs for column in part.columns}
            found += [
                part.key(budget, limit)
                for budget, limit in self.evidence.group(group)
                if limit in planned.get(budget, ())
            ]
        return tuple(found)

    @cached_property
    def _client_keys(self) -> Mapping[RestartKey, tuple[ClientKey, ...]]:
        return {item.key: item.client_keys for item in self.plan.items}

    def load(self, key: RestartKey) -> Sequence[ClientKey]:
        """The client keys that a cell of this plan is measured under."""
        if self.plan.frontier is not None:
            return tuple(self.plan.frontier.load.keys(key.maxreq))
        return self._client_keys[key]
