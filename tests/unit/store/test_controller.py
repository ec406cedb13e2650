"""Which process runs a sweep, and whether it lives."""

from __future__ import annotations

import multiprocessing
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
from treeline.controller import boot_id, liveness, process_start, this_controller
from treeline.records import Controller


def _in_worker(pipe: multiprocessing.connection.Connection) -> None:
    pipe.send(msgspec.to_builtins(this_controller()))


def test_a_worker_names_the_process_that_forked_it() -> None:
    ours, theirs = multiprocessing.Pipe()
    worker = multiprocessing.get_context("fork").Process(target=_in_worker, args=(theirs,))
    worker.start()
    said = ours.recv()
    worker.join(timeout=10)
    assert said["pid"] == os.getpid()
    assert said == msgspec.to_builtins(this_controller())
    assert said["pid_start"] == process_start(os.getpid())


def test_a_process_is_alive_until_it_ends_even_unreaped() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    start = process_start(child.pid)
    assert start is not None
    controller = Controller(host=socket.gethostname(), boot_id=boot_id(), pid=child.pid, pid_start=start)
    assert liveness(controller) == "alive"
    child.kill()
    deadline = time.monotonic() + 10
    while liveness(controller) == "alive":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert liveness(controller) == "dead"
    child.wait(timeout=10)
    assert liveness(controller) == "dead"


def test_a_later_process_with_the_same_number_is_another() -> None:
    mine = this_controller()
    assert liveness(mine) == "alive"
    assert liveness(msgspec.structs.replace(mine, pid_start=mine.pid_start - 1)) == "dead"


def test_another_boot_of_this_machine_is_dead_and_another_machine_is_elsewhere() -> None:
    mine = this_controller()
    assert liveness(msgspec.structs.replace(mine, boot_id="another")) == "dead"
    assert liveness(msgspec.structs.replace(mine, boot_id="another", host="other")) == "elsewhere"


def test_a_container_of_this_machine_is_elsewhere_and_never_dead() -> None:
    mine = this_controller()
    assert mine.pid_namespace == os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the target is no path
    gone = msgspec.structs.replace(mine, pid=2**22 + 1)
    assert liveness(gone) == "dead"
    assert liveness(msgspec.structs.replace(gone, host="another-container")) == "elsewhere"
    assert liveness(msgspec.structs.replace(gone, pid_namespace="pid:[1]")) == "elsewhere"


def test_a_record_without_a_pid_namespace_is_judged_by_its_pid() -> None:
    mine = msgspec.structs.replace(this_controller(), pid_namespace=None)
    assert liveness(mine) == "alive"
    old = {key: value for key, value in msgspec.to_builtins(mine).items() if key != "pid_namespace"}
    assert msgspec.convert(old, Controller) == mine


def test_a_program_name_with_parentheses_is_no_trap(tmp_path: Path) -> None:
    (tmp_path / "77").mkdir()
    fields = " ".join(str(number) for number in range(4, 50))
    (tmp_path / "77" / "stat").write_text(f"77 (a) b) (c) S {fields}")
    assert process_start(77, tmp_path) == 22
    (tmp_path / "77" / "stat").write_text(f"77 (a) Z {fields}")
    assert process_start(77, tmp_path) is None
    assert process_start(78, tmp_path) is None
