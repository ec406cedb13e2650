"""The raw results of a trial's steps, as Ansible registered them, turned into something one can rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from treeline.plain import clean, to_plain

T = TypeVar("T")

NAMES = ("begin", "configure", "restart", "ready", "load", "evidence")


@dataclass(frozen=True)
class StepResult:
    """One step: whether it ran at all, how Ansible saw it end, and what its module returned."""

    ran: bool = False
    failed: bool = False
    unreachable: bool = False
    message: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, kind: type[T]) -> T | None:
        """The returned value of that name where it has this type, else None. Whole numbers do for floats."""
        value = self.data.get(name)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if isinstance(value, bool) and kind is not bool:
            return None
        return value if isinstance(value, kind) else None

    def text(self, name: str) -> str | None:
        """A returned text that is not empty, else None."""
        return self.get(name, str) or None

    def mappings(self, name: str) -> list[dict[str, Any]]:
        """A returned list of mappings; anything else counts as empty."""
        return [entry for entry in self.get(name, list) or [] if isinstance(entry, dict)]


@dataclass(frozen=True)
class Steps:
    """All steps of one trial."""

    begin: StepResult = StepResult()
    configure: StepResult = StepResult()
    restart: StepResult = StepResult()
    ready: StepResult = StepResult()
    load: StepResult = StepResult()
    evidence: StepResult = StepResult()

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Steps:
        """Read the registered results; absent, empty and skipped ones have not run."""
        return cls(**{name: step_result(raw.get(name)) for name in NAMES})

    def each(self) -> list[tuple[str, StepResult]]:
        """The steps in the order in which they run."""
        return [(name, getattr(self, name)) for name in NAMES]


def step_result(raw: Any) -> StepResult:
    """Read one registered result. A soft failure (``failed_when: false``) is a failure here."""
    if not isinstance(raw, Mapping) or not raw:
        return StepResult()
    data = to_plain(raw)
    if data.get("skipped"):
        return StepResult()
    return StepResult(
        ran=True,
        failed=bool(data.get("failed")) or _failed_softly(data),
        unreachable=bool(data.get("unreachable")),
        message=clean(data.get("msg") or data.get("stderr") or ""),
        data=data,
    )


def _failed_softly(data: Mapping[str, Any]) -> bool:
    """``failed_when: false`` turns ``failed`` off; the message of a service module that failed stays.

    A systemd_service that worked returns the unit's ``state`` or ``status`` and no message.
    """
    if "failed_when_result" not in data:
        return False
    return bool(data.get("rc")) or bool(data.get("msg") and "state" not in data)
