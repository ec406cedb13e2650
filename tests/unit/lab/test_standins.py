"""The lab's stand-ins say what the real things say, and that they are none."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from treeline.signatures import classify_journal
from treeline_lab import gpu_query, standins
from treeline_target import gpu_facts, gpu_tool

CLASSES = {
    **dict.fromkeys((48, 63, 64, 92, 94, 95), "xid_memory"),
    **dict.fromkeys((74, 145, 149), "xid_link"),
    79: "xid_bus",
    **dict.fromkeys((119, 120), "xid_gsp"),
    154: "xid_recovery",
}


def classify(folder: Path, *lines: str) -> Any:
    """The verdict on an engine that lives while the kernel says this."""
    start = 1_790_000_000_000_000
    own = {
        "MESSAGE": "The server is fired up and ready to roll!",
        "__REALTIME_TIMESTAMP": str(start),
        "_PID": "4711",
        "_SYSTEMD_INVOCATION_ID": "a" * 32,
        "_SYSTEMD_UNIT": "t.service",
    }
    kernel = [
        {"MESSAGE": line, "__REALTIME_TIMESTAMP": str(start + 1 + at), "_TRANSPORT": "kernel"}
        for at, line in enumerate(lines)
    ]
    for name, entries in (("journal.gz", [own]), ("kernel.gz", kernel)):
        with gzip.open(folder / name, "wt") as stream:
            stream.writelines(json.dumps(entry) + "\n" for entry in entries)
    return classify_journal(folder / "journal.gz", alive=True, kernel=folder / "kernel.gz")


@pytest.mark.parametrize("code", sorted(standins.XID_TEXTS))
def test_every_planted_xid_is_what_the_classifier_takes_it_for(code: int, tmp_path: Path) -> None:
    line = standins.xid_line(code)
    assert line.startswith(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid='<unknown>', name=<unknown>, ")
    assert line.endswith("(planted by treeline-lab, not real)")
    log = classify(tmp_path, line)
    if code in CLASSES:
        assert (log.class_, log.kind) == (CLASSES[code], "node")
    else:  # faults of the application: no cause of their own
        assert log.kind != "node"
        assert "xid_app" in log.secondary


def test_an_xid_of_another_program_is_none_of_our_business(tmp_path: Path) -> None:
    ours, other = standins.xid_line(48, 4711), standins.xid_line(48, 99, "blender")
    assert "pid=4711, name=python3" in ours
    assert classify(tmp_path, ours).class_ == "xid_memory"
    assert classify(tmp_path, other).class_ == "ok"


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """The stand-in tool with a state file of its own: two GPUs, this process holds memory of the second."""
    gpus = [{**standins.GPU, "uuid": f"GPU-{at}", "pci.bus_id": str(at)} for at in range(2)]
    start = gpu_query.start_of(str(os.getpid()))
    holders = [
        {"pid": os.getpid(), "start": start, "gpu": 1, "mib": 700},
        {"pid": os.getpid(), "start": "1", "gpu": 1, "mib": 9999},  # a pid that went to another process
    ]
    fields = ["index", "uuid", "pci.bus_id", *standins.GPU]
    state = tmp_path / "gpus.json"
    state.write_text(json.dumps({"fields": fields, "gpus": gpus, "holders": holders, "answer": None}))
    script = tmp_path / "tool"
    text = Path(gpu_query.__file__).read_text().replace("/etc/treeline-lab/gpus.json", str(state))
    script.write_text(text)
    script.chmod(0o755)
    return str(script)


def test_the_stand_in_tool_answers_all_that_is_asked(tool: str) -> None:
    facts = gpu_facts.look(tool)
    assert facts.problem is None
    asked = (("gpu", gpu_facts.GPU_FIELDS), ("compute-apps", gpu_facts.APP_FIELDS))
    assert [gpu_tool.query(tool, of, fields).unknown for of, fields in asked] == [(), ()]
    assert facts.hardware_class == "2x Stand-in GPU of treeline-lab"
    assert facts.driver == "stand-in"
    assert [gpu["memory.used"] for gpu in facts.gpus] == [4, 704]
    assert [(app.pid, app.used_memory, app.gpu_uuid) for app in facts.apps] == [(os.getpid(), 700, "GPU-1")]


def test_it_refuses_and_fails_as_the_real_one_does(tool: str, tmp_path: Path) -> None:
    table = gpu_tool.query(tool, "gpu", ["index", "no.such", "power.draw"])
    assert (table.fields, table.unknown) == (("index", "power.draw"), ("no.such",))
    state = tmp_path / "gpus.json"
    said = {**json.loads(state.read_text()), "answer": "No devices were found"}
    state.write_text(json.dumps(said))
    assert "exited 9: No devices were found" in str(gpu_facts.look(tool).problem)
    state.write_text(json.dumps({**said, "answer": "hang"}))
    assert gpu_facts.look(tool, timeout_s=1).hung


def test_its_loop_ends_with_its_reader(tool: str) -> None:
    argv = [tool, "--query-gpu=index,power.draw", gpu_tool.FORMAT, "-l", "1"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    assert process.stdout.readline() == b"0, 100.00\n"
    process.stdout.close()
    assert process.wait(10) != 0
