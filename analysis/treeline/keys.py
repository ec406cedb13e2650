"""The identities that every part of a sweep shares: restart keys, client keys, items and plans.

All of these are immutable values with a JSON form (``to_dict``/``from_dict``). Counts are plain
integers: ``budget`` is in draft nodes (root excluded), ``maxreq`` and ``concurrency`` in requests,
``context`` in prompt tokens, ``rows`` in tokens of one captured verify step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Self

import msgspec

# Goes into file names, argument lists and reports, so it stays a plain word.
BACKEND_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9_.\-]*\Z"

Purpose = Literal["explore", "confirm", "audit", "anchor", "retry", "baseline"]
PlanKind = Literal["grid", "points", "frontier"]
Stage = Literal["frontier", "throughput", "confirm"]
STAGES: tuple[Stage, ...] = ("frontier", "throughput", "confirm")
# Measured in every service life where no concurrencies are asked for, besides maxreq itself.
DEFAULT_CONCURRENCY = (1, 8, 32)
# What finalists are ranked by: the highest tok/s at any load, or at one concurrency. With the clients of a
# closed loop fixed, more tok/s and less time per token are the same order.
OBJECTIVE_PATTERN = r"^(throughput|(throughput|latency)@[1-9][0-9]{0,5})\Z"

Count = Annotated[int, msgspec.Meta(ge=1)]
BackendName = Annotated[str, msgspec.Meta(pattern=BACKEND_PATTERN, max_length=64)]

# How a switch such as graphs may be written, besides true and false.
SWITCH_WORDS = {"on": True, "yes": True, "true": True, "off": False, "no": False, "false": False}

# The default, and what nearly every sweep keeps; a label names the block size only where it is another.
USUAL_BLOCK_SIZE = 8

_JSON = msgspec.json.Encoder(order="deterministic")


class PlainStruct(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value with a plain-Python (JSON-ready) form."""

    def to_dict(self) -> dict[str, Any]:
        """Return dicts, lists, strings, numbers, booleans and None only; fields in canonical order."""
        plain: dict[str, Any] = msgspec.json.decode(_JSON.encode(self))
        return plain

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Build the value from its plain form.

        Raises:
            msgspec.ValidationError: a field is missing, unknown, of the wrong type or out of range.
        """
        return msgspec.convert(data, cls)


class RestartKey(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What needs a new service life when it changes. Field order is the canonical order.

    Budget 0 is the service without speculation, the baseline; topk and block size say nothing then.
    """

    budget: Annotated[int, msgspec.Meta(ge=0)]
    topk: Count
    maxreq: Count
    block_size: Annotated[int, msgspec.Meta(ge=2)]
    graphs: bool
    graph_max_bs: Count | None = None
    attention_backend: BackendName | None = None

    @property
    def speculative(self) -> bool:
        """Whether drafts are made and verified at all."""
        return self.budget > 0

    @property
    def width(self) -> int:
        """Verify width of a tree dialect: the tokens one request adds to a verify step."""
        return self.budget + 1

    @property
    def captured_bs(self) -> int:
        """Largest batch that a CUDA graph is captured for: the graph cap, never above maxreq."""
        return min(self.graph_max_bs or self.maxreq, self.maxreq)

    @property
    def rows(self) -> int:
        """Captured batch size x verify width: the rows that the captured kernels see."""
        return self.captured_bs * self.width

    @property
    def slug(self) -> str:
        """A name that is safe in file names, such as ``b16-k8-m64-bs8-g1`` (the cell)."""
        parts = [
            f"b{self.budget}",
            f"k{self.topk}",
            f"m{self.maxreq}",
            f"bs{self.block_size}",
            f"g{int(self.graphs)}",
        ]
        if self.graph_max_bs is not None:
            parts.append(f"gm{self.graph_max_bs}")
        if self.attention_backend is not None:
            parts.append(f"ab_{self.attention_backend}")
        return "-".join(parts)

    @property
    def label(self) -> str:
        """The key for people, such as ``budget 16 topk 8 maxreq 64 graphs on``."""
        if not self.speculative:
            return self._spelled(f"speculation off maxreq {self.maxreq}")
        return self._spelled(f"budget {self.budget} topk {self.topk} maxreq {self.maxreq}")

    @property
    def short_label(self) -> str:
        """The same in fewer letters, such as ``b16 k8 m64 graphs on``."""
        tree = f"b{self.budget} k{self.topk}" if self.speculative else "no spec"
        return self._spelled(f"{tree} m{self.maxreq}")

    @property
    def slice_label(self) -> str:
        """What it shares with the cells of its frontier, for people, such as ``topk 8 graphs on``."""
        return self._spelled(f"topk {self.topk}")

    def _spelled(self, tree: str) -> str:
        """The usual three parameters as given, and every other part that is not at its default."""
        parts = [tree]
        if self.block_size != USUAL_BLOCK_SIZE:
            parts.append(f"block size {self.block_size}")
        parts.append(f"graphs {'on' if self.graphs else 'off'}")
        if self.graph_max_bs is not None:
            parts.append(f"graph cap {self.graph_max_bs}")
        if self.attention_backend is not None:
            parts.append(f"attention {self.attention_backend}")
        return " ".join(parts)


KEY_FIELDS: tuple[str, ...] = RestartKey.__struct_fields__
"""Parts of a restart key in the canonical order; the columns of tables and the variables of a request."""


class ClientKey(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one service life can be asked for without a restart."""

    concurrency: Count
    context: Count | None = None

    @property
    def label(self) -> str:
        """The key for people, such as ``concurrency 32`` or ``concurrency 8 context 4096``."""
        context = "" if self.context is None else f" context {self.context}"
        return f"concurrency {self.concurrency}{context}"


def busiest_first(client_keys: Iterable[ClientKey]) -> tuple[ClientKey, ...]:
    """Distinct client keys, the highest concurrency first, then the longest context."""
    return tuple(sorted(set(client_keys), key=lambda key: (-key.concurrency, -(key.context or 0))))


class Load(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The concurrencies and contexts to measure in every service life; None: the default."""

    concurrency: tuple[Count, ...] | None = None
    context: tuple[Count, ...] | None = None

    def keys(self, maxreq: int) -> set[ClientKey]:
        """Client keys for a service that takes ``maxreq`` requests; more than that would only queue."""
        asked = self.concurrency or (*DEFAULT_CONCURRENCY, maxreq)
        contexts: tuple[int | None, ...] = self.context or (None,)
        return {
            ClientKey(concurrency=min(concurrency, maxreq), context=context)
            for concurrency in asked
            for context in contexts
        }


class Item(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One planned trial: a cell, why it is run, and the how-many-eth run for that purpose.

    ``soak_s``: after its load the service is kept at maxreq for so many seconds. ``lives_group``: lives of
    several cells that are run in turns, so that they may be compared with one another, carry the same name.
    """

    item_id: str
    cell: str
    key: RestartKey
    purpose: Purpose
    ordinal: Count
    reason: str
    client_keys: tuple[ClientKey, ...]
    soak_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    lives_group: str | None = None

    @classmethod
    def of(
        cls,
        key: RestartKey,
        client_keys: Iterable[ClientKey],
        *,
        reason: str,
        purpose: Purpose = "explore",
        ordinal: int = 1,
        soak_s: float | None = None,
        lives_group: str | None = None,
    ) -> Self:
        """Build an item and its ids from a key; the client keys are put busiest first."""
        return cls(
            item_id=f"{key.slug}/{purpose}/{ordinal}",
            cell=key.slug,
            key=key,
            purpose=purpose,
            ordinal=ordinal,
            reason=reason,
            client_keys=busiest_first(client_keys),
            soak_s=soak_s,
            lives_group=lives_group,
        )

    def again(self, purpose: Purpose, ordinal: int, reason: str) -> Item:
        """The same cell and load for another purpose or ordinal."""
        return Item.of(self.key, self.client_keys, reason=reason, purpose=purpose, ordinal=ordinal)


class Excluded(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cell that was asked for and will not be run, and why."""

    key: RestartKey
    reason: str


class Column(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One budget of a slice with the request limits that may be tried there, ascending."""

    budget: Count
    maxreqs: tuple[Count, ...]


class Slice(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Cells that share a frontier: everything but budget and maxreq is fixed. Budgets ascend."""

    topk: Count
    block_size: Annotated[int, msgspec.Meta(ge=2)]
    graphs: bool
    graph_max_bs: Count | None = None
    attention_backend: BackendName | None = None
    columns: tuple[Column, ...]

    def key(self, budget: int, maxreq: int) -> RestartKey:
        """The restart key of one cell."""
        return RestartKey(
            budget=budget,
            topk=self.topk,
            maxreq=maxreq,
            block_size=self.block_size,
            graphs=self.graphs,
            graph_max_bs=self.graph_max_bs,
            attention_backend=self.attention_backend,
        )

    @property
    def label(self) -> str:
        """The slice for people, such as ``topk 8 graphs on``."""
        return self.key(1, 1).slice_label

    def restart_keys(self) -> Iterator[RestartKey]:
        """The restart keys of all its cells, budget by budget."""
        for column in self.columns:
            for limit in column.maxreqs:
                yield self.key(column.budget, limit)

    @property
    def family(self) -> tuple[int, bool, int | None, str | None]:
        """What must be equal for one slice's staircase to be a first guess of another's: all but topk."""
        return (self.block_size, self.graphs, self.graph_max_bs, self.attention_backend)


class Frontier(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a frontier plan searches; its items follow from this and from what became of those before.

    ``rows_prior`` orders and guesses, it forbids nothing. ``audit_share`` of the implied cells is audited,
    chosen by a hash of the cell and ``salt``.
    """

    slices: tuple[Slice, ...]
    load: Load = Load()
    rows_prior: Count = 1200
    audit_share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    confirm: bool = True
    throughput: bool = False
    salt: str = ""


class Finals(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lives after the search: finalists in turns between anchors, and a soak of the winner.

    ``lives`` 0: no finalists are compared. ``soak_s`` None: no soak.
    """

    lives: Annotated[int, msgspec.Meta(ge=0)] = 3
    finalists: Count = 2
    soak_s: Annotated[float, msgspec.Meta(gt=0)] | None = None
    objective: Annotated[str, msgspec.Meta(pattern=OBJECTIVE_PATTERN)] = "throughput"


class Known(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one hardware class brings along from earlier sweeps.

    ``bad``: cells that the crash memory knows, with the words why. ``baseline``: where the stored reference
    stands; None where there is none and a plan with a baseline measures it.
    """

    bad: dict[str, str] = {}
    baseline: str | None = None


class Plan(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep will run, in order, and what it leaves out.

    A frontier plan has no ``items``: ``frontier`` says what is searched, and the items follow from the
    history. ``baseline`` is run first where no stored one fits.
    """

    kind: PlanKind
    items: tuple[Item, ...]
    excluded: tuple[Excluded, ...] = ()
    frontier: Frontier | None = None
    finals: Finals | None = None
    baseline: Item | None = None

    def __post_init__(self) -> None:
        """Keep kind and content together. Raises ValueError."""
        if (self.kind == "frontier") != (self.frontier is not None):
            raise ValueError(f"a plan of kind {self.kind} and a frontier to search do not go together")

    def restart_keys(self) -> Iterator[RestartKey]:
        """The restart keys of all its cells, in the order of the plan; a baseline is none of them."""
        yield from dict.fromkeys(item.key for item in self.items)
        if self.frontier is not None:
            for part in self.frontier.slices:
                yield from part.restart_keys()

    def digest(self, dialect: str) -> str:
        """Eight hex digits that say "the same measurements": the plan hash.

        Kind, dialect, restart keys, client keys, purposes and ordinals count. The order of the
        items, the words of the reasons and what was excluded do not, so that the same command
        with its lists in another order resumes the same sweep.
        """
        cells = [
            {
                "key": item.key,
                "purpose": item.purpose,
                "ordinal": item.ordinal,
                "client_keys": busiest_first(item.client_keys),
            }
            for item in sorted(self.items, key=lambda item: item.item_id)
        ]
        measured: dict[str, Any] = {"kind": self.kind, "dialect": dialect, "items": cells}
        # Only where it is there: plans without it keep the hash that they always had.
        if self.frontier is not None:
            measured["frontier"] = self.frontier
        if self.finals is not None:
            measured["finals"] = self.finals
        if self.baseline is not None:
            measured["baseline"] = {"key": self.baseline.key, "client_keys": self.baseline.client_keys}
        text = _JSON.encode(measured)
        return hashlib.sha256(text).hexdigest()[:8]
