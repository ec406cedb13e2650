"""Both readers of an engine's log, on the target and on the controller, find the same in the same lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from logs import ARGS, LOADED, SERVING, STARTED, decode, entry, systemd
from treeline.signatures import classify_journal
from treeline_target import journal, markers

CORPUS = Path(__file__).resolve().parents[2] / "data" / "corpus"
DDTREE = "[TP0] Capture DDTREE verify CUDA graph begin. backend=full, num_tokens_per_req=17, avail mem=1 GB"
PIECEWISE = "[TP0] Capture piecewise CUDA graph begin. num_tokens_per_req=4, avail mem=1 GB"
LIFE = (ARGS, *LOADED, PIECEWISE, DDTREE, *SERVING, decode(4.5))


def both(lines: list[str]) -> tuple[journal.LogFacts, tuple[str | None, int | None]]:
    """What the target finds, and phase and width as the controller finds them."""
    facts = journal.log_facts(json.loads(line) for line in lines)
    verdict = classify_journal(lines, alive=True)
    return facts, (verdict.reached_phase, verdict.captured_width)


@pytest.mark.parametrize("count", range(1, len(LIFE) + 1))
def test_every_beginning_of_a_life(count: int) -> None:
    lines = [systemd(STARTED), *(entry(line, at=at) for at, line in enumerate(LIFE[:count], 2))]
    facts, found = both(lines)
    assert (facts.reached or markers.PHASES[0], facts.captured_width) == found


@pytest.mark.parametrize(("line", "width"), [(DDTREE, 17), (PIECEWISE, None)])
def test_a_capture_is_a_capture_also_as_bytes(line: str, width: int | None) -> None:
    for message in (line, list(f"\x1b[33m{line}\x1b[0m".encode())):
        facts, found = both([systemd(STARTED), *(entry(one) for one in LOADED), entry(message)])
        assert found == ("graph_capture", width)
        assert (facts.reached, facts.captured_width) == found


@pytest.mark.parametrize("name", ["healthy_byte_arrays.log", "cut_lines.log"])
def test_labelled_logs(name: str) -> None:
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    verdict = classify_journal(lines, alive=None)
    facts = journal.log_facts(json.loads(line) for line in lines)
    assert (facts.reached, facts.captured_width) == (verdict.reached_phase, verdict.captured_width)


def test_markers_name_every_phase() -> None:
    named = [phase for _, phase in (*markers.LOADING, *markers.SERVING, markers.DECODE, markers.STOPPING)]
    assert set(named) | {"args", "graph_capture"} == set(markers.PHASES)
