"""What is looked for in a log, all at once: the strings of every class, and the marks of a life's course."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Literal, NamedTuple

from treeline_target import markers

from treeline.signatures.catalogue import Catalogue, Signature
from treeline.signatures.scanner import Engine, Scanner, open_scanner

Role = Literal[
    "start",  # systemd begins a life of the unit
    "ended",  # systemd says that a life is over
    "bytes",  # JSON: the text is a byte array
    "cut",  # JSON: the text goes on in another entry
    "loading",  # a phase marker of which every time counts
    "serving",  # a phase marker of which the first counts
    "stopping",  # systemd stops the unit
    "capture",  # a graph capture begins
    "captured",  # a graph capture is over
    "bar",  # progress of a capture
    "dies",  # a process says that it is about to die
    "exception",  # the last line of a traceback
    "asked",  # the engine's echo of its arguments
    "tree",  # the verify width that the tree worker expects
    "health",  # a health check without an answer
    "rank",  # the parent names the rank of a scheduler
    "suppressed",  # journald dropped lines
    "lost",  # a text that was not stored, or not exported
    "class",  # a string of the catalogue
]


class Needle(NamedTuple):
    """One thing to look for."""

    pattern: bytes
    """A regular expression over the raw log, in the syntax that all scanners share."""
    role: Role
    text: str = ""
    """The fixed string that a message must hold, for roles that have one."""
    phase: str = ""


def _fixed(role: Role, *texts: str, phase: str = "") -> list[Needle]:
    return [Needle(re.escape(text.encode()), role, text, phase) for text in texts]


DIED = ("Main process exited", "Failed with result", "Failed to start ")
"""How systemd's lines begin, or go on, when the main process ended badly or was never started."""

OWN = [
    *_fixed("start", "systemd[1]: Started ", "systemd[1]: Starting "),
    Needle(rb'"MESSAGE"\s*:\s*"Start(?:ed|ing) ', "start"),
    Needle(rb"(?:^|Z )Start(?:ed|ing) \S+\.service", "start"),
    *_fixed("ended", *DIED, "Deactivated successfully", "systemd[1]: Stopped "),
    Needle(rb'"MESSAGE"\s*:\s*"Stopped ', "ended"),
    Needle(rb'"MESSAGE"\s*:\s*\[', "bytes"),
    Needle(rb'"_LINE_BREAK"', "cut"),
    *(needle for text, phase in markers.LOADING for needle in _fixed("loading", text, phase=phase)),
    *(needle for text, phase in markers.SERVING for needle in _fixed("serving", text, phase=phase)),
    *_fixed("capture", markers.CAPTURE_BEGIN, phase="graph_capture"),
    *_fixed("captured", " graph end"),
    *_fixed("bar", "Capturing batches (bs="),
    *_fixed("stopping", f"systemd[1]: {markers.STOPPING[0]}", phase=markers.STOPPING[1]),
    Needle(rb'"MESSAGE"\s*:\s*"Stopping ', "stopping", "", markers.STOPPING[1]),
    *_fixed("dies", "Scheduler hit an exception", "terminate called ", "Fatal Python error: "),
    Needle(rb'\w(?:Error|Exception|Interrupt|OutOfResources)(?:[:"\r\\]|$)', "exception"),
    *_fixed("asked", "speculative_algorithm"),
    *_fixed("tree", "tree_budget="),
    *_fixed("health", "Health check failed"),
    Needle(rb"Rank \d+ scheduler", "rank"),
    *_fixed("suppressed", "Suppressed "),
    *_fixed("lost", "B blob data]"),
    Needle(rb'"MESSAGE"\s*:\s*null', "lost"),
]


class Needles:
    """Everything to look for in a log, ready to scan."""

    def __init__(self, catalogue: Catalogue, engine: Engine | None = None) -> None:
        literals: dict[str, list[Signature]] = {}
        for signature in catalogue.signatures:
            for literal in signature.literals:
                literals.setdefault(literal, []).append(signature)
        self._needles = OWN + [needle for literal in literals for needle in _fixed("class", literal)]
        self._signatures = [*([] for _ in OWN), *literals.values()]
        self._numbers: dict[str, list[int]] = {}
        for number, signatures in enumerate(self._signatures):
            for signature in signatures:
                self._numbers.setdefault(signature.id, []).append(number)
        self._exceptions = {n for n, needle in enumerate(self._needles) if needle.role == "exception"}
        self._of_the_start = {
            number
            for number, signatures in enumerate(self._signatures)
            if signatures and all(signature.of_the_start for signature in signatures)
        }
        self.scanner: Scanner = open_scanner([needle.pattern for needle in self._needles], engine)

    def __getitem__(self, number: int) -> Needle:
        return self._needles[number]

    def has(self, numbers: Iterable[int], role: Role) -> bool:
        """Tell whether one of what was found plays a role."""
        return any(self._needles[number].role == role for number in numbers)

    def only_exception(self, numbers: set[int], *, served: bool) -> bool:
        """Tell whether a line holds nothing but the name of an exception.

        served: the engine serves and nothing of it is dying, so that classes of its start do not count.
        """
        return numbers <= (self._exceptions | self._of_the_start if served else self._exceptions)

    def signatures(self, numbers: Iterable[int]) -> list[Signature]:
        """Return the classes of which a string was found, each once."""
        return list({s.id: s for number in numbers for s in self._signatures[number]}.values())

    def in_text(self, text: str) -> set[int]:
        """Return the numbers of what a piece of text holds."""
        return {number for number, _end in self.scanner.scan(text.encode("utf-8", "replace"), ())}

    def settled_by(self, class_id: str, known: Container[str]) -> list[int]:
        """Return the strings of a class that can show no class but those that are known."""
        return [
            number
            for number in self._numbers.get(class_id, ())
            if all(signature.id in known for signature in self._signatures[number])
        ]
