"""Faults: what goes wrong, in which phase, and when; the data behind a profile's rule.

Kinds:

* an id of ``profiles/errors.yml``: the engine dies of it. ``phase`` says where (default: the error's own);
  in ``serving`` it strikes after ``after_requests`` finished requests or ``after_s`` seconds. ``ranks``
  print it, first first; with ``interleave`` line by line in turn. ``sigquit_first``: the parent's line stands
  in the journal before the error. ``kernel``: lines for the stand-in of the kernel log.
* ``hang`` (phase weights or graph_capture), ``killed`` (phase weights, graph_capture or serving), ``slow``
  (``factor``, or ``seconds`` for one start-up ``phase``; phase serving with ``after_requests``: steps take
  ``factor`` times as long), ``exit`` (cleanly, ``after_s`` after ready), ``port_taken``.
* what is decoded: ``garbled`` (nonsense, no draft accepted), ``collapse`` (right text, no draft accepted),
  ``salad`` (nonsense at the usual acceptance), ``repetition`` (goes round in circles at the usual
  acceptance), ``spec_off`` (plain decoding, from the start). The others begin after ``after_requests``
  finished requests; ``salad`` and ``repetition`` moreover in each answer after ``after_tokens``, only in
  batches of ``min_batch``, and they hit ``share`` of the tokens.
* ``stall``: no step is made any more (after ``after_requests``); with ``health: true`` probes are answered
  all the same.
* ``warm_cache``: ``share`` of every prompt is found in the prefix cache, flushed or not, as with a store
  below it that outlives the service.
* on the wire: ``http_reset``, ``http_half_chunk``, ``http_bad_json``, ``http_error_frame``, ``http_stall``
  (each after ``after_chunks`` chunks), ``http_429``, ``http_503``: every ``every``-th streamed generation
  after ``after_requests`` of them.

Finished requests are counted without health probes, and with ``when_running: N`` only those that end while
at least N requests run: a load's, not the canaries before it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from .data_files import ProfileError, known
from .errors import EngineError, error_named, error_names

LIFE = ("hang", "killed", "slow", "exit", "port_taken", "stall")
CACHE = ("warm_cache",)
DECODING = ("garbled", "collapse", "salad", "repetition", "spec_off")
WIRE = (
    "http_reset",
    "http_half_chunk",
    "http_bad_json",
    "http_error_frame",
    "http_stall",
    "http_429",
    "http_503",
)
PHASES = ("args", "dist_init", "weights", "kv_pool", "graph_capture", "http", "warmup", "serving")


@dataclass(frozen=True)
class Fault:
    """What goes wrong; see the module's text."""

    kind: str
    phase: str = "serving"
    ranks: tuple[int, ...] = (0,)
    interleave: bool = False
    sigquit_first: bool = False
    kernel: tuple[str, ...] = ()
    captured_bs: int | None = None
    after_requests: int | None = None
    when_running: int = 1
    after_s: float | None = None
    after_tokens: int = 0
    after_chunks: int = 2
    min_batch: int = 1
    share: float = 1.0
    every: int = 1
    factor: float = 1.0
    seconds: float | None = None
    health: bool = False

    @property
    def crash(self) -> bool:
        """Whether the engine dies of an error that it prints."""
        return self.kind in error_names()

    @property
    def error(self) -> EngineError:
        """What it prints. Only for a crash."""
        return error_named(self.kind)

    @property
    def ends_start(self) -> bool:
        """Whether the engine dies of it before it serves."""
        return (self.crash or self.kind in ("hang", "killed")) and self.phase not in ("warmup", "serving")

    def strikes_in(self, phase: str) -> bool:
        """Whether this fault belongs to a phase of the start-up."""
        return self.phase == phase and (self.crash or self.kind in ("hang", "killed"))


def parse_fault(given: Any, where: str) -> Fault:
    """A fault from its mapping. Raises ProfileError."""
    values = dict(given or {})
    known(values, tuple(item.name for item in fields(Fault)), f"{where}, fault")
    kinds = (*LIFE, *CACHE, *DECODING, *WIRE, *error_names())
    kind = values.get("kind")
    if kind not in kinds:
        raise ProfileError(f"{where}, fault.kind: {kind!r} is not one of {', '.join(kinds)}.")
    if kind in error_names():
        values.setdefault("phase", error_named(kind).phase)
    if values.get("phase", "serving") not in PHASES:
        raise ProfileError(f"{where}, fault.phase: {values['phase']!r} is not one of {', '.join(PHASES)}.")
    for name in ("ranks", "kernel"):
        if name in values:
            values[name] = tuple(values[name] or ())
    values["ranks"] = values.get("ranks") or (0,)
    share = values.get("share", 1.0)
    if not 0 < share <= 1:
        raise ProfileError(f"{where}, fault.share: {share!r} is not above 0 and at most 1.")
    return Fault(**values)


def due(fault: Fault, finished: int, seconds: float) -> bool:
    """Whether a fault of the serving phase has come, ``seconds`` after ready."""
    if fault.after_requests is not None:
        return finished >= fault.after_requests
    return seconds >= (fault.after_s or 0.0)
