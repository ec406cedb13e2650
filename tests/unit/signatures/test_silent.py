"""What is wrong without an error line."""

from __future__ import annotations

import pytest
from logs import ARGS, CAPTURE, LOADED, SERVING, STARTED, decode, text
from treeline.signatures import LogVerdict, classify_journal

BEGIN = (f"systemd: {STARTED}", ARGS, *LOADED, CAPTURE, *SERVING)
UNANSWERED = (
    "[2026-03-04 10:09:00] Health check failed. Server couldn't get a response from detokenizer for last "
    "20 seconds."
)
TREE = "[2026-03-04 10:00:03 TP0] Initialized DDTree worker. block_size=8, tree_budget=32, max_tree_nodes=33"


def seen(*messages: str, width: int | None = None) -> tuple[LogVerdict, dict[str, str]]:
    verdict = classify_journal(text(*BEGIN, *messages), alive=None, expected_width=width)
    return verdict, {silence.what: silence.detail for silence in verdict.silent}


@pytest.mark.parametrize(
    ("lens", "what", "detail"),
    [
        ([1.0] * 5, "acceptance_floor", "at most 1.05 in the last 5 of 5 decode lines"),
        (
            [4.5, 4.1, 1.0, 1.0, 1.0],
            "acceptance_collapse",
            "the last 3 of 5 decode lines, and was up to 4.50 before",
        ),
    ],
)
def test_acceptance(lens: list[float], what: str, detail: str) -> None:
    verdict, silent = seen(*map(decode, lens))
    assert verdict.class_ == "silent_corruption"
    assert detail in silent[what]


def test_speculation_off_names_the_captured_width() -> None:
    verdict, silent = seen(*[decode(None)] * 4)
    assert verdict.class_ == "spec_disabled"
    assert silent["speculation_off"].endswith("graphs were captured for 17 tokens per request")


def test_a_width_other_than_expected() -> None:
    verdict, silent = seen(*[decode(4.5)] * 4, width=9)
    assert (verdict.class_, verdict.captured_width) == ("ok", 17)
    assert silent["width"] == "graphs were captured for 17 tokens per request, expected is 9"
    assert seen(*[decode(4.5)] * 4, width=17)[1] == {}
    assert seen(*[decode(4.5)] * 4)[1] == {}
    by_itself = classify_journal(text(*BEGIN[:3], TREE, *BEGIN[3:]), alive=None)
    assert [silence.what for silence in by_itself.silent] == ["width"]


def test_health_without_tokens() -> None:
    verdict, silent = seen(decode(4.5), UNANSWERED, UNANSWERED)
    assert (verdict.class_, verdict.phase, verdict.confidence) == ("unknown", "serving", "low")
    assert verdict.first_error == UNANSWERED
    assert "lines 10 to 11" in silent["no_tokens"]
    recovered, silent = seen(decode(4.5), UNANSWERED, decode(4.4))
    assert (recovered.class_, silent) == ("ok", {})
