"""Who may be on a GPU before a start, and memory that nobody accounts for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from treeline_target import gpu_empty, gpu_facts, gpu_holders, gpu_orphans
from treeline_target.gpu_facts import App, Facts

GPUS = ("GPU-a", "GPU-b")


@pytest.fixture
def sleeper() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "60"])
    yield process.pid
    process.kill()
    process.wait()


def proc_with(folder: Path, groups: dict[int, str]) -> Path:
    """A /proc in which the processes have these control groups."""
    for pid, group in groups.items():
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "cgroup").write_text(f"0::{group}\n")
        (folder / str(pid) / "cmdline").write_bytes(b"python3\0-m\0sglang\0--api-key\0sesame\0")
    return folder


def test_each_holder_has_its_place(tmp_path: Path) -> None:
    proc = proc_with(
        tmp_path,
        {
            1: "/init.scope",
            11: "/system.slice/found.service",
            12: "/system.slice/down.service/child",
            13: "/system.slice/trial.service",
            14: "/system.slice/docker-0123.scope",
            15: "/user.slice/user-1000.slice/session-3.scope",
        },
    )
    apps = [App(pid, "x", 100.0, "GPU-a") for pid in (11, 12, 13, 14, 15, 99)]
    apps.append(App(11, "x", 50.0, "GPU-b"))
    found = gpu_holders.find(Facts("tool", apps=tuple(apps)), proc=proc)
    up = {"found.service"}
    placed = gpu_holders.place(found, ["found.service", "down.service"], "trial.service", up.__contains__)
    assert {holder.pid: holder.place for holder in placed} == {
        11: "found",
        12: "orphan",
        13: "orphan",
        14: "foreign",
        15: "foreign",
        99: "gone",
    }
    first = placed[0]
    assert (first.memory_mib, first.gpus) == (150.0, GPUS)
    assert "sesame" not in str(first)
    assert str(placed[3]) == (
        "pid 14 (python3 -m sglang --api-key ***), of docker-0123.scope, holding 100 MiB of GPU memory"
    )
    running = gpu_holders.place(found, ["found.service"], "trial.service", lambda unit: True)
    assert [holder.place for holder in running if holder.pid == 13] == ["trial"]


def gpu(uuid: str, used: float | None, total: float | None = 81920) -> dict[str, gpu_facts.Value]:
    return {"uuid": uuid, "index": GPUS.index(uuid), "memory.used": used, "memory.total": total}


def test_memory_without_a_process_is_what_the_driver_does_not_need() -> None:
    app = App(1, "x", 40000.0, "GPU-a")
    facts = Facts("tool", gpus=(gpu("GPU-a", 50000), gpu("GPU-b", 600)), apps=(app,))
    assert gpu_holders.unexplained(facts) == {"GPU-a": 10000}
    (line,) = gpu_holders.describe_unexplained(gpu_holders.unexplained(facts), facts)
    assert line.startswith("GPU 0 (GPU-a): 10000 MiB are in use although no process is shown")
    # A large GPU's driver keeps more; what is not told is not taken for nothing.
    assert gpu_holders.unexplained(Facts("tool", gpus=(gpu("GPU-a", 2700, 275040),))) == {}
    unknown = Facts("tool", gpus=(gpu("GPU-a", 50000),), apps=(App(1, "x", None, "GPU-a"),))
    assert gpu_holders.unexplained(unknown) == {}
    assert gpu_holders.unexplained(Facts("tool", gpus=(gpu("GPU-a", None),))) == {}
    assert gpu_holders.unexplained(Facts("tool", gpus=(gpu("GPU-a", 50000),), hidden=1)) == {}


def test_only_the_units_own_group_is_ever_killed() -> None:
    assert gpu_orphans._group_of("a.service", "/system.slice/a.service/b") == "/system.slice/a.service"
    assert gpu_orphans._group_of("a.service", "/system.slice/a.service") == "/system.slice/a.service"
    for path in ("", "/", "/system.slice", "/system.slice/a.service.d/x", "/system.slice/xa.service"):
        assert gpu_orphans._group_of("a.service", path) is None


def test_a_pid_that_went_to_another_process_is_not_the_orphan(sleeper: int) -> None:
    holder = gpu_holders.Holder(sleeper, "x", "/system.slice/a.service", "a.service", 1.0, ("GPU-a",))
    # It lives, but in another group: what we looked for is gone, and the process is left alone.
    assert gpu_orphans._still_there(holder, Path("/proc")) is False
    assert gpu_orphans.state_of(sleeper) in ("S", "R", "D")
    assert gpu_orphans.state_of(2**22 + 1) == ""
    os.kill(sleeper, 0)


def test_a_tool_that_does_not_answer_keeps_a_trial_from_starting(tmp_path: Path) -> None:
    asked = gpu_empty._Asked(str(tmp_path / "tool"), "t.service", ["f.service"], ["f.service"])
    path = tmp_path / "tool"
    path.write_text("#!/bin/sh\necho 'No devices were found'\nexit 6\n")
    path.chmod(0o755)
    with pytest.raises(gpu_empty.NotEmptyError, match="exited 6: No devices were found") as caught:
        gpu_empty._look(asked)
    assert "treeline_gpu_query" in str(caught.value)
