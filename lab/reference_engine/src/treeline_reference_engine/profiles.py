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
        fault: {kind: ..., phase: ..., ...}     # see faults.py
        expect: {class: ..., phase: ..., ...}   # what a reader of the log has to find
        extrapolated: true     # not observed anywhere: shown in /server_info
      - when: {budget: 3}
        profile: cublas-capture  # fault and expect of that profile's one rule

Conditions may name: speculative, graphs, budget, topk, maxreq, block_size, width, captured_bs (the largest),
rows (largest captured batch x width; eager: maxreq x width), tp_size, attention_backend.

Packaged profiles are files of their own or entries of ``profiles/crashes.yml`` and ``profiles/load.yml``,
which hold one rule each. ``python -m treeline_reference_engine.profiles`` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .data_files import FOLDER, ProfileError, known, packaged, read_mapping
from .faults import Fault, parse_fault
from .hardware import Memory, StartupTimes, Timing
from .server_args import ServerArgs

__all__ = ["FOLDER", "Fault", "Profile", "ProfileError", "Rule", "facts_of", "load", "names", "parse"]

COLLECTIONS = ("crashes", "load")
_NO_PROFILES = (*COLLECTIONS, "errors")
_EXPECT = ("status", "class", "phase", "step", "rank", "captured_bs", "secondary", "kernel")
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


@dataclass(frozen=True)
class Rule:
    """One row of a profile. ``expect`` is what a reader of the log has to find (empty: not declared)."""

    name: str
    when: Mapping[str, Any]
    fault: Fault
    extrapolated: bool = False
    expect: Mapping[str, Any] = field(default_factory=dict)

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Whether every condition holds."""
        return all(_matches(facts[name], wanted) for name, wanted in self.when.items())


@dataclass(frozen=True)
class Profile:
    """A simulated machine."""

    name: str
    title: str
    timing: Timing
    startup: StartupTimes
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
    files = {path.stem for path in FOLDER.iterdir() if path.suffix in (".yml", ".json")}
    entries = {name for collection in COLLECTIONS for name in packaged(collection)}
    return sorted(files.difference(_NO_PROFILES) | entries)


def load(name: str) -> Profile:
    """The packaged profile ``name``, or the one in the file ``name``. Raises ProfileError."""
    path = Path(name)
    if path.suffix in (".yml", ".yaml", ".json"):
        return parse(read_mapping(path), name)
    for collection in COLLECTIONS:
        entry = packaged(collection).get(name)
        if entry is not None:
            return parse(_from_entry(name, entry), f"{collection}.yml, {name}")
    if name not in names():
        raise ProfileError(
            f"--fault-profile: {name!r} is no packaged profile ({', '.join(names())}) and no .yml file."
        )
    return parse(packaged(name), name)


def _from_entry(name: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The profile of an entry in a collection: its one rule is written without the list."""
    rule = {key: entry[key] for key in ("when", "fault", "expect") if key in entry}
    return {"name": name, "title": entry.get("title", ""), "rules": [{"name": name, **rule}]}


def parse(data: Mapping[str, Any], where: str) -> Profile:
    """A profile from its mapping. Raises ProfileError."""
    known(data, ("name", "title", "hardware", "rules"), where)
    hardware = data.get("hardware", "b300-kimi-k26")
    if isinstance(hardware, str):
        hardware = packaged(f"hardware/{Path(hardware).name}")
    known(hardware, ("timing", "startup", "memory"), f"{where}, hardware")
    try:
        timing, startup = Timing(**hardware["timing"]), StartupTimes(**hardware["startup"])
        memory = Memory(**hardware["memory"])
    except (KeyError, TypeError) as error:
        raise ProfileError(f"{where}, hardware: {error}") from error
    rules = tuple(
        _rule(row, f"{where}, rule {number}") for number, row in enumerate(data.get("rules") or [], start=1)
    )
    return Profile(str(data.get("name", where)), str(data.get("title", "")), timing, startup, memory, rules)


def _rule(row: Mapping[str, Any], where: str) -> Rule:
    known(row, ("name", "when", "profile", "fault", "expect", "extrapolated", "note"), where)
    when, expect = row.get("when") or {}, row.get("expect") or {}
    known(when, _CONDITIONS, f"{where}, when")
    known(expect, _EXPECT, f"{where}, expect")
    for name, wanted in when.items():
        if isinstance(wanted, Mapping):
            known(wanted, _BOUNDS, f"{where}, when.{name}")
    if "profile" in row:
        (other,) = load(str(row["profile"])).rules
        return replace(other, when=when)
    fault = parse_fault(row.get("fault"), where)
    return Rule(str(row.get("name", where)), when, fault, bool(row.get("extrapolated", False)), expect)


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


def table() -> str:
    """The packaged profiles with what each rule does and what a reader has to find."""
    lines = []
    for name in names():
        profile = load(name)
        lines.append(f"{name}: {profile.title}")
        for rule in profile.rules:
            found = ", ".join(f"{key} {value}" for key, value in rule.expect.items())
            lines.append(f"    {rule.fault.kind} in {rule.fault.phase}" + (f" -> {found}" if found else ""))
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
