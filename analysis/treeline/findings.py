"""What a failed task's result says about the cause, and which part of it says so. No Ansible here.

Any playbook is read in the same way: a verdict that the task itself brings, journal lines in the result, then
stderr, message, traceback and stdout. The first part with a known class decides and is named as the basis.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from treeline.plain import clean
from treeline.signatures import classify_journal, classify_text
from treeline.signatures.verdict import LogVerdict

UNKNOWN = "unknown"

BASIS_RECORD = "record of the trial"
BASIS_OWN = "verdict in the result"
BASIS_FIELDS = "fields of the result"
BASIS_JOURNAL = "journal lines in the result"
BASIS_CENSORED = "hidden by no_log"
BASIS_UNREACHABLE = "the host did not answer"
BASIS_NO_TEXT = "the result has no text"

_PARTS = {
    "stderr": "stderr",
    "module_stderr": "stderr of the module",
    "msg": "task message",
    "reason": "task message",
    "exception": "traceback",
    "stdout": "stdout",
    "module_stdout": "stdout of the module",
}
"""Fields of a result with text, in the order in which they are asked, and what they are called."""

_JOURNAL_FIELDS = ("journal", "journal_lines", "journal_tail")
_JOURNAL_LINE = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT\S+ \S+ \S+: "  # short-iso
    r"|\{.*\"__(?:CURSOR|REALTIME_TIMESTAMP)\""  # json
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)",  # cat, as the engine begins its lines
    re.MULTILINE,
)
_TEXT_LIMIT = 256 * 1024
_JOURNAL_LIMIT = 64 * 1024 * 1024


class Finding(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """What the part of a result that decided says, in full."""

    class_: str
    phase: str | None = None
    kind: str = "none"
    """What the failure may decide: config, node, transient, setup or none."""
    confidence: str | None = None
    first_error: str | None = None
    rank: int | None = None
    captured_bs: int | None = None
    secondary: tuple[str, ...] = ()
    advice: str = ""
    references: tuple[str, ...] = ()


def find(values: Mapping[str, Any], action: str) -> tuple[Finding | None, str]:
    """Return what a task's result (plain values) says about the cause, and on what basis.

    Nothing is found where the result is hidden or our own module tells facts that the record will judge.
    """
    if censored(values):
        return None, BASIS_CENSORED
    if values.get("unreachable"):
        return None, BASIS_UNREACHABLE
    ours = action.rpartition(".")[2].startswith("treeline_")
    if ours and isinstance(values.get("class"), str) and values["class"]:
        return _own(values), BASIS_OWN
    lines = journal_of(values)
    if lines is not None:
        found = in_journal(lines)
        if found is not None:
            return found, BASIS_JOURNAL
    if ours and "outcome" in values:
        return None, BASIS_FIELDS
    asked: list[str] = []
    for part, text in _texts(values):
        verdict = classify_text(text)
        name = f"journal lines in the {part}" if _JOURNAL_LINE.search(text) else part
        if _known(verdict):
            return _finding(verdict), name
        if part not in asked:
            asked.append(part)
    if not asked:
        return None, BASIS_NO_TEXT
    return Finding(class_=UNKNOWN), f"no known class in {_listed(asked)}"


def in_journal(lines: Sequence[bytes]) -> Finding | None:
    """Return the cause that the journal of a failed service tells, None when it tells none."""
    verdict = classify_journal(lines, alive=False)
    return _finding(verdict) if _known(verdict) else None


def journal_of(values: Mapping[str, Any]) -> list[bytes] | None:
    """Return the journal lines that a result carries: a list or text, or gzip in base64; None without any."""
    for name in _JOURNAL_FIELDS:
        value = values.get(name)
        if isinstance(value, list):
            lines = [str(line).encode() for line in value]
        elif isinstance(value, str):
            lines = _unpack(value).split(b"\n")
        else:
            continue
        if any(lines):
            return lines
    return None


def censored(values: Mapping[str, Any]) -> bool:
    """Tell whether Ansible hides this result (no_log)."""
    return "censored" in values or bool(values.get("_ansible_no_log"))


def _unpack(text: str) -> bytes:
    """A journal that a module packed for the way; anything else is the journal itself."""
    try:
        packed = base64.b64decode(text, validate=True)
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as stream:
            return stream.read(_JOURNAL_LIMIT)
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error):
        return text.encode("utf-8", "replace")[-_JOURNAL_LIMIT:]


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, part in _PARTS.items():
        if isinstance(values.get(name), str) and values[name].strip():
            yield part, values[name][-_TEXT_LIMIT:]
    for item in values.get("results") or []:
        if isinstance(item, Mapping) and item.get("failed") and not censored(item):
            yield from ((f"{part} of an item", text) for part, text in _texts({**item, "results": None}))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _known(verdict: LogVerdict) -> bool:
    return verdict.class_ not in (UNKNOWN, "ok")


def _finding(verdict: LogVerdict) -> Finding:
    return Finding(
        class_=verdict.class_,
        phase=verdict.phase,
        kind=verdict.kind,
        confidence=verdict.confidence,
        first_error=verdict.first_error,
        rank=verdict.rank,
        captured_bs=verdict.captured_bs,
        secondary=verdict.secondary,
        advice=verdict.advice,
        references=verdict.references,
    )


def _own(values: Mapping[str, Any]) -> Finding:
    def text(name: str) -> str | None:
        return clean(values[name]) if isinstance(values.get(name), str) and values[name] else None

    return Finding(
        class_=clean(values["class"], 200),
        phase=text("phase"),
        kind=text("kind") or "none",
        first_error=text("first_error"),
        advice=text("advice") or "",
    )
