"""A lab: hosts that share a name, a network and a key pair. Safe to repeat, and to run beside other labs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

from treeline_lab import cgroups, claim, inventory, keys, locks, mounts, network, requirements, rootfs, state
from treeline_lab.errors import LabError
from treeline_lab.host import Host
from treeline_lab.state import HostRecord, LabFiles

UP_TIMEOUT_S = 90.0
LOCK_TIMEOUT_S = 300.0
WORKERS = 16

T = TypeVar("T")


def _silent(_: str) -> None:
    return None


@dataclass(frozen=True)
class HostStatus:
    """One host. State: `running`, `off` (killed, machine restarted) or `unfinished` (by a killed `up`)."""

    name: str
    address: str | None
    state: str


@dataclass
class UpResult:
    """What `up` did, by host name: made, switched on again, plugged in again, or found running."""

    created: list[str] = field(default_factory=list)
    booted: list[str] = field(default_factory=list)
    plugged_in: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    degraded: dict[str, list[str]] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything was done."""
        return bool(self.created or self.booted or self.plugged_in)


class Lab:
    """A named lab below a state directory (default: the user's cache). All but `status` need root.

    The name is the machine's: two labs of one name cannot run from two directories. `say` receives one plain
    line per thing worth telling. Every method raises LabError with a complete message.
    """

    def __init__(
        self, name: str = "default", state_dir: Path | None = None, say: Callable[[str], None] = _silent
    ) -> None:
        self.name = state.check_lab_name(name)
        self.files = LabFiles((state_dir or state.default_dir()).absolute(), name)
        self._say = say

    def host(self, name: str) -> Host:
        """A host of this lab, whether it exists or not."""
        return Host(self.name, name, self.files.host(state.check_host_name(name)))

    def plan(self, hosts: Mapping[str, str]) -> UpResult:
        """What `up` would do; changes nothing. Raises LabError for a name or address that is bad or taken."""
        result = UpResult()
        for name, address in self._checked(hosts).items():
            self._classify(self.host(name), address, result)
        return result

    def up(
        self, hosts: Mapping[str, str], binds: Sequence[str] = (), timeout: float = UP_TIMEOUT_S
    ) -> UpResult:
        """Make sure that every host (name: IPv4 address) runs and answers; other hosts are left alone.

        `binds` are read-only binds, SOURCE or SOURCE:DESTINATION, of hosts that are created now. Waits at
        most `timeout` seconds for the hosts, the time to build the rootfs excluded.
        """
        requirements.check()
        with self._locked():
            claim.take(self.name, self.files.state_dir)
            result = self.plan(hosts)
            if result.changed:
                self._make(hosts, result, list(binds))
            result.degraded = self._wait(hosts, timeout)
        return result

    def down(self, names: Collection[str] = ()) -> list[str]:
        """Remove the named hosts (default: the whole lab) with all their traces; returns their names."""
        requirements.check_root()
        if not self._exists():
            return []
        with self._locked():
            claim.check(self.name, self.files.state_dir)
            known = self._known_hosts()
            gone = [name for name in known if not names or name in names]
            _parallel(self._destroy, gone)
            if len(gone) == len(known):
                self._remove()
        return gone

    def status(self) -> list[HostStatus]:
        """What is there; changes nothing, needs no root."""
        return [self._status(self.host(name)) for name in self._known_hosts()]

    def wait(self, timeout: float = UP_TIMEOUT_S) -> dict[str, list[str]]:
        """Wait until every host of the lab is up; the failed units of those that came up degraded."""
        requirements.check_root()
        addresses = {item.name: item.address for item in self.status() if item.address}
        if not addresses:
            raise LabError(f"lab {self.name!r} has no hosts. Boot it: treeline-lab --name {self.name} up")
        return self._wait(addresses, timeout)

    def kill(self, name: str) -> None:
        """Power loss: the cable goes first, so that nobody is told, then everything dies. The disk stays."""
        host, record = self.existing(name)
        network.set_link(self.name, IPv4Address(record.address), False)
        if not host.power_off():
            raise LabError(f"host {name} is off already")

    def start(self, name: str, timeout: float = UP_TIMEOUT_S) -> bool:
        """Switch a host on again with the disk it had, and wait for it; False when it was running."""
        host, record = self.existing(name)
        with self._locked():
            if host.running():
                return False
            self._switch_on(host, record)
        host.wait(record.address, timeout)
        return True

    def reboot(self, name: str, timeout: float = UP_TIMEOUT_S) -> None:
        """Reboot a host in good order and wait until it is up again."""
        host, record = self.existing(name)
        before = host.leader()
        host.enter(["systemctl", "--no-block", "reboot"])
        deadline = time.monotonic() + timeout
        while (leader := host.leader()) is None or leader == before:
            if time.monotonic() > deadline or not host.running():
                raise LabError(f"host {name} did not reboot within {timeout:g} s; {host.console_tail()}")
            time.sleep(0.05)
        host.wait(record.address, max(deadline - time.monotonic(), 1.0))

    def link(self, name: str, up: bool) -> None:
        """Plug the host's network cable in or out."""
        _, record = self.existing(name)
        network.set_link(self.name, IPv4Address(record.address), up)

    def write_inventory(self, path: Path, hosts: Mapping[str, str]) -> Path:
        """Write an Ansible inventory for hosts of this lab at `path`, and group_vars beside it."""
        return inventory.write(path, hosts, self.name, self.files.state_dir)

    # -- what is there --------------------------------------------------------------------------------------

    def _exists(self) -> bool:
        return self.files.root.exists() or network.exists(self.name) or bool(self._known_hosts())

    def _known_hosts(self) -> list[str]:
        return sorted(
            {*self.files.host_names(), *cgroups.hosts(self.name), *network.host_namespaces(self.name)}
        )

    def _status(self, host: Host) -> HostStatus:
        record = host.files.read()
        if record is None:
            return HostStatus(host.name, None, "unfinished")
        return HostStatus(host.name, record.address, "running" if host.running() else "off")

    def existing(self, name: str) -> tuple[Host, HostRecord]:
        """A host of this lab with its record. Raises LabError where there is none, or the lab is not ours."""
        requirements.check_root()
        claim.check(self.name, self.files.state_dir)
        host = self.host(name)
        record = host.files.read()
        if record is None:
            known = ", ".join(self._known_hosts()) or "none"
            raise LabError(f"lab {self.name!r} has no host {name!r} (hosts: {known})")
        return host, record

    def _checked(self, hosts: Mapping[str, str]) -> dict[str, str]:
        """The hosts with good names and addresses, no address twice, none of another host of this lab."""
        if not hosts:
            raise LabError("no hosts given")
        taken: dict[str, str] = {
            item.address: item.name for item in self.status() if item.address and item.name not in hosts
        }
        for name, text in hosts.items():
            address = str(network.parse_address(state.check_host_name(name), text))
            if taken.setdefault(address, name) != name:
                raise LabError(f"{name}: {address} is the address of {taken[address]} already")
        return {name: str(IPv4Address(text)) for name, text in hosts.items()}

    def _classify(self, host: Host, address: str, result: UpResult) -> None:
        record = host.files.read()
        if record is None:
            result.created.append(host.name)
        elif record.address != address:
            raise LabError(
                f"{host.name} has the address {record.address} in lab {self.name!r}, not {address}. "
                f"Remove it first: treeline-lab --name {self.name} down {host.name}"
            )
        elif not self._is_whole(host):
            result.booted.append(host.name)
        elif not network.link_is_up(self.name, IPv4Address(address)):
            result.plugged_in.append(host.name)
        else:
            result.unchanged.append(host.name)

    def _is_whole(self, host: Host) -> bool:
        wired = network.is_wired(self.name, host.name)
        return cgroups.supervised(self.name, host.name) and wired and mounts.is_mounted(host.files.mount)

    # -- what is done ---------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.files.make_base()
        with locks.held(self.files.lock, LOCK_TIMEOUT_S, f"lab {self.name!r} is busy"):
            yield

    def _make(self, hosts: Mapping[str, str], result: UpResult, binds: list[str]) -> None:
        self.files.make()
        recipe = rootfs.machine_recipe()
        if result.created:
            rootfs.ensure(self.files.rootfs_cache, recipe, self._say)
        self._ensure_key_pair()
        neighbours = {item.name: item.address for item in self.status() if item.address} | dict(hosts)
        network.ensure_switch(self.name, [IPv4Address(address) for address in neighbours.values()])
        authorized = keys.public(self.files.key).read_text(encoding="utf-8")

        def create(name: str) -> None:
            host = self.host(name)
            host.destroy()  # what a killed `up` may have left
            record = HostRecord(address=str(IPv4Address(hosts[name])), rootfs=recipe.key(), binds=binds)
            host.create(record, self.files.rootfs_cache / recipe.key(), authorized, neighbours)

        _parallel(create, result.created)
        self._write_known_hosts()
        _parallel(lambda name: self._switch_on(*self.existing(name)), [*result.created, *result.booted])
        for name in result.plugged_in:
            self.link(name, True)

    def _switch_on(self, host: Host, record: HostRecord) -> None:
        lower = self.files.rootfs_cache / record.rootfs
        if not lower.is_dir():
            raise LabError(
                f"{host.name}: its root file system {lower} is gone. "
                f"Make the host anew: treeline-lab --name {self.name} down {host.name}"
            )
        host.power_off()
        network.ensure_switch(self.name, [IPv4Address(record.address)])
        host.mount(lower)
        host.boot(record)

    def _ensure_key_pair(self) -> None:
        key = self.files.key
        keys.ensure_pair(key, f"treeline-lab {self.name}")
        for path in (key, keys.public(key)):
            os.chown(path, *state.caller())

    def _write_known_hosts(self) -> None:
        found = {item.address: self.files.host(item.name).host_key for item in self.status() if item.address}
        state.write_atomically(self.files.known_hosts, keys.known_hosts(found).encode())

    def _wait(self, hosts: Mapping[str, str], timeout: float) -> dict[str, list[str]]:
        def one(name: str) -> list[str]:
            host = self.host(name)
            return host.failed_units() if host.wait(hosts[name], timeout) == "degraded" else []

        names = list(hosts)
        found = dict(zip(names, _parallel(one, names), strict=True))
        return {name: units for name, units in found.items() if units}

    def _destroy(self, name: str) -> None:
        host = self.host(name)
        record = host.files.read()
        if record is not None:
            # A multiplexed ssh connection outlives the host; the next host of this address must not meet it.
            (self.files.control / record.address).unlink(missing_ok=True)
        host.destroy()

    def _remove(self) -> None:
        network.remove_switch(self.name)
        cgroups.remove(self.name)
        mounts.remove_tree(self.files.root)
        mounts.remove_tree(self.files.control)
        self.files.lock.unlink(missing_ok=True)
        claim.release(self.name)


def _parallel(do: Callable[[str], T], names: Sequence[str]) -> list[T]:
    """Do it for every name at once; all are tried, then the first failure is raised."""
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        waiting = [pool.submit(do, name) for name in names]
    return [each.result() for each in waiting]
