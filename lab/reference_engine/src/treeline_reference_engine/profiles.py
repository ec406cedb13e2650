"""Fault profiles: which faults a simulated machine shows under which arguments, and how fast it is.

A profile is a YAML (or JSON) mapping::

    name: text
    title: text
    hardware: NAME | {timing: {...}, startup: {...}, memory: {...}}   # see profiles/hardware/
    rules:                     # the first rule whose `when` holds wins; no rule = no fault
      - name: text
        when:                  # every condition must hold; {} always holds
          graphs: true         # a value: equal
          budget: [16, 24]     # a list: one of these
          rows: {above: 1600}  # min, max (inclusive), above, below (exclusive)
        fault: {kind: ..., phase: ..., ...}
        extrapolated: true     # not observed anywhere: shown in /server_info

Conditions may name: speculative, graphs, budget, topk, maxreq, block_size, width, captured_bs (the largest),
rows (largest captured batch x width; eager: maxreq x width), tp_size, attention_backend.

Faults: ``cublas_execution_failed``, ``illegal_address`` and ``torch_oom`` (phase graph_capture, optional
``captured_bs``; or phase serving with ``after_requests`` or ``after_s``; ``ranks``: who prints it, first
first), ``hang`` and ``killed`` (phase weights or graph_capture), ``slow`` (``factor``, or ``seconds`` for one
``phase``), ``garbled``, ``spec_off``, ``exit`` (``after_s`` after ready).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .server_args import ServerArgs

FOLDER = Path(__file__).parent / "profiles"
CRASHES = ("cublas_execution_failed", "illegal_address", "torch_oom")
KINDS = (*CRASHES, "hang", "killed", "slow", "garbled", "spec_off", "exit")
PHASES = ("weights", "graph_capture", "serving")
_CONDITIONS = (
    "speculative",
    "graphs",
    "budget",
    "topk",
    "maxreq",
    "block_size",
    "width",
    "captured_bs",
    "rows",
    "tp_size",
    "attention_backend",
)
_BOUNDS = ("min", "max", "above", "below")


class ProfileError(ValueError):
    """A profile that cannot be used; the text names the file and the place."""


@dataclass(frozen=True)
class Timing:
    """Milliseconds; the formula stands in profiles/hardware/."""

    weights_ms: float
    speculation_ms: float
    row_ms: float
    eager_floor_ms: float
    eager_extra_ms: float
    prefill_ms: float
    prefill_token_ms: float

    def step_s(self, rows: int, speculative: bool, graph: bool) -> float:
        """Simulated seconds of one decode or verify step over ``rows`` rows."""
        milliseconds = self.weights_ms + (self.speculation_ms if speculative else 0.0) + self.row_ms * rows
        if not graph:
            milliseconds = max(self.eager_floor_ms, milliseconds) + self.eager_extra_ms
        return milliseconds / 1000.0

    def prefill_s(self, tokens: int) -> float:
        """Simulated seconds of a prefill of ``tokens`` new tokens."""
        return (self.prefill_ms + self.prefill_token_ms * tokens) / 1000.0


@dataclass(frozen=True)
class Startup:
    """Seconds per start-up phase at time scale 1."""

    dist_init_s: float
    weights_s: float
    kv_pool_s: float
    draft_weights_s: float
    worker_s: float
    capture_s: float
    ready_s: float


@dataclass(frozen=True)
class Memory:
    """Gigabytes per rank, for the log lines."""

    available_gb: float
    weights_gb: float
    kv_gb: float
    draft_gb: float
    graphs_gb: float
    max_total_num_tokens: int


@dataclass(frozen=True)
class Fault:
    """What goes wrong; see the module's text."""

    kind: str
    phase: str = "serving"
    ranks: tuple[int, ...] = (0,)
    captured_bs: int | None = None
    after_requests: int | None = None
    after_s: float | None = None
    factor: float = 1.0
    seconds: float | None = None

    @property
    def crash(self) -> bool:
        return self.kind in CRASHES


@dataclass(frozen=True)
class Rule:
    """One row of a profile."""

    name: str
    when: Mapping[str, Any]
    fault: Fault
    extrapolated: bool = False

    def holds(self, facts: Mapping[str, Any]) -> bool:
        return all(_matches(facts[name], wanted) for name, wanted in self.when.items())


@dataclass(frozen=True)
class Profile:
    """A simulated machine."""

    name: str
    title: str
    timing: Timing
    startup: Startup
    memory: Memory
    rules: tuple[Rule, ...] = field(default=())

    def match(self, args: ServerArgs) -> Rule | None:
        """The rule that holds for these arguments, if any."""
        facts = facts_of(args)
        return next((rule for rule in self.rules if rule.holds(facts)), None)


def facts_of(args: ServerArgs) -> dict[str, Any]:
    """What a rule's conditions see."""
    maxreq = int(args["max_running_requests"])
    captured = args.capture_sizes[-1] if args.capture_sizes else 0
    return {
        "speculative": args.speculative,
        "graphs": args.graphs,
        "budget": args.budget,
        "topk": args.topk,
        "maxreq": maxreq,
        "block_size": args.block_size,
        "width": args.width,
        "captured_bs": captured,
        "rows": (captured or maxreq) * args.width,
        "tp_size": args["tp_size"],
        "attention_backend": args["attention_backend"],
    }


def names() -> list[str]:
    """Packaged profiles."""
    return sorted({path.stem for path in FOLDER.iterdir() if path.suffix in (".yml", ".json")})


def load(name: str) -> Profile:
    """The packaged profile ``name``, or the one in the file ``name``. Raises ProfileError."""
    path = Path(name)
    if name in names():
        data = read_mapping(FOLDER / f"{name}.yml")
    elif path.suffix in (".yml", ".yaml", ".json"):
        data = read_mapping(path)
    else:
        raise ProfileError(
            f"--fault-profile: {name!r} is no packaged profile ({', '.join(names())}) and no .yml file."
        )
    return parse(data, name)


def parse(data: Mapping[str, Any], where: str) -> Profile:
    """A profile from its mapping. Raises ProfileError."""
    _known(data, ("name", "title", "hardware", "rules"), where)
    hardware = data.get("hardware", "b300-kimi-k26")
    if isinstance(hardware, str):
        hardware = read_mapping(FOLDER / "hardware" / f"{Path(hardware).name}.yml")
    _known(hardware, ("timing", "startup", "memory"), f"{where}, hardware")
    try:
        parts = (Timing(**hardware["timing"]), Startup(**hardware["startup"]), Memory(**hardware["memory"]))
    except (KeyError, TypeError) as error:
        raise ProfileError(f"{where}, hardware: {error}") from error
    rules = tuple(
        _rule(row, f"{where}, rule {number}") for number, row in enumerate(data.get("rules") or [], start=1)
    )
    return Profile(str(data.get("name", where)), str(data.get("title", "")), *parts, rules)


def _rule(row: Mapping[str, Any], where: str) -> Rule:
    _known(row, ("name", "when", "fault", "extrapolated", "note"), where)
    when = row.get("when") or {}
    _known(when, _CONDITIONS, f"{where}, when")
    for name, wanted in when.items():
        if isinstance(wanted, Mapping):
            _known(wanted, _BOUNDS, f"{where}, when.{name}")
    fault = dict(row.get("fault") or {})
    _known(fault, tuple(item.name for item in fields(Fault)), f"{where}, fault")
    if fault.get("kind") not in KINDS:
        raise ProfileError(f"{where}, fault.kind: {fault.get('kind')!r} is not one of {', '.join(KINDS)}.")
    if fault.get("phase", "serving") not in PHASES:
        raise ProfileError(f"{where}, fault.phase: {fault['phase']!r} is not one of {', '.join(PHASES)}.")
    fault["ranks"] = tuple(fault.get("ranks") or (0,))
    return Rule(str(row.get("name", where)), when, Fault(**fault), bool(row.get("extrapolated", False)))


def _known(mapping: Any, allowed: tuple[str, ...], where: str) -> None:
    if not isinstance(mapping, Mapping):
        raise ProfileError(f"{where}: a mapping is expected, not {type(mapping).__name__}.")
    for name in mapping:
        if name not in allowed:
            raise ProfileError(f"{where}: {name!r} is not known. Allowed: {', '.join(allowed)}.")


def _matches(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if value is None:
            return False
        checks = {
            "min": lambda bound: value >= bound,
            "max": lambda bound: value <= bound,
            "above": lambda bound: value > bound,
            "below": lambda bound: value < bound,
        }
        return all(checks[name](bound) for name, bound in wanted.items())
    if isinstance(wanted, list):
        return value in wanted
    return bool(value == wanted)


def read_mapping(path: Path) -> Mapping[str, Any]:
    """A YAML or JSON file. A packaged .yml may stand as .json instead: hosts need no YAML parser for it."""
    twin = path.with_suffix(".json")
    if path.suffix != ".json" and twin.exists():
        path = twin
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}.") from error
    try:
        data = json.loads(text) if path.suffix == ".json" else _yaml(text, path)
    except ValueError as error:
        raise ProfileError(f"{path}: {error}") from error
    if not isinstance(data, Mapping):
        raise ProfileError(f"{path}: a mapping is expected, not {type(data).__name__}.")
    return data


def _yaml(text: str, path: Path) -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ProfileError(
            f"{path}: this Python has no PyYAML; install python3-yaml or write it as JSON."
        ) from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProfileError(f"{path}: {error}") from error
