"""Cells: the distinct configurations of a plan, their loads, and what is left out for free.

Nothing is dropped silently. A configuration that the engine cannot tell from another one, that it would
refuse by a static rule, or whose tree cannot hold its budget is listed as excluded with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from treeline import dialects
from treeline.dialects import Dialect
from treeline.keys import ClientKey, Excluded, Item, Load, RestartKey


class Cells(msgspec.Struct):
    """Distinct cells with their loads, in the order in which they were added."""

    dialect: Dialect
    loads: dict[RestartKey, set[ClientKey]] = {}
    reasons: dict[RestartKey, str] = {}
    excluded: dict[RestartKey, str] = {}
    notes: list[str] = []
    _known: dict[RestartKey, RestartKey] = {}
    _asked: set[RestartKey] = set()

    def add(self, asked: RestartKey, load: Load, reason: str) -> None:
        """Take one configuration in; one that is the same service as an earlier one only adds its load."""
        key = as_served(asked, self.dialect)
        known = self._known.setdefault(indistinct(key, self.dialect), key)
        if (obstacle := obstacle_to(known, self.dialect)) is not None:
            self.excluded.setdefault(asked, obstacle)
            return
        if asked in self._asked:
            self._note(f"{asked.label} is asked for more than once; it is measured in one service life")
        elif asked != known:
            why = _why_same(asked, known, self.dialect)
            self.excluded[asked] = f"the same service as {known.label}: {why}"
        self._asked.add(asked)
        self.loads.setdefault(known, set()).update(load.keys(known.maxreq))
        self.reasons.setdefault(known, reason)
        limit = known.maxreq
        if above := [str(n) for n in load.concurrency or () if n > limit]:
            queued = f"maxreq {limit}: concurrency {', '.join(above)} would only queue"
            self._note(f"{queued}; {limit} is measured instead")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def items(self, order: Iterable[RestartKey], rows_prior: int) -> tuple[Item, ...]:
        """One exploring item for each cell, in the order given."""
        return tuple(
            Item.of(key, self.loads[key], reason=f"{self.reasons[key]}, {against_prior(key, rows_prior)}")
            for key in order
        )

    def left_out(self) -> tuple[Excluded, ...]:
        """What was asked for and is not run."""
        return tuple(Excluded(key=key, reason=reason) for key, reason in self.excluded.items())


def as_served(key: RestartKey, dialect: Dialect) -> RestartKey:
    """The key as this engine lives it: a chain has one fixed budget and no topk, no graphs have no cap."""
    changes: dict[str, int | None] = {}
    if dialect.width == "block_size":
        changes["budget"] = key.block_size - 1
    if not dialect.capabilities.tree:
        changes["topk"] = 1
    if not key.graphs:
        changes["graph_max_bs"] = None
    return msgspec.structs.replace(key, **changes)


def indistinct(key: RestartKey, dialect: Dialect) -> RestartKey:
    """The key without what this dialect cannot tell the engine: equal means the same service."""
    blank: dict[str, int | None] = {"budget": 1, "topk": 1, "maxreq": 1, "block_size": 2}
    blank |= {"graph_max_bs": None, "attention_backend": None}
    changes = {name: value for name, value in blank.items() if not dialect.changes(name)}
    if not dialect.graphs_off:
        changes["graphs"] = True
    return msgspec.structs.replace(key, **changes)


def obstacle_to(key: RestartKey, dialect: Dialect) -> str | None:
    """Why a service under this key cannot be what it says, or None."""
    depth = key.block_size - 1
    if dialect.capabilities.topk and (nodes := tree_capacity(key.topk, depth, key.budget)) < key.budget:
        tree = f"a tree of topk {key.topk} and depth {depth} holds at most {nodes} nodes"
        return f"{tree}, fewer than budget {key.budget}"
    broken = dialects.broken_rules(dialect, key)
    return f"dialect {dialect.name} refuses it: {'; '.join(broken)}" if broken else None


def tree_capacity(topk: int, depth: int, enough: int) -> int:
    """Nodes of the full tree, root excluded: the sum of topk^d for d = 1 .. depth.

    Counting stops once there are ``enough``, because the sum grows beyond all use.
    """
    if topk == 1:
        return depth
    nodes, level = 0, 1
    for _ in range(depth):
        level *= topk
        nodes += level
        if nodes >= enough:
            break
    return nodes


def against_prior(key: RestartKey, rows_prior: int) -> str:
    """What the rows prior says about a key, in words."""
    if not key.graphs:
        return f"{key.rows} rows, not captured"
    side = "within" if key.rows <= rows_prior else "above"
    return f"{key.rows} rows, {side} the prior of {rows_prior}"


def _why_same(asked: RestartKey, known: RestartKey, dialect: Dialect) -> str:
    fields = RestartKey.__struct_fields__
    names = [name for name in fields if getattr(asked, name) != getattr(known, name)]
    if names == ["graph_max_bs"] and not asked.graphs:
        return "without graphs a graph cap changes nothing"
    return f"dialect {dialect.name} has no setting for {' and '.join(names)}"
