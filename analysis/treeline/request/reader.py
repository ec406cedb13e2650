"""Read the variables of one request, collecting what is wrong with each instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar, cast

from treeline.keys import KEY_FIELDS, PlainStruct
from treeline.request import values
from treeline.request.problems import FaultError, Problem, show
from treeline.request.public import ALLOWED

T = TypeVar("T")
Baseline = Literal["auto", "skip"]

# How an axis of the restart key reads one of its values.
READ_ONE: dict[str, Callable[[Any], Any]] = {
    "budget": values.whole,
    "topk": values.whole,
    "maxreq": values.whole,
    "block_size": lambda value: values.whole(value, 2),
    "graphs": values.switch,
    "graph_max_bs": values.optional(values.whole),
    "attention_backend": values.optional(values.backend),
}


class Options(PlainStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a sweep is run, as far as it does not change what is measured. ``ready_timeout`` is in seconds.

    ``max_restarts`` and ``max_hours`` are what the whole sweep may cost; None is no limit.
    """

    ready_timeout: int = 1800
    fail_on_bad: bool = False
    interrupt_traffic: bool = False
    max_trials_per_run: int = 200
    baseline: Baseline = "skip"
    max_restarts: int | None = None
    max_hours: float | None = None
    use_memory: bool = False


class Reader:
    """The given variables and the problems found so far."""

    def __init__(self, variables: Mapping[str, Any], command_line: Iterable[str]) -> None:
        self.variables = {name: value for name, value in variables.items() if value is not None}
        self.command_line = frozenset(command_line)
        self.problems: list[Problem] = []

    def forced(self, name: str) -> bool:
        """Whether a variable was given with -e, and so outranks what a points file says."""
        return name in self.variables and name in self.command_line

    def origin(self, name: str) -> str:
        """Where the value of a variable came from, for messages."""
        return "given with -e" if name in self.command_line else "from the inventory or a vars file"

    def read(self, name: str, read: Callable[[Any], T]) -> T | None:
        """The variable through ``read``; None when it is not given or a problem was noted."""
        if name not in self.variables:
            return None
        return self.judge(name, self.variables[name], read, self.origin(name), ALLOWED[name])

    def judge(self, name: str, value: Any, read: Callable[[Any], T], origin: str, allowed: str) -> T | None:
        """One value through ``read``; a fault becomes a problem and None."""
        try:
            return read(value)
        except FaultError as fault:
            self.problems.append(Problem(name, fault.wrong, fault.shown, origin, allowed))
            return None

    def complain(self, name: str, wrong: str, allowed: str | None = None) -> None:
        """Note a problem with a variable that has a value."""
        shown = show(self.variables[name]) if name in self.variables else ""
        origin = self.origin(name) if name in self.variables else ""
        self.problems.append(Problem(name, wrong, shown, origin, allowed or ALLOWED[name]))


def read_axes(reader: Reader) -> dict[str, tuple[Any, ...]]:
    """The axes of the restart key that were given and can be read."""
    axes: dict[str, tuple[Any, ...]] = {}
    for name in KEY_FIELDS:
        found = reader.read(name, values.switches if name == "graphs" else _axis_of(READ_ONE[name]))
        if found is not None:
            axes[name] = found
    return axes


def _axis_of(read_one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda value: values.axis(value, read_one)


def counts(value: Any) -> tuple[int, ...]:
    """An axis of whole numbers >= 1."""
    return values.axis(value, values.whole)


def read_options(reader: Reader, baseline: Baseline | None) -> Options:
    """The options that were given, else their defaults."""
    given: dict[str, Any] = {
        "ready_timeout": reader.read("ready_timeout", values.whole),
        "fail_on_bad": reader.read("fail_on_bad", values.switch),
        "interrupt_traffic": reader.read("interrupt_traffic", values.switch),
        "max_trials_per_run": reader.read("max_trials_per_run", values.whole),
        "baseline": baseline,
        "max_restarts": reader.read("max_restarts", values.whole),
        "max_hours": reader.read("max_hours", values.hours),
        "use_memory": reader.read("use_memory", values.switch),
    }
    return Options(**{name: value for name, value in given.items() if value is not None})


def baseline_word(value: Any) -> Baseline:
    """``auto`` or ``skip``."""
    return cast(Baseline, values.word(value, ("auto", "skip")))
