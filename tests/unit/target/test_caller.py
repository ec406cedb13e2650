"""A module whose caller is gone notices, and renews its lease no more."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from treeline_target import caller, clock
from treeline_target.files import Paths, write_json

PACKAGE = str(Path(caller.__file__).parents[1])
LOOKING = """
import sys, time
from treeline_target.caller import Caller
looked = Caller()
assert looked.gone() is None, looked.gone()
print("started", flush=True)
deadline = time.monotonic() + 20
while looked.gone() is None and time.monotonic() < deadline:
    time.sleep(0.05)
open(sys.argv[1], "w").write(str(looked.gone()))
"""
KEEPING = """
import json, sys, time
from pathlib import Path
from treeline_target import lease
from treeline_target.files import Paths
folder, holder = Path(sys.argv[1]), json.loads(sys.argv[2])
paths = Paths(folder / "state", folder / "run", folder / "units", folder / "overrides")
with lease.Keeper({"seconds": 2, "holder": holder}, paths) as keeper:
    print("started", flush=True)
    time.sleep(20)
"""
HOLDER = {"sweep_id": "s1", "host": "ctl", "boot_id": "b", "pid": 17, "pid_start": 4}


def start(program: str, *arguments: str, path: str = "") -> subprocess.Popen[bytes]:
    """The program below two shells, as Ansible starts a module; returns when it says that it has started."""
    inner = '"$0" -c "$@"; true'
    process = subprocess.Popen(
        ["sh", "-c", 'sh -c "$@"; true', "-", inner, sys.executable, program, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": PACKAGE, "PATH": f"{path}{os.environ['PATH']}"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    return process


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + 15
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.05)
    return path.read_text()


@pytest.mark.parametrize("how", ["far parent killed", "stdout closed"])
def test_a_process_notices_that_its_caller_is_gone(how: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    process = start(LOOKING, str(said))
    assert process.stdout is not None
    if how == "stdout closed":
        process.stdout.close()
        expected = "nobody reads the module's result"
    else:
        process.kill()  # the outer shell; the inner one, the parent, lives on
        expected = "a process that started this module has ended"
    assert expected in wait_for_text(said)
    process.kill()
    process.wait(timeout=10)
    process.stdout.close()


def test_a_lease_whose_module_has_lost_its_caller_runs_out(tmp_path: Path) -> None:
    paths = Paths(tmp_path / "state", tmp_path / "run", tmp_path / "units", tmp_path / "overrides")
    systemctl = tmp_path / "bin" / "systemctl"
    systemctl.parent.mkdir()
    systemctl.write_text(
        "#!/bin/sh\nexit 0\n"
    )  # this machine may have no systemd; its timer is not looked at
    systemctl.chmod(0o755)
    lease = {"holder": HOLDER, "armed_at": "now", "seconds": 2, "expires_boottime": clock.boottime() + 2}
    write_json(paths.lease, lease)

    def ends() -> float:
        return float(json.loads(paths.lease.read_text())["expires_boottime"])

    process = start(KEEPING, str(tmp_path), json.dumps(HOLDER), path=f"{systemctl.parent}:")
    first = ends()
    deadline = time.monotonic() + 10
    while ends() == first:  # it is renewed while the caller lives
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    gone = clock.boottime()
    time.sleep(2.5)
    assert ends() <= gone + 2.2
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=10)
    assert process.stdout is not None
    process.stdout.close()


def test_pipes_and_sockets_hang_up_and_files_do_not(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    assert not caller.has_hung_up(writable)
    os.close(readable)
    assert caller.has_hung_up(writable)
    os.close(writable)
    ours, theirs = socket.socketpair()
    assert not caller.has_hung_up(ours.fileno())
    theirs.close()
    assert caller.has_hung_up(ours.fileno())
    ours.close()
    with (tmp_path / "file").open("w") as stream:
        assert not caller.has_hung_up(stream.fileno())


@pytest.mark.parametrize(
    ("heard_at", "silent_from"),
    [
        ([5, 10, 15], 76),  # the client asks every 5 s: silent after a minute
        ([40, 80, 120], 281),  # every 40 s: after four times that
        ([5, 10], None),  # not often enough to expect more
        ([], None),
    ],
)
def test_silence_counts_only_where_there_was_talk(heard_at: list[int], silent_from: int | None) -> None:
    now = 0.0

    def last_received() -> float:
        return now - max([at for at in heard_at if at <= now], default=-3.0)

    heard = caller.Heard(last_received, lambda: now)
    first = None
    for second in range(1, 700):
        now = float(second)
        if heard.silent() is not None:
            first = second
            break
    assert first == silent_from


def test_a_connection_that_cannot_be_looked_at_is_not_silent() -> None:
    assert caller.Heard(lambda: None).silent() is None
