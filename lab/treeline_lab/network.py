"""The lab's network: a namespace with a bridge per lab, a namespace with one veth per host. No way out.

Nothing is added to the machine's own namespace, so labs may use the same addresses side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from treeline_lab import locks, mounts
from treeline_lab.commands import run
from treeline_lab.errors import LabError
from treeline_lab.proxy import NETNS_DIR
from treeline_lab.state import RUN_DIR

BRIDGE = "br0"
PREFIX = 24


def switch_namespace(lab: str) -> str:
    """Namespace of the lab's bridge."""
    return f"tl-{lab}"


def host_namespace(lab: str, host: str) -> str:
    """Namespace of a host. The dot cannot be in a lab's name, so no lab's switch has this name."""
    return f"tl-{lab}.{host}"


def host_namespaces(lab: str) -> set[str]:
    """Names of hosts of the lab that have a namespace."""
    prefix = host_namespace(lab, "")
    return {path.name.removeprefix(prefix) for path in NETNS_DIR.glob("*") if path.name.startswith(prefix)}


def exists(lab: str) -> bool:
    """Whether the lab's bridge namespace is there."""
    return (NETNS_DIR / switch_namespace(lab)).exists()


def is_wired(lab: str, host: str) -> bool:
    """Whether both the lab's and the host's namespace are there."""
    return exists(lab) and (NETNS_DIR / host_namespace(lab, host)).exists()


@dataclass(frozen=True)
class Port:
    """A host's place on the bridge. Its MAC comes from the address, so a rebooted host is known again."""

    address: IPv4Address

    @property
    def interface(self) -> IPv4Interface:
        return IPv4Interface(f"{self.address}/{PREFIX}")

    @property
    def gateway(self) -> IPv4Address:
        return gateway(self.interface.network)

    @property
    def link(self) -> str:
        """Name of the veth's end on the bridge (at most 15 characters)."""
        return f"v{int(self.address):08x}"

    @property
    def mac(self) -> str:
        return "02:00:" + ":".join(f"{byte:02x}" for byte in self.address.packed)


def gateway(network: IPv4Network) -> IPv4Address:
    """The bridge's own address in a host network: the first one."""
    return network.network_address + 1


def parse_address(host: str, text: str) -> IPv4Address:
    """The address of `host`; raises LabError naming both when it cannot be a lab host's."""
    try:
        port = Port(IPv4Address(text))
    except ValueError:
        raise LabError(
            f"{host}: {text!r} is not an IPv4 address. Allowed: an address such as 10.66.0.11"
        ) from None
    network = port.interface.network
    if port.address in (network.network_address, network.broadcast_address, port.gateway):
        raise LabError(
            f"{host}: {text} is reserved in {network} (network, gateway or broadcast). Take another."
        )
    return port.address


def ensure_switch(lab: str, addresses: Iterable[IPv4Address]) -> None:
    """Make the lab's namespace and bridge, with the gateway address of every host network."""
    namespace = switch_namespace(lab)
    _add_namespace(namespace)
    ip = ("ip", "-n", namespace)
    if run([*ip, "link", "show", BRIDGE], check=False).returncode != 0:
        run([*ip, "link", "add", BRIDGE, "type", "bridge"])
    for network in sorted({Port(address).interface.network for address in addresses}):
        run([*ip, "addr", "replace", f"{gateway(network)}/{PREFIX}", "dev", BRIDGE])
    for device in ("lo", BRIDGE):
        run([*ip, "link", "set", device, "up"])
    # Hosts have a default route, as real ones do, and are told at once that nothing lies beyond.
    run([*ip, "route", "replace", "unreachable", "default"])
    run(["nsenter", f"--net={NETNS_DIR / namespace}", "sysctl", "-qw", "net.ipv4.ip_forward=1"])


def attach(lab: str, host: str, address: IPv4Address) -> None:
    """Give the host a fresh namespace and a cable to the bridge."""
    detach(lab, host, address)
    switch, namespace, port = switch_namespace(lab), host_namespace(lab, host), Port(address)
    _add_namespace(namespace)
    cable = ("link", "add", port.link, "type", "veth", "peer", "name", "eth0", "address", port.mac)
    run(["ip", "-n", switch, *cable, "netns", namespace])
    run(["ip", "-n", switch, "link", "set", port.link, "master", BRIDGE, "up"])
    inside = ("ip", "-n", namespace)
    run([*inside, "link", "set", "lo", "up"])
    run([*inside, "addr", "add", str(port.interface), "dev", "eth0"])
    run([*inside, "link", "set", "eth0", "up"])
    run([*inside, "route", "add", "default", "via", str(port.gateway)])


def set_link(lab: str, address: IPv4Address, up: bool) -> None:
    """Plug the host's cable in or out at the bridge; raises LabError when there is no such cable."""
    run(["ip", "-n", switch_namespace(lab), "link", "set", Port(address).link, "up" if up else "down"])


def link_is_up(lab: str, address: IPv4Address) -> bool:
    """Whether the bridge's end of the cable is switched on."""
    shown = run(["ip", "-n", switch_namespace(lab), "-o", "link", "show", Port(address).link], check=False)
    return shown.returncode == 0 and "UP" in shown.stdout.partition("<")[2].partition(">")[0].split(",")


def detach(lab: str, host: str, address: IPv4Address | None) -> None:
    """Remove the host's cable and namespace, as far as they exist."""
    if address is not None and exists(lab):
        # First the cable: a namespace is torn down later than its name goes, and the link's name stays taken.
        run(["ip", "-n", switch_namespace(lab), "link", "del", Port(address).link], check=False)
    _delete_namespace(host_namespace(lab, host))


def remove_switch(lab: str) -> None:
    """Remove the lab's bridge and namespace."""
    _delete_namespace(switch_namespace(lab))


def _add_namespace(name: str) -> None:
    path = NETNS_DIR / name
    if mounts.is_mounted(path):
        return
    path.unlink(missing_ok=True)  # a name without a namespace: left by a killed `ip netns add`
    RUN_DIR.mkdir(exist_ok=True)
    # The first `ip netns add` of a machine is not atomic.
    with locks.held(RUN_DIR / "netns.lock", 30, "the lab's network is being set up"):
        run(["ip", "netns", "add", name])


def _delete_namespace(name: str) -> None:
    path = NETNS_DIR / name
    if path.exists() and run(["ip", "netns", "del", name], check=False).returncode != 0:
        path.unlink(missing_ok=True)
