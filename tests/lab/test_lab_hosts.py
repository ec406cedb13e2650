"""Real lab hosts: boot, reach, break, repair, remove."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from treeline_lab import Lab, LabError, cgroups, claim, mounts, network

pytestmark = pytest.mark.lab

REPOSITORY = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).with_name("ansible")
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
HOST, ADDRESS = "lab1", "10.66.0.11"
HOSTS = {HOST: ADDRESS}
MakeLab = Callable[..., Lab]


@pytest.fixture(scope="module")
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab("a")
    made.up(HOSTS)
    return made


@pytest.fixture(scope="module")
def inventory(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab.write_inventory(tmp_path_factory.mktemp("inventory") / "hosts.yml", HOSTS)


def ansible(inventory: Path, module: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(ANSIBLE), "-i", str(inventory), "sglang", "-o", "-m", module, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=90, cwd=REPOSITORY)


def inside(lab: Lab, *command: str) -> str:
    return lab.host(HOST).enter(list(command)).stdout.strip()


def wait_until(holds: Callable[[], object], what: str, timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.01)


def traces(lab: Lab) -> list[str]:
    """Everything on this machine that belongs to the lab."""
    found = [path.name for path in network.NETNS_DIR.glob(f"tl-{lab.name}*")]
    found += [str(point) for point in mounts.mount_points() if lab.files.root in point.parents]
    found += [str(path) for path in cgroups.directories(lab.name) if path.exists()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(lab.files.root) in words and "ssh" not in words.split()[0]:
            found.append(words)
    return found + [str(path) for path in (lab.files.root, lab.files.lock) if path.exists()]


def test_up_on_a_running_lab_changes_nothing(lab: Lab) -> None:
    leader = lab.host(HOST).leader()
    result = lab.up(HOSTS)
    assert (result.changed, result.unchanged, result.degraded) == (False, [HOST], {})
    assert lab.host(HOST).leader() == leader
    assert [(item.name, item.address, item.state) for item in lab.status()] == [(HOST, ADDRESS, "running")]


def test_the_host_is_a_systemd_machine_of_its_own(lab: Lab) -> None:
    assert inside(lab, "systemctl", "is-system-running") == "running"
    assert inside(lab, "cat", "/etc/hostname") == HOST
    assert len(inside(lab, "cat", "/etc/machine-id")) == 32
    assert inside(lab, "cat", "/proc/1/comm") == "systemd"


def test_plain_ansible_reaches_it(inventory: Path) -> None:
    done = ansible(inventory, "ansible.builtin.ping")
    assert "SUCCESS" in done.stdout, done.stdout + done.stderr


def test_a_host_with_another_key_is_refused(lab: Lab, inventory: Path) -> None:
    right = lab.files.known_hosts.read_text()
    kind = right.split()[1]
    lab.files.known_hosts.write_text(
        f"{ADDRESS} {kind} {lab.files.key.with_suffix('.pub').read_text().split()[1]}\n"
    )
    (lab.files.control / ADDRESS).unlink(missing_ok=True)
    try:
        # With pipelining Ansible may only say that what it sent to the refused ssh met a broken pipe.
        done = ansible(inventory, "ansible.builtin.ping", "-e", "ansible_pipelining=false")
    finally:
        lab.files.known_hosts.write_text(right)
    assert "UNREACHABLE" in done.stdout
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stdout


def test_the_playbook_says_truthfully_what_it_changes(lab: Lab, inventory: Path) -> None:
    def play(*options: str) -> str:
        command = [str(PLAYBOOK), "-i", str(inventory), str(REPOSITORY / "lab.yml"), *options]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=90, cwd=REPOSITORY
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "changed=0" in play()
    assert "changed=1" in play("-e", "lab_state=down", "--check")
    assert [item.state for item in lab.status()] == ["running"]


def test_ansible_reboots_it(lab: Lab, inventory: Path) -> None:
    before = inside(lab, "cat", "/proc/sys/kernel/random/boot_id")
    done = ansible(inventory, "ansible.builtin.reboot", "-a", "reboot_timeout=60 post_reboot_delay=0")
    assert "CHANGED" in done.stdout, done.stdout + done.stderr
    assert inside(lab, "cat", "/proc/sys/kernel/random/boot_id") != before


def test_reboot_comes_back_with_its_disk(lab: Lab) -> None:
    inside(lab, "touch", "/srv/kept")
    before = lab.host(HOST).leader()
    lab.reboot(HOST)
    assert lab.host(HOST).leader() != before
    assert inside(lab, "ls", "/srv") == "kept"


def test_power_loss_then_start_then_reachable_again(lab: Lab, inventory: Path) -> None:
    assert "SUCCESS" in ansible(inventory, "ansible.builtin.ping").stdout  # leaves an open connection behind
    inside(lab, "touch", "/srv/kept")
    lab.kill(HOST)
    assert [item.state for item in lab.status()] == ["off"]
    assert cgroups.processes(lab.name, HOST) == set()
    with pytest.raises(LabError, match="off already"):
        lab.kill(HOST)
    assert lab.start(HOST)
    assert not lab.start(HOST)
    assert "kept" in inside(lab, "ls", "/srv")
    wait_until(
        lambda: "SUCCESS" in ansible(inventory, "ansible.builtin.ping").stdout, "ping after power loss", 60
    )


def test_up_boots_a_host_that_lost_its_supervisor(lab: Lab) -> None:
    inside(lab, "touch", "/srv/kept")
    (supervisor,) = (
        pid
        for pid in cgroups.processes(lab.name, HOST)
        if b"supervisor.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(supervisor, signal.SIGKILL)
    wait_until(lambda: supervisor not in cgroups.processes(lab.name, HOST), "the supervisor is gone")
    result = lab.up(HOSTS)
    assert (result.booted, result.created) == ([HOST], [])
    assert "kept" in inside(lab, "ls", "/srv")


def test_up_after_a_restart_of_this_machine_boots_the_host_with_its_disk(lab: Lab) -> None:
    inside(lab, "touch", "/srv/kept")
    lab.host(
        HOST
    ).power_off()  # a restart ends the processes, the mounts, the namespaces, the cgroups and /run
    mounts.unmount_below(lab.files.host(HOST).mount)
    network.detach(lab.name, HOST, None)
    network.remove_switch(lab.name)
    cgroups.remove(lab.name, HOST)
    cgroups.remove(lab.name)
    claim.release(lab.name)
    assert [item.state for item in lab.status()] == ["off"]
    assert lab.up(HOSTS).booted == [HOST]
    assert "kept" in inside(lab, "ls", "/srv")


def test_link_down_and_up_again(lab: Lab, inventory: Path) -> None:
    lab.link(HOST, up=False)
    with pytest.raises(LabError, match=f"no ssh banner from {ADDRESS}"):
        lab.wait(timeout=0.3)
    assert lab.plan(HOSTS).plugged_in == [HOST]
    lab.link(HOST, up=True)
    lab.wait(timeout=30)
    lab.link(HOST, up=False)
    assert lab.up(HOSTS).plugged_in == [HOST]


def test_labs_with_the_same_addresses_run_side_by_side(lab: Lab, make_lab: MakeLab, tmp_path: Path) -> None:
    other = make_lab("b")
    other.up({"twin": ADDRESS}, binds=[f"{REPOSITORY / 'lab'}:/opt/lab"])
    inventory = other.write_inventory(tmp_path / "hosts.yml", {"twin": ADDRESS})
    answer = ansible(inventory, "ansible.builtin.command", "-a", "cat /etc/hostname").stdout
    assert "twin" in answer
    assert other.host("twin").enter(["ls", "/opt/lab/treeline_lab/lab.py"]).returncode == 0
    assert other.host("twin").enter(["touch", "/opt/lab/written"]).returncode != 0
    # A new host at the address must not be met through the connection that Ansible keeps to the old one.
    assert other.down() == ["twin"]
    other.up({"triplet": ADDRESS})
    inventory = other.write_inventory(tmp_path / "hosts.yml", {"triplet": ADDRESS})
    assert "triplet" in ansible(inventory, "ansible.builtin.command", "-a", "cat /etc/hostname").stdout
    other.down()
    assert traces(other) == []
    assert inside(lab, "systemctl", "is-system-running") == "running"


def test_no_way_out_of_the_lab(lab: Lab) -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    done = lab.host(HOST).enter(["python3", "-c", code])
    assert "No route to host" in done.stderr or "unreachable" in done.stderr
    assert ADDRESS not in subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout


def test_a_taken_name_or_address_is_refused(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="is up already, from the directory"):
        Lab(lab.name, tmp_path).up(HOSTS)
    with pytest.raises(LabError, match="is up already, from the directory"):
        Lab(lab.name, tmp_path).down()
    with pytest.raises(LabError, match=f"is the address of {HOST} already"):
        lab.up({"other": ADDRESS})
    with pytest.raises(LabError, match=f"{HOST} has the address {ADDRESS}"):
        lab.up({HOST: "10.66.0.12"})


@pytest.mark.parametrize("moment", ["directory", "mount", "process"])
def test_a_killed_up_is_repaired_by_the_next(make_lab: MakeLab, moment: str) -> None:
    lab = make_lab(f"k{moment[0]}")
    reached = {
        "directory": lambda: lab.files.host(HOST).root.exists(),
        "mount": lambda: mounts.is_mounted(lab.files.host(HOST).mount),
        "process": lambda: cgroups.processes(lab.name, HOST),
    }[moment]
    command = [sys.executable, "-m", "treeline_lab", "--name", lab.name, "up", "--host", f"{HOST}={ADDRESS}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as victim:
        wait_until(reached, moment)
        victim.kill()
    lab.up(HOSTS)
    assert inside(lab, "systemctl", "is-system-running") == "running"
    assert lab.down() == [HOST]
    assert traces(lab) == []


def test_down_after_a_killed_up_leaves_nothing(make_lab: MakeLab) -> None:
    lab = make_lab("kd")
    command = [sys.executable, "-m", "treeline_lab", "--name", lab.name, "up", "--host", f"{HOST}={ADDRESS}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as victim:
        wait_until(lambda: lab.files.host(HOST).root.exists(), "the host's directory")
        victim.kill()
    lab.down()
    assert traces(lab) == []
    assert lab.down() == []


def test_a_mount_that_comes_while_a_tree_is_removed_is_removed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    at = tree / "mounted"
    at.mkdir(parents=True)
    remove = shutil.rmtree

    def remove_late(path: Path) -> None:
        monkeypatch.undo()
        subprocess.run(["mount", "-t", "tmpfs", "late", str(at)], check=True)
        remove(path)

    monkeypatch.setattr(mounts.shutil, "rmtree", remove_late)
    mounts.remove_tree(tree)
    assert not tree.exists()
    assert not mounts.is_mounted(at)


def test_one_host_of_two_is_removed(make_lab: MakeLab) -> None:
    lab = make_lab("two")
    lab.up({"one": "10.66.0.11", "two": "10.66.0.12"})
    assert lab.host("one").enter(["getent", "hosts", "two"]).stdout.startswith("10.66.0.12")
    assert lab.down(["one"]) == ["one"]
    assert [(item.name, item.state) for item in lab.status()] == [("two", "running")]
    assert lab.up({"two": "10.66.0.12"}).unchanged == ["two"]
    assert lab.down() == ["two"]
    assert traces(lab) == []


def test_two_ups_at_once_make_one_lab(make_lab: MakeLab) -> None:
    lab = make_lab("race")
    command = [sys.executable, "-m", "treeline_lab", "--name", lab.name, "up", "--host", f"{HOST}={ADDRESS}"]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(racer.communicate(timeout=60)[0].splitlines()[0] for racer in racers)
    assert said == [f"{HOST}: created and booted", f"{HOST}: running already, unchanged"]


def test_remove_tree_never_enters_a_mount(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "tree/inner").mkdir(parents=True)
    subprocess.run(["mount", "--bind", tmp_path / "precious", tmp_path / "tree/inner"], check=True)
    mounts.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert (tmp_path / "precious/file").exists()
