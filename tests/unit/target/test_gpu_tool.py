"""The GPU query tool: its answers are read, what it does not know is left out, and it never holds us up."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from gpu_tools import tool
from treeline_target import gpu_tool

REFUSAL = 'Field "%s" is not a valid field to query.'


def test_a_tool_that_is_not_there_and_one_that_must_not_be_asked(tmp_path: Path) -> None:
    missing = str(tmp_path / "none-such")
    assert gpu_tool.find(missing) is None
    assert gpu_tool.absence(missing) == f"no GPU query tool on this host ({missing})"
    assert gpu_tool.find("none") is None
    assert "treeline_gpu_query: none" in gpu_tool.absence("none")
    present = tool(tmp_path, "true")
    assert gpu_tool.find(present) == present


def test_fields_that_a_version_does_not_know_are_left_out_and_named(tmp_path: Path) -> None:
    # As driver 535 does: one complaint on standard output, status 2, nothing on standard error.
    path = tool(
        tmp_path,
        f'echo "$1" >> {tmp_path}/asked',
        'case "$1" in',
        f"  *gpu_recovery_action*) echo '{REFUSAL % 'gpu_recovery_action'}'; exit 2 ;;",
        f"  *remapped_rows*) echo '{REFUSAL % 'remapped_rows.pending'}'; exit 2 ;;",
        '  *) echo "0, 31" ;;',
        "esac",
    )
    fields = (
        "index",
        "remapped_rows.pending",
        "gpu_recovery_action",
        "remapped_rows.failure",
        "temperature.gpu",
    )
    table = gpu_tool.query(path, "gpu", fields)
    assert table.fields == ("index", "temperature.gpu")
    assert table.rows == (("0", "31"),)
    assert set(table.unknown) == {"gpu_recovery_action", "remapped_rows.pending", "remapped_rows.failure"}
    assert table.problem is None
    asked = (tmp_path / "asked").read_text().splitlines()
    # A field takes its group with it: each refusal costs a whole run of the tool.
    assert len(asked) == 3


def test_one_that_refuses_every_field_or_fails_says_what_it_said(tmp_path: Path) -> None:
    refuses = tool(tmp_path, f"echo '{REFUSAL % 'index'}'; exit 2")
    with pytest.raises(gpu_tool.GpuToolError, match="exited 2: Field"):
        gpu_tool.query(refuses, "gpu", ["index"])
    broken = tool(
        tmp_path,
        'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."',
        "exit 9",
        name="broken",
    )
    with pytest.raises(gpu_tool.GpuToolError, match="exited 9: NVIDIA-SMI has failed") as caught:
        gpu_tool.query(broken, "gpu", ["index"])
    assert not caught.value.hung
    unusable = tmp_path / "text"
    unusable.write_text("no program")
    unusable.chmod(0o755)
    with pytest.raises(gpu_tool.GpuToolError, match="cannot be run"):
        gpu_tool.query(str(unusable), "gpu", ["index"])


def test_rows_beside_a_complaint_are_kept(tmp_path: Path) -> None:
    path = tool(
        tmp_path,
        'echo "Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error" >&2',
        'echo "0, 31"; echo "1, 32"; exit 15',
    )
    table = gpu_tool.query(path, "gpu", ["index", "temperature.gpu"])
    assert len(table.rows) == 2
    assert "Unable to determine the device handle for GPU0000:CB:00.0" in str(table.problem)


def test_a_tool_that_hangs_is_killed_with_its_children_and_not_waited_for(tmp_path: Path) -> None:
    path = tool(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child", "wait")
    started = time.monotonic()
    with pytest.raises(gpu_tool.GpuToolError, match=r"did not answer within 1 s") as caught:
        gpu_tool.query(path, "gpu", ["index"], timeout_s=1)
    assert caught.value.hung
    assert time.monotonic() - started < 6
    child = int((tmp_path / "child").read_text())
    assert _is_gone(child)


def test_commas_in_a_process_name_belong_to_it(tmp_path: Path) -> None:
    path = tool(
        tmp_path, 'echo "42, /opt/tools/mem, hog, 818, GPU-abc"; echo "43, [Not Found], [N/A], GPU-abc"'
    )
    table = gpu_tool.query(path, "compute-apps", ("pid", "process_name", "used_memory", "gpu_uuid"))
    assert table.rows == (
        ("42", "/opt/tools/mem, hog", "818", "GPU-abc"),
        ("43", "[Not Found]", "[N/A]", "GPU-abc"),
    )


def _is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
