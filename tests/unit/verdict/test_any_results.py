"""Whatever the steps return, there is a verdict and it can be written down."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from treeline.keys import ClientKey, Item, Plan, RestartKey
from treeline.records import Controller, Started, Sweep, TrialLine
from treeline.steps import NAMES, Steps
from treeline.trial_record import Ended, Kept, finished, measurements

KEY = RestartKey(budget=16, topk=8, maxreq=64, block_size=8, graphs=True)
ITEM = Item.of(KEY, [ClientKey(concurrency=1)], reason="grid")
CLAIM = Started(
    trial_id="s-0001",
    sweep_id="s",
    item_id=ITEM.item_id,
    cell=ITEM.cell,
    purpose="explore",
    ordinal=1,
    host="lab1",
    hardware_class="cpu",
    key=KEY,
    at="2026-01-01T00:00:00.000Z",
    seq=1,
    reason="grid",
    controller=Controller(host="h", boot_id="b", pid=1, pid_start=1),
)
SWEEP = Sweep(
    sweep_id="s",
    plan_hash="abcdef01",
    plan=Plan(kind="points", items=(ITEM,)),
    dialect="field",
    created_at="2026-01-01T00:00:00.000Z",
)
# Every name that is read somewhere, so that odd values reach the code that reads them.
FIELDS = [
    "failed",
    "unreachable",
    "skipped",
    "msg",
    "rc",
    "state",
    "status",
    "failed_when_result",
    "outcome",
    "invocation_id",
    "main_pid",
    "served",
    "server_info",
    "mismatches",
    "captured_width",
    "proof",
    "phases",
    "result",
    "ready_s",
    "started_at_monotonic",
    "at_monotonic",
    "previous_invocation_id",
    "canaries",
    "points",
    "engine",
    "load_s",
    "alive",
    "end",
    "preempted_by",
    "stopped_by_others",
    "lost_lines",
    "notes",
    "lease_lost",
]
INNER = [
    "id",
    "phase",
    "ok",
    "error",
    "finish",
    "concurrency",
    "context",
    "complete",
    "requests",
    "failed",
    "completion_tokens",
    "verify_calls",
    "output_tok_s",
    "prefix_cache_share",
    "garble",
    "flagged",
    "of",
    "name",
    "simulated",
    "overrun_share",
    "invocation_id",
    "ours",
    "result",
    "expected",
    "served",
    "trial_id_in_env",
    "expected_width",
    "extrapolated",
    "fault",
    "engine",
    "al",
    "window",
    "at",
    "errors",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["ready", "died", "timeout", "mismatch", "done", "preempted", "new", "old"])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=5),
    max_leaves=12,
)
RESULTS = st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=3, max_size=20) | LEAVES


@settings(max_examples=100, deadline=None)
@given(raw=st.dictionaries(st.sampled_from(NAMES), RESULTS))
def test_any_results_give_a_record_that_reads_back(raw: dict[str, Any]) -> None:
    ended = Ended("s-0001", ITEM, Steps.of(raw))
    kept = Kept()
    line = finished(SWEEP, CLAIM, ended, kept, "2026-01-01T00:01:00.000Z")
    data = msgspec.json.encode(line)
    assert msgspec.json.decode(data, type=TrialLine) == line
    rows = measurements(line, ended.steps.load.mappings("points"), kept.remarks)
    for row in rows:
        assert msgspec.json.decode(msgspec.json.encode(row), type=type(row)) == row
