"""What the tests of found services set up on a host, and what they ask of it."""

from __future__ import annotations

from typing import Any

from found_host import HOLDER, STAND_IN, TRIAL, FoundHost

ADDRESS = "10.66.0.11"
LEASE = {"seconds": 600, "holder": HOLDER}
# The socket's service takes its port from systemd; `router` needs the engine, `helper` is part of it.
ALL = [
    *("engine.service", "web.service", "slow.service", "broken.service", "stopped.service", "masked.service"),
    *("web.socket", "router.service", "gateway.service", "helper.service", "tick.timer", "flaky.service"),
    "stack.target",
    *("keeper.service", "other.service"),
]
FOUND = [
    *("engine.service", "web.service", "slow.service", "broken.service", "stopped.service", "masked.service"),
    "absent.service",
]


def write_engine(host: FoundHost, budget: int = 8, install: str = "") -> None:
    """One production service on port 30000, with a tight start limit."""
    host.service(
        "engine.service",
        f"{STAND_IN} --port 30000 --budget {budget} --api-key sesame",
        unit="StartLimitIntervalSec=3600\nStartLimitBurst=2",
        service="Restart=always",
        install=install,
    )


def running_engine(host: FoundHost, install: str = "") -> None:
    """The same, started and answering."""
    write_engine(host, install=install)
    host.reload()
    host.start("engine.service")
    host.wait(lambda: answers(host, "sesame"), 10, "the engine answers")


def answers(host: FoundHost, key: str) -> bool:
    """Whether the production service answers."""
    header = f"Authorization: Bearer {key}"
    return host.run("curl", "-fsS", "-H", header, "http://127.0.0.1:30000/server_info").returncode == 0


def take(host: FoundHost, found: list[str], lease: dict[str, Any] | None = LEASE) -> dict[str, Any]:
    """Take the host for a sweep."""
    return dict(host.call("take", found_units=found, trial_unit=TRIAL, lease=lease, ready_timeout_s=20))


def give_back(host: FoundHost, lease: dict[str, Any] | None = LEASE) -> dict[str, Any]:
    """Give it back."""
    return dict(host.call("give_back", trial_unit=TRIAL, lease=lease))


def assert_no_trace(host: FoundHost) -> None:
    """Nothing of the sweep is left but the restore program and its last result."""
    for path in ("/var/lib/treeline/found.json", "/run/treeline/lease.json", f"/run/systemd/system/{TRIAL}"):
        assert not host.exists(path), path
    assert host.property("treeline-lease.timer", "LoadState") == "not-found"
    assert host.property(TRIAL, "LoadState") == "not-found"


def build_everything(host: FoundHost) -> None:
    """Found units in every state, what needs them, and what starts them."""
    write_engine(host)
    host.unit(
        "engine.service.d/limits.conf", "[Service]\nEnvironment=MODE=fast\nEnvironmentFile=-/etc/engine.env\n"
    )
    (host.root / "etc/engine.env").write_text("TOKENS=1\n")
    host.unit("web.socket", "[Socket]\nListenStream=127.0.0.1:30001\n\n[Install]\nWantedBy=sockets.target\n")
    host.service("web.service", f"{STAND_IN} --port 30001 --budget 4")
    host.service("slow.service", "/usr/bin/sleep infinity", service="Type=notify\nTimeoutStartSec=infinity")
    host.service("broken.service", "/usr/bin/false")
    host.service("stopped.service", "/usr/bin/sleep infinity", install="WantedBy=multi-user.target")
    host.service("masked.service", "/usr/bin/sleep infinity")
    host.service(
        "router.service", "/usr/bin/sleep infinity", unit="Requires=engine.service\nAfter=engine.service"
    )
    host.service(
        "gateway.service", "/usr/bin/sleep infinity", unit="BindsTo=router.service\nAfter=router.service"
    )
    host.service("helper.service", "/usr/bin/sleep infinity", unit="PartOf=engine.service")
    # Started as a whole, the target would pull in what was stopped on purpose.
    host.unit("stack.target", "[Unit]\nRequires=engine.service\nWants=stopped.service\n")
    host.unit("tick.timer", "[Timer]\nOnActiveSec=1h\nUnit=engine.service\n")
    (host.root / "etc/systemd/system/masked.service").unlink()
    host.run("systemctl", "mask", "masked.service")
    host.reload()
    host.run("systemctl", "enable", "web.socket", "stopped.service")
    host.start(
        "engine.service", "web.socket", "router.service", "gateway.service", "helper.service", "tick.timer"
    )
    host.run("systemctl", "start", "broken.service", "stack.target")
    host.run("systemctl", "stop", "stopped.service")
    host.run("systemctl", "start", "--no-block", "slow.service")
    host.wait_answer(30001)
    host.wait(lambda: answers(host, "sesame"), 10, "the engine answers")
    host.wait(lambda: host.state("slow.service") == "activating", 5, "slow.service is activating")
