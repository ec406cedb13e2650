"""A lab host with services to be found: units are written and looked at, target code runs inside."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from treeline_lab import Lab

REPOSITORY = Path(__file__).resolve().parents[2]
BINDS = (f"{REPOSITORY}/plugins/module_utils:/opt/target", f"{REPOSITORY}/tests/lab:/opt/lab")
STAND_IN = "/usr/bin/python3 /opt/lab/standin_service.py"
TRIAL = "trial.service"
HOLDER = {
    "sweep_id": "20260101T000000Z-1a2b3c4d",
    "host": "controller",
    "boot_id": "b",
    "pid": 4711,
    "pid_start": 1,
}


class TargetError(Exception):
    """The function raised inside the host; `kind` is its exception's name."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class FoundHost:
    """One host of a running lab."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab = lab
        self.name = name

    @property
    def root(self) -> Path:
        """The host's file system (without what it keeps in memory, such as /run)."""
        return self.lab.host(self.name).files.mount

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside the host."""
        return self.lab.host(self.name).enter(list(argv))

    def popen(self, *argv: str) -> subprocess.Popen[str]:
        """Start a command inside the host."""
        command = self.lab.host(self.name).enter_command(list(argv))
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def driver(self, function: str, given: Mapping[str, Any]) -> list[str]:
        """The command line that calls a function of the target package inside the host."""
        path = "PYTHONPATH=/opt/target"
        return ["env", path, "/usr/bin/python3", "/opt/lab/target_driver.py", function, json.dumps(given)]

    def call(self, function: str, **given: Any) -> Any:
        """Call it and return its result; raises TargetError with what it raised."""
        done = self.run(*self.driver(function, given))
        assert done.stdout, done.stderr
        answer = json.loads(done.stdout)
        if "error" in answer:
            raise TargetError(answer["kind"], answer["error"])
        return answer["result"]

    def unit(self, name: str, text: str) -> None:
        """Write a unit file."""
        path = self.root / "etc/systemd/system" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def service(
        self, name: str, command: str, *, unit: str = "", service: str = "", install: str = ""
    ) -> None:
        """Write a service unit."""
        wanted = f"\n[Install]\n{install}\n" if install else ""
        self.unit(name, f"[Unit]\n{unit}\n\n[Service]\nExecStart={command}\n{service}\n{wanted}")

    def reload(self) -> None:
        """Let systemd read the units."""
        assert self.run("systemctl", "daemon-reload").returncode == 0

    def start(self, *names: str) -> None:
        """Start units and wait for it."""
        done = self.run("systemctl", "start", *names)
        assert done.returncode == 0, done.stderr

    def start_trial(self, found: list[str], command: str = f"{STAND_IN} --port 31990") -> None:
        """Render the trial unit as the role does, and restart it."""
        names = " ".join(found)
        text = (
            f"[Unit]\nConflicts={names}\nAfter={names}\nStartLimitIntervalSec=0\n\n"
            f"[Service]\nType=exec\nExecStart={command}\nRestart=no\nTimeoutStopSec=2\n"
        )
        self.run("mkdir", "-p", "/run/systemd/system")
        self.run("/usr/bin/python3", "-c", f"open('/run/systemd/system/{TRIAL}', 'w').write({text!r})")
        self.reload()
        done = self.run("systemctl", "restart", TRIAL)
        if done.returncode != 0:
            raise TargetError("systemctl", done.stderr)

    def state(self, name: str) -> str:
        """ActiveState of a unit."""
        return self.property(name, "ActiveState")

    def property(self, name: str, key: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", "--property", key, "--", name).stdout.strip()

    def exists(self, path: str) -> bool:
        """Whether there is such a file inside the host."""
        return self.run("test", "-e", path).returncode == 0

    def picture(self, names: list[str], files: tuple[str, ...] = ()) -> dict[str, Any]:
        """All that must be the same before and after: texts, enablement, states, command lines, files."""
        return {
            "units": self.call("picture", names=names),
            "files": {path: (self.root / path.lstrip("/")).read_bytes() for path in files},
        }

    def wait(self, what: Callable[[], bool], timeout: float, why: str) -> float:
        """Wait until something is so; returns the seconds it took."""
        started = time.monotonic()
        while not what():
            assert time.monotonic() - started < timeout, f"not within {timeout:g} s: {why}"
            time.sleep(0.1)
        return time.monotonic() - started

    def wait_answer(self, port: int) -> None:
        """Wait until the service on this port answers."""
        url = f"http://127.0.0.1:{port}/health"
        self.wait(lambda: self.run("curl", "-fsS", url).returncode == 0, 10, f"{url} answers")

    def clean(self, names: list[str]) -> None:
        """Remove the units of a test and every trace of a sweep."""
        self.run("systemctl", "stop", "treeline-lease.timer", "treeline-lease.service", TRIAL, *names)
        self.run("systemctl", "reset-failed")
        self.run("systemctl", "disable", *names)
        self.run("systemctl", "unmask", *names)
        traces = ("/run/treeline", "/var/lib/treeline", f"/run/systemd/system.control/{TRIAL}")
        units = [f"/etc/systemd/system/{name}" for name in names]
        drop_ins = [f"/etc/systemd/system/{name}.d" for name in names]
        lease = [
            f"/run/systemd/system/{name}"
            for name in ("treeline-lease.timer", "treeline-lease.service", TRIAL)
        ]
        self.run("rm", "-rf", *traces, *units, *drop_ins, *lease)
        self.reload()
