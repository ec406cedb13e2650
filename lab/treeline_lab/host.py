"""One lab host: its overlay, its systemd-nspawn, and the question whether it is up."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from treeline_lab import cgroups, keys, mounts, network
from treeline_lab.commands import run
from treeline_lab.errors import LabError
from treeline_lab.proxy import NETNS_DIR, enter_netns
from treeline_lab.state import HostFiles, HostRecord

POLL_S = 0.05
SSH_PORT = 22
# A lab host has no kernel of its own: node faults are played into this file (treeline_kernel_log).
KERNEL_LOG = "var/log/treeline-kernel.log"
SUPERVISOR = Path(__file__).with_name("supervisor.py")


@dataclass(frozen=True)
class Host:
    """A host of a lab, whether it exists or not."""

    lab: str
    name: str
    files: HostFiles

    def running(self) -> bool:
        """Whether anything runs for this host."""
        return bool(cgroups.processes(self.lab, self.name))

    def create(
        self, record: HostRecord, rootfs: Path, authorized_key: str, neighbours: dict[str, str]
    ) -> None:
        """Make the overlay with this host's identity; the record is written last."""
        self.files.root.mkdir(parents=True, exist_ok=True)
        self.mount(rootfs)
        root = self.files.mount
        key = self.files.host_key
        keys.ensure_pair(key, self.name)
        hosts = "".join(f"{address} {name}\n" for name, address in sorted(neighbours.items()))
        for path, mode, content in (
            ("root/.ssh/authorized_keys", 0o600, authorized_key),
            ("etc/ssh/ssh_host_ed25519_key", 0o600, key.read_text()),
            ("etc/ssh/ssh_host_ed25519_key.pub", 0o644, keys.public(key).read_text()),
            ("etc/hostname", 0o644, f"{self.name}\n"),
            ("etc/hosts", 0o644, f"127.0.0.1 localhost\n::1 localhost\n{hosts}"),
            ("etc/machine-id", 0o444, f"{uuid.uuid4().hex}\n"),
            (KERNEL_LOG, 0o644, ""),
        ):
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if "/.ssh/" in path else 0o755)
            target.write_text(content, encoding="utf-8")
            target.chmod(mode)
        self.files.write(record)

    def mount(self, rootfs: Path) -> None:
        """Mount the overlay where it is not mounted (after a restart of the machine)."""
        if not mounts.is_mounted(self.files.mount):
            mounts.overlay(rootfs, self.files.upper, self.files.work, self.files.mount)

    def boot(self, record: HostRecord) -> None:
        """Plug the host in and switch it on; returns before it is up."""
        network.attach(self.lab, self.name, IPv4Address(record.address))
        places = [f"--cgroup={directory}" for directory in cgroups.create(self.lab, self.name)]
        namespace = network.host_namespace(self.lab, self.name)
        command = nspawn_command(self.files.mount, self.name, namespace, record.binds)
        with self.files.console.open("ab") as console:
            started = subprocess.run(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *places, "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                timeout=30,
                check=False,
            )
        if started.returncode != 0:
            raise LabError(f"host {self.name} does not start; {self.console_tail()}")

    def power_off(self) -> bool:
        """Kill everything of the host at once; whether anything ran."""
        return cgroups.kill(self.lab, self.name)

    def destroy(self) -> None:
        """Remove every trace of the host, whatever state it is in."""
        record = self.files.read()
        self.power_off()
        network.detach(self.lab, self.name, IPv4Address(record.address) if record else None)
        cgroups.remove(self.lab, self.name)
        mounts.remove_tree(self.files.root)

    def leader(self) -> int | None:
        """Pid of the host's systemd, seen from this machine; None while there is none."""
        for pid in sorted(cgroups.processes(self.lab, self.name)):
            if _own_pids(pid)[1:] == ["1"]:
                return pid
        return None

    def wait(self, address: str, timeout: float) -> str:
        """Wait until sshd greets and systemd has finished booting; its state, `running` or `degraded`.

        Raises LabError with the console's end when the host died or is not up within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        self._wait_for_banner(address, deadline)
        while True:
            state = self._system_state(deadline)
            if state in ("running", "degraded"):
                return state
            self._check_alive(deadline, f"systemd says {state!r}")
            time.sleep(POLL_S)

    def _wait_for_banner(self, address: str, deadline: float) -> None:
        namespace = network.switch_namespace(self.lab)
        while not greets(namespace, address, max(deadline - time.monotonic(), POLL_S)):
            self._check_alive(deadline, f"no ssh banner from {address} port {SSH_PORT}")
            time.sleep(POLL_S)

    def _check_alive(self, deadline: float, what: str) -> None:
        if not self.running():
            raise LabError(f"host {self.name} died while booting; {self.console_tail()}")
        if time.monotonic() > deadline:
            raise LabError(f"host {self.name} is not up in time: {what}; {self.console_tail()}")

    def _system_state(self, deadline: float) -> str:
        left = max(deadline - time.monotonic(), 1.0)
        try:
            done = self.enter(["systemctl", "is-system-running", "--wait"], timeout=left)
        except LabError as error:
            return str(error)
        return done.stdout.strip() or done.stderr.strip()

    def failed_units(self) -> list[str]:
        """Names of the host's failed units."""
        done = self.enter(["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager"])
        return [line.split()[0] for line in done.stdout.splitlines() if line.strip()]

    def enter_command(self, argv: list[str]) -> list[str]:
        """The command line that runs `argv` inside the host; raises LabError when the host is off."""
        leader = self.leader()
        if leader is None:
            raise LabError(f"host {self.name} is not running")
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
        return ["nsenter", "--target", str(leader), *spaces, "--root", "--wd", "--", *argv]

    def enter(self, argv: list[str], timeout: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run `argv` inside the host and return its output; the exit status is the caller's business."""
        return run(self.enter_command(argv), timeout=timeout, check=False)

    def console_tail(self, lines: int = 12) -> str:
        """The end of the console log, with its path."""
        try:
            text = self.files.console.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return f"no console log at {self.files.console}"
        tail = "\n  ".join(text.splitlines()[-lines:])
        return f"the end of its console {self.files.console}:\n  {tail}"


def nspawn_command(root: Path, name: str, namespace: str, binds: list[str]) -> list[str]:
    """The systemd-nspawn command line; `binds` are SOURCE or SOURCE:DESTINATION, read-only in the host.

    Neither machined nor a system bus is needed (`--register=no --keep-unit`), so it works in containers and
    on machines whose first process is not systemd.
    """
    return [
        *("systemd-nspawn", "--quiet", "--boot", "--settings=no", "--register=no", "--keep-unit"),
        *(f"--directory={root}", f"--machine={name}", f"--hostname={name}"),
        f"--network-namespace-path={NETNS_DIR / namespace}",
        *("--capability=CAP_NET_ADMIN", "--console=pipe"),
        *("--link-journal=no", "--resolv-conf=off", "--timezone=off"),
        *(f"--bind-ro={bind}" for bind in binds),
    ]


def greets(namespace: str, address: str, timeout: float) -> bool:
    """Whether an ssh server greets at `address` inside the network namespace."""
    answer: list[bytes] = []

    def ask() -> None:
        # A namespace is entered by a thread, for good: this one ends right after.
        try:
            enter_netns(NETNS_DIR / namespace)
            with socket.create_connection((address, SSH_PORT), min(timeout, 2.0)) as made:
                answer.append(made.recv(64))
        except OSError:
            return

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return bool(answer) and answer[0].startswith(b"SSH-")


def _own_pids(pid: int) -> list[str]:
    """The pids of one process from this namespace inwards (proc(5), NSpid)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return []
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []
