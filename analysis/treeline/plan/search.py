"""What a frontier plan wants to be run: the walk, confirmations and audits of all slices, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cached_property

from treeline.keys import Frontier, Item, Known, RestartKey, Slice
from treeline.plan.cells import retry_of
from treeline.plan.evidence import Evidence
from treeline.plan.sheet import Mark, Sheet, survey
from treeline.plan.walk import Guess, Probe, audits, confirmations, walk

# Steps of one walk that are looked ahead beyond the one in flight.
_AHEAD = 8


class Search:
    """The frontier of one hardware class as it stands. Sheets are read when they are asked for."""

    def __init__(self, spec: Frontier, evidence: Evidence, known: Known) -> None:
        self.spec = spec
        self.evidence = evidence
        self.known = known
        self._sheets: dict[int, Sheet] = {}

    def sheet(self, index: int) -> Sheet:
        """One slice as it stands."""
        found = self._sheets.get(index)
        if found is None:
            part = self.spec.slices[index]
            found = self._sheets[index] = survey(part, self.evidence, self.known.bad)
        return found

    @cached_property
    def sheets(self) -> tuple[Sheet, ...]:
        """All slices as they stand."""
        return tuple(self.sheet(index) for index in range(len(self.spec.slices)))

    def wants(self) -> Iterator[Item]:
        """Items in the order of handing out, those in flight included.

        The walks of all slices come first, with the repeats that they wait for; then confirmations, then
        audits.
        """
        waiting: list[Item] = []
        for index, part in enumerate(self.spec.slices):
            sheet = self.sheet(index)
            owed = [self._item(part, Probe(*cell, "retry", 1, "")) for cell in sheet.owed]
            steps = [] if sheet.decided else walk(sheet, self._guess(index))
            fresh = [self._item(part, step) for step in steps if (step.budget, step.maxreq) not in sheet.owed]
            for item in (*owed, *fresh):
                # An item that went back waits behind the other slices; an interrupted one did not go wrong.
                standing = self.evidence.standing(item.item_id)
                if standing.backs > standing.interrupted:
                    waiting.append(item)
                else:
                    yield item
        yield from waiting
        for index in range(len(self.spec.slices)):
            yield from self._after_the_walk(index)

    def _after_the_walk(self, index: int) -> Iterator[Item]:
        sheet, part = self.sheet(index), self.spec.slices[index]
        confirming = confirmations(sheet, self.evidence) if self.spec.confirm else []
        for probe in sorted(confirming, key=lambda probe: self._risk(part.key(probe.budget, probe.maxreq))):
            yield self._item(part, probe)
        # Audits are held against what stands: a confirmation or a repeat may still turn it over.
        if not confirming and not sheet.owed and sheet.decided:
            for probe in audits(sheet, self.spec.audit_share, self.spec.salt):
                yield self._item(part, probe)

    def wants_ahead(self, busy: Collection[str]) -> Iterator[Item]:
        """Steps of the walks that follow if the trials in flight (``busy``, item ids) end as expected."""
        for index, part in enumerate(self.spec.slices):
            guess = self._guess(index)
            assumed: dict[str, Mark] = {}
            sheet = self.sheet(index)
            for _ in range(_AHEAD):
                items = [self._item(part, step) for step in walk(sheet, guess)]
                free = [item for item in items if item.item_id not in busy]
                if free and assumed:
                    yield _assuming(free[0], assumed)
                if free or not items:
                    break
                assumed |= {item.cell: self._expected(item.key, guess) for item in items}
                sheet = survey(part, self.evidence, self.known.bad, assumed)

    def _item(self, part: Slice, probe: Probe) -> Item:
        """The item of a probe; the repeat that its cell is owed, where it is owed one."""
        key = part.key(probe.budget, probe.maxreq)
        keys = self.spec.load.keys(key.maxreq)
        owed = self.evidence.cell(key.slug).owed if probe.purpose != "confirm" else None
        if owed is not None:
            for (purpose, ordinal), standing in self.evidence.items_of(key.slug).items():
                first = Item.of(key, keys, reason=probe.reason, purpose=purpose, ordinal=ordinal)
                retry = retry_of(first, standing)
                if retry is not None and (retry.purpose, retry.ordinal) == owed:
                    return retry
        return Item.of(key, keys, reason=probe.reason, purpose=probe.purpose, ordinal=probe.ordinal)

    def _guess(self, index: int) -> Guess | None:
        """The border of the slice that differs only in topk, the nearest one whose walk is over."""
        part = self.spec.slices[index]
        donors = sorted(
            (abs(other.topk - part.topk), place)
            for place, other in enumerate(self.spec.slices)
            if place != index and other.family == part.family
        )
        for _, place in donors:
            if self.sheet(place).decided:
                return Guess.of(self.sheet(place))
        return None

    def _risk(self, key: RestartKey) -> tuple[bool, int]:
        return key.graphs and key.rows > self.spec.rows_prior, key.rows

    def _expected(self, key: RestartKey, guess: Guess | None) -> Mark:
        border = guess.borders.get(key.budget) if guess is not None else None
        if border is not None:
            return "good" if key.maxreq < border else "bad"
        return "good" if not key.graphs or key.rows <= self.spec.rows_prior else "bad"


def _assuming(item: Item, assumed: Mapping[str, Mark]) -> Item:
    cells = ", ".join(f"{cell} is {mark}" for cell, mark in assumed.items())
    reason = f"ahead of the walk, assuming that {cells}; {item.reason}"
    return Item.of(item.key, item.client_keys, reason=reason, purpose=item.purpose, ordinal=item.ordinal)
