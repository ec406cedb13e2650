"""What the playbook tests share: run ansible-playbook as a user does, and look at a host by its own tools."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from treeline_lab.lab import Lab

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = "sglang-ddtree.service"
TRIAL = "sglang-ddtree-trial.service"
FRONT = "sglang-front.service"
SOCKET = "sglang-wake.socket"
# The lab of the playbook tests.
HOSTS = {"alpha": "10.66.0.21", "beta": "10.66.0.22"}
# What a trial's record depends on; tests are not among it.
SOURCES = (
    "analysis/treeline",
    "plugins",
    "playbooks",
    "roles",
    "lab/reference_engine/src",
    "inventory/lab",
    "ansible.cfg",
)
# Short loads: these tests are about what happens around a measurement, not about its precision.
QUICK: dict[str, Any] = {"treeline_max_tokens": 24, "concurrency": 1}
# The field's six minutes of start-up in a second; the engine's own start comes on top.
ENGINE: dict[str, Any] = {"fault-profile": "b300-kimi-k26", "time-scale": 0.003}

FOUND_UNITS = {
    FRONT: f"""[Unit]
Description=Stands for whatever follows the service
PartOf={PRODUCTION}
[Service]
ExecStart=/usr/bin/sleep infinity
""",
    SOCKET: f"""[Unit]
Description=Stands for a socket that would start the service
[Socket]
ListenStream=127.0.0.1:31777
Service={PRODUCTION}
""",
}


@dataclass
class Target:
    """A lab, the inventory that reaches it, and the results folder of one test."""

    lab: Lab
    inventory: Path
    hosts: tuple[str, ...]
    results: Path

    # -- on the host ---------------------------------------------------------------------------------------

    def on(self, host: str, *argv: str, check: bool = True) -> str:
        """Run `argv` inside the host, past Ansible and SSH; its standard output."""
        done = self.lab.host(host).enter(list(argv))
        if check and done.returncode != 0:
            raise AssertionError(
                f"{host}: {' '.join(argv)} exited {done.returncode}: {done.stderr}{done.stdout}"
            )
        return done.stdout

    def write(self, host: str, path: str, content: str) -> None:
        """Write a file inside the host."""
        self.on(
            host,
            sys_python(),
            "-c",
            "import pathlib,sys; p=pathlib.Path(sys.argv[1]); "
            "p.parent.mkdir(parents=True, exist_ok=True); p.write_text(sys.argv[2])",
            path,
            content,
        )

    def show(self, host: str, unit: str, *properties: str) -> dict[str, str]:
        """`systemctl show` of some properties."""
        text = self.on(host, "systemctl", "show", f"--property={','.join(properties)}", unit)
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    def served(self, host: str, port: int = 30000) -> dict[str, Any] | None:
        """What answers on the production port, or None."""
        text = self.on(host, "curl", "-s", "-m", "5", f"http://127.0.0.1:{port}/server_info", check=False)
        return json.loads(text) if text.strip().startswith("{") else None

    def command_line(self, host: str) -> str:
        """The arguments of the found service's main process, as the kernel has them; empty if it is down."""
        pid = self.show(host, PRODUCTION, "MainPID")["MainPID"]
        return self.on(host, "cat", f"/proc/{pid}/cmdline") if pid != "0" else ""

    def found_state(self, host: str) -> dict[str, Any]:
        """What a sweep must leave as it was: units, environment, enablement, states, served arguments."""
        served = self.served(host) or {}
        return {
            "cat": self.on(host, "systemctl", "cat", PRODUCTION, check=False),
            "environment": self.on(host, "cat", "/etc/sglang-ddtree/env", check=False),
            "enabled": self.on(host, "systemctl", "is-enabled", PRODUCTION, check=False).strip(),
            "states": {
                unit: self.on(host, "systemctl", "is-active", unit, check=False).strip()
                for unit in (PRODUCTION, FRONT, SOCKET)
            },
            "served": served.get("launch_command"),
            "argv": self.command_line(host),
            "trial": self.on(host, "systemctl", "is-active", TRIAL, check=False).strip() == "active",
            "leftovers": self.on(host, "ls", "/run/systemd/system", check=False).count("treeline")
            + self.on(host, "ls", "/run/systemd/system", check=False).count("trial"),
            "snapshot": self.on(host, "ls", "/var/lib/treeline/found.json", check=False).strip(),
        }

    # -- the controller ------------------------------------------------------------------------------------

    def command(self, playbook: str, **extra: Any) -> list[str]:
        """The command line a user would type."""
        given = {
            "treeline_results_dir": str(self.results),
            "sglang_ddtree_extra_args": ENGINE,
            "sglang_ddtree_timeout_stop": 5,
            # Drawn in one test; it takes seconds of a core.
            "treeline_report_page": False,
            **extra,
        }
        return playbook_command(playbook, self.inventory, given)

    def start(self, playbook: str, **extra: Any) -> subprocess.Popen[str]:
        """Start a playbook in the background; its output goes to a file beside the results."""
        self.results.mkdir(parents=True, exist_ok=True)
        with (self.results / f"{playbook}.log").open("w", encoding="utf-8") as log:
            return subprocess.Popen(
                self.command(playbook, **extra),
                cwd=ROOT,
                env=environment(),
                text=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, playbook: str, expect: int | None = 0, timeout: float = 280, **extra: Any) -> str:
        """Run a playbook to its end; its output. Fails when the exit code is not `expect`."""
        done = finish(self.command(playbook, **extra), timeout)
        if expect is not None and done.returncode != expect:
            raise AssertionError(f"{playbook} exited {done.returncode}, not {expect}:\n{done.stdout[-6000:]}")
        return done.stdout

    def lines(self, name: str = "trials.jsonl") -> list[dict[str, Any]]:
        """All lines of a record file of all sweeps below the results folder, oldest sweep first."""
        return [
            json.loads(line)
            for path in sorted(self.results.glob(f"*/{name}"))
            for line in path.read_text(encoding="utf-8").splitlines()
        ]

    def finished(self, purpose: str | None = None) -> list[dict[str, Any]]:
        """The finished trials in order."""
        return [
            line
            for line in self.lines()
            if line["event"] == "finished" and (purpose is None or line["purpose"] == purpose)
        ]

    def started(self) -> list[dict[str, Any]]:
        """The started lines in order."""
        return [line for line in self.lines() if line["event"] == "started"]


@cache
def digest() -> str:
    """Over the sources that a trial's record depends on; what was seen with others counts no more."""
    found = hashlib.sha256()
    for name in SOURCES:
        place = ROOT / name
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.suffix in (".py", ".yml", ".j2", ".md", ".txt", ".cfg") and path.is_file():
                found.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return found.hexdigest()


def number(name: str, default: float) -> float:
    """A number from the environment."""
    return float(os.environ.get(name) or default)


def sys_python() -> str:
    """The interpreter inside the lab hosts."""
    return "/usr/bin/python3"


def environment() -> Mapping[str, str]:
    """The environment of a playbook run: callback errors are fatal here, in production they only warn."""
    return {
        **os.environ,
        "_ANSIBLE_CALLBACK_DISPATCH_ERROR_BEHAVIOR": "error",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    }


def playbook_command(playbook: str, inventory: Path, given: Mapping[str, Any], *flags: str) -> list[str]:
    """The command line a user would type in this checkout."""
    program = str(Path(sys.executable).parent / "ansible-playbook")
    return [program, playbook, "-i", str(inventory), "-e", json.dumps(given), *flags]


def finish(argv: list[str], timeout: float = 120, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run such a command to its end; all that it says is in `stdout`."""
    return subprocess.run(
        argv,
        cwd=ROOT,
        env={**environment(), **environ},
        text=True,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )


def eventually(what: str, condition: Callable[[], Any], timeout: float = 90, every: float = 0.3) -> Any:
    """Wait until `condition` is true and return its value; fail with `what` after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout:g} s")
        time.sleep(every)


def bring_up(target: Target, host: str) -> None:
    """Start the found service with what hangs on it; systemd refuses a socket whose service already runs."""
    target.on(host, "systemctl", "stop", PRODUCTION)
    for unit in (SOCKET, PRODUCTION, FRONT):
        target.on(host, "systemctl", "start", unit)
    eventually(f"{host} serves", lambda: target.served(host))
