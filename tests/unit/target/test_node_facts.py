"""When the node is to blame for a trial, by what its GPUs said before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_tools import B300, LOST, RESET
from treeline import node_facts
from treeline.signatures import classify_text
from treeline_target import gpu_facts, gpu_tool, kernel_log


def gpu(row: str = B300.format(index=0, used=0), **values: Any) -> dict[str, Any]:
    """A GPU as the target's program reads it."""
    cells = tuple(part.strip() for part in row.split(","))
    (read,) = gpu_facts.parse_gpus(gpu_tool.Table(gpu_facts.GPU_FIELDS, (cells,)))
    return {**read, **{name.replace("__", "."): value for name, value in values.items()}}


def side(*gpus: dict[str, Any], problem: str | None = None, holders: Any = ()) -> dict[str, Any]:
    return {"at": "", "problem": problem, "hung": False, "gpus": list(gpus), "holders": list(holders)}


@pytest.mark.parametrize(
    ("name", "before", "after", "says"),
    [
        ("ecc__errors__uncorrected__volatile__total", 0, 1, "1 more uncorrected memory errors (ECC, since"),
        ("ecc__errors__uncorrected__aggregate__total", 14, 16, "2 more uncorrected memory errors (ECC, over"),
        ("remapped_rows__uncorrectable", 0, 1, "1 more memory rows remapped"),
        ("retired_pages__double_bit__count", 1, 2, "1 more memory pages retired"),
        ("remapped_rows__failure", "No", "Yes", "a memory row could not be remapped"),
        ("remapped_rows__pending", "0", "1", "a memory row waits to be remapped"),
        ("retired_pages__pending", "No", "Yes", "a memory page waits to be retired"),
        ("gpu_recovery_action", "None", "Drain and Reset", "asks for its recovery (Drain and Reset)"),
    ],
)
def test_what_appears_during_a_trial_is_a_fault(name: str, before: Any, after: Any, says: str) -> None:
    fault = node_facts.node_fault(side(gpu(**{name: before})), side(gpu(**{name: after})))
    assert fault is not None
    assert fault.startswith("GPU 0 (GPU-0f6e7a7c-7314-46f8-abc4-b88b36dcf3aa): ")
    assert says in fault
    # What was there before is an old story, and what fell was reset.
    assert node_facts.node_fault(side(gpu(**{name: after})), side(gpu(**{name: after}))) is None
    assert node_facts.node_fault(side(gpu(**{name: after})), side(gpu(**{name: before}))) is None


def test_what_is_not_told_is_not_zero() -> None:
    told = gpu(ecc__errors__uncorrected__aggregate__total=5)
    silent = gpu(ecc__errors__uncorrected__aggregate__total=None)
    assert node_facts.node_fault(side(silent), side(told)) is None
    assert node_facts.node_fault(side(told), side(silent)) is None


def test_lost_gpus_are_faults_with_and_without_a_look_before() -> None:
    lost = {**gpu(LOST), "uuid": gpu()["uuid"]}
    for before in (side(gpu()), None):
        assert "its state is: lost" in str(node_facts.node_fault(before, side(lost)))
    assert "asks for its recovery (Reset)" in str(node_facts.node_fault(None, side(gpu(RESET))))
    assert "is not listed any more" in str(node_facts.node_fault(side(gpu(), gpu(RESET)), side(gpu())))


def test_a_tool_that_fails_counts_only_where_it_says_that_the_gpu_is_gone() -> None:
    gone = "nvidia-smi exited 15: Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error"
    assert node_facts.node_fault(side(gpu()), side(problem=gone)) == f"the GPU query tool says: {gone}"
    slow = "nvidia-smi did not answer within 15 s"
    assert node_facts.node_fault(side(gpu()), side(problem=slow)) is None


@pytest.mark.parametrize("before", [None, {}, {"gpus": None}, {"gpus": ["x"]}])
@pytest.mark.parametrize("after", [None, {}, {"gpus": None, "holders": "x"}, {"gpus": [{}], "problem": 5}])
def test_any_shape_is_taken(before: Any, after: Any) -> None:
    assert node_facts.node_fault(before, after) is None
    assert node_facts.intruders(after) is None


def test_who_held_memory_beside_the_trial_is_named() -> None:
    def one(place: str, unit: str | None = "u.service", memory: Any = 10.4) -> dict[str, Any]:
        return {"pid": 7, "command": "x", "unit": unit, "cgroup": "/g", "memory_mib": memory, "place": place}

    assert node_facts.intruders(side(gpu(), holders=[one("trial"), one("gone")])) is None
    said = node_facts.intruders(side(gpu(), holders=[one("foreign", None, None), one("orphan")]))
    assert said == (
        "other processes held GPU memory while the trial ran: pid 7 (x) of control group /g, an unknown "
        "amount; pid 7 (x) of u.service, 10 MiB"
    )


def test_the_target_and_the_catalogue_know_the_same_failures_of_a_node() -> None:
    by_catalogue = {
        code
        for code in range(1, 200)
        if classify_text(f"kernel: NVRM: Xid (PCI:0000:3b:00): {code}, a report").kind == "node"
    }
    assert by_catalogue == set(kernel_log.NODE_XIDS)


def test_failures_of_the_node_between_two_times(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(
        "2026-01-01T00:00:00Z NVRM: Xid (PCI:0000:3b:00): 79, before\n"
        "2026-01-01T00:00:10Z NVRM: Xid (PCI:0000:3b:00): 31, pid=7, name=python3, an application's fault\n"
        "2026-01-01T00:00:11Z NVRM: Xid (PCI:0000:3b:00): 119, Timeout waiting for RPC from GSP\n"
        "2026-01-01T00:00:30Z NVRM: Xid (PCI:0000:3b:00): 74, after\n"
    )
    start = 1_767_225_605_000_000
    found = kernel_log.node_faults(str(log), start, start + 10_000_000)
    assert found == ["NVRM: Xid (PCI:0000:3b:00): 119, Timeout waiting for RPC from GSP"]
    assert kernel_log.node_faults("none", start, start) == []
    assert kernel_log.node_faults(str(tmp_path / "absent"), start, start) == []
