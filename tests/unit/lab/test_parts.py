"""The small parts that need no root: names, addresses, cgroups, requirements, proxy, command line."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
from click.testing import CliRunner
from treeline_lab import cgroups, keys, locks, mounts, network, proxy, requirements, state
from treeline_lab.__main__ import main
from treeline_lab.errors import LabError
from treeline_lab.host import nspawn_command
from treeline_lab.lab import HostStatus, Lab

HYBRID = """\
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,relatime,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0
"""
PURE = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0\n"


def test_hierarchies_of_hybrid_and_pure_machines() -> None:
    assert set(cgroups.hierarchies(HYBRID)) == {
        Path("/sys/fs/cgroup/systemd"),
        Path("/sys/fs/cgroup/unified"),
    }
    assert cgroups.hierarchies(PURE) == [Path("/sys/fs/cgroup")]
    assert cgroups.hierarchies("tmpfs /tmp tmpfs rw 0 0\n") == []


def test_mount_points_with_blanks() -> None:
    line = "36 35 98:0 / /a\\040b rw,noatime master:1 - ext3 /dev/root rw\n"
    assert mounts.mount_points(line) == [Path("/a b")]


def test_remove_tree_removes(tmp_path: Path) -> None:
    (tmp_path / "tree/below").mkdir(parents=True)
    mounts.remove_tree(tmp_path / "tree")
    mounts.remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize("name", ["", "Lab", "a.b", "a_b", "-a", "a" * 41, "a/b"])
def test_bad_lab_names(name: str) -> None:
    with pytest.raises(LabError, match="lab name"):
        Lab(name)


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/..", "a..b", "a" * 64])
def test_bad_host_names(name: str, tmp_path: Path) -> None:
    with pytest.raises(LabError, match="host name"):
        Lab("x", tmp_path).host(name)


@pytest.mark.parametrize("address", ["10.66.0.1", "10.66.0.0", "10.66.0.255", "nine", "::1", "10.66.0.300"])
def test_addresses_that_cannot_be_a_hosts_are_named(address: str) -> None:
    with pytest.raises(LabError, match="h1.*" + address.replace(".", r"\.")):
        network.parse_address("h1", address)


def test_a_port_is_known_by_its_address() -> None:
    port = network.Port(IPv4Address("10.66.0.11"))
    assert port.mac == "02:00:0a:42:00:0b"
    assert len(port.link) <= 15
    assert port.gateway == IPv4Address("10.66.0.1")
    assert network.gateway(IPv4Network("10.1.2.0/24")) == IPv4Address("10.1.2.1")


def test_namespaces_of_labs_and_hosts_cannot_meet() -> None:
    assert network.switch_namespace("a-b") != network.host_namespace("a", "b")


def test_two_hosts_cannot_share_an_address(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"10\.66\.0\.11 is the address of a already"):
        Lab("x", tmp_path).plan({"a": "10.66.0.11", "b": "10.66.0.11"})


def test_plan_of_a_new_lab_changes_nothing(tmp_path: Path) -> None:
    result = Lab("unused-name", tmp_path).plan({"a": "10.66.0.11"})
    assert result.created == ["a"]
    assert result.changed
    assert list(tmp_path.iterdir()) == []


def test_control_sockets_move_when_the_labs_path_is_too_long_for_them() -> None:
    longest = Path("/" + "d" * (state.LONGEST_ROOT - 1))
    assert state.control_dir(longest, "x") == longest / "ssh"
    assert len(str(longest / "ssh/255.255.255.255")) + 17 == 107
    assert state.control_dir(Path(f"{longest}d"), "x") == Path("/run/treeline-lab/x")


def test_state_directory_follows_xdg_then_sudo_then_home(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state.default_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/treeline")
    assert state.default_dir({"HOME": "/home/me"}) == Path("/home/me/.cache/treeline")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.default_dir({"HOME": "/root", "SUDO_USER": "nobody"}) == Path("/nonexistent/.cache/treeline")
    assert state.caller({"SUDO_UID": "1000", "SUDO_GID": "1001"}) == (1000, 1001)


def test_a_torn_host_record_counts_as_unfinished(tmp_path: Path) -> None:
    files = Lab("x", tmp_path).files.host("a")
    files.root.mkdir(parents=True)
    (files.root / "host.json").write_text('{"address": "10.')
    assert files.read() is None
    files.write(state.HostRecord(address="10.66.0.11", rootfs="k"))
    assert files.read() == state.HostRecord(address="10.66.0.11", rootfs="k")


def test_missing_programs_are_named_with_their_packages(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "SYSTEM_PATH", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(LabError) as caught:
        requirements.check()
    text = str(caught.value)
    for program, package in (("systemd-nspawn", "systemd-container"), ("ip", "iproute2")):
        assert f"{program}: not installed (apt package {package})" in text
    assert "apt-get install" in text
    assert "requirements --install" in text


def test_without_root_the_sudo_command_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=f"sudo {sys.executable} -m treeline_lab"):
        requirements.check_root()


def test_packages_are_asked_for_once() -> None:
    missing = [
        requirements.Requirement("ssh", False, "not installed", "openssh-client"),
        requirements.Requirement("ssh-keygen", False, "not installed", "openssh-client"),
        requirements.Requirement("ip", True, "", "iproute2"),
    ]
    assert requirements.packages_of(missing) == ["openssh-client"]


def test_known_hosts_are_by_address(tmp_path: Path) -> None:
    keys.ensure_pair(tmp_path / "key", "h1")
    before = (tmp_path / "key").read_bytes()
    keys.ensure_pair(tmp_path / "key", "h1")
    assert (tmp_path / "key").read_bytes() == before
    text = keys.known_hosts({"10.66.0.11": tmp_path / "key", "10.66.0.12": tmp_path / "none"})
    assert text.startswith("10.66.0.11 ssh-ed25519 AAAA")
    assert text.count("\n") == 1


def test_binds_are_read_only() -> None:
    assert "--bind-ro=/a:/b" in nspawn_command(Path("/r"), "h", "tl-x.h", ["/a:/b"])


def test_proxy_to_a_lab_that_is_not_up_says_how_to_boot_it() -> None:
    script = Path(proxy.__file__)
    done = subprocess.run(
        [sys.executable, "-I", "-S", script, "--netns", "tl-not-there", "10.66.0.11", "22"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 1
    assert "lab not-there is not up; boot it: ansible-playbook lab.yml" in done.stderr


def test_ssh_shows_why_there_is_no_connection(tmp_path: Path) -> None:
    # With ControlPersist, as Ansible uses it, ssh drops what a ProxyCommand writes to standard error.
    command = f"{sys.executable} -I -S {proxy.__file__} --pass-fd --netns tl-not-there %h %p"
    options = [
        "-F",
        "none",
        "-o",
        f"ControlPath={tmp_path}/c",
        "-o",
        "ControlMaster=auto",
        "-o",
        "ControlPersist=1",
    ]
    options += ["-o", "ProxyUseFdpass=yes", "-o", f"ProxyCommand={command}"]
    done = subprocess.run(
        ["ssh", *options, "root@10.66.0.11", "true"], capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 255
    assert "lab not-there is not up; boot it: ansible-playbook lab.yml" in done.stderr


def test_relay_copies_both_ways_until_the_host_closes() -> None:
    near, far = socket.socketpair()
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    relaying = threading.Thread(target=proxy.relay, args=(near, stdin_read, stdout_write))
    relaying.start()
    os.write(stdin_write, b"question")
    assert far.recv(64) == b"question"
    os.close(stdin_write)
    assert far.recv(64) == b""  # end of input closes one direction only
    far.sendall(b"answer")
    far.close()
    relaying.join(timeout=10)
    os.close(stdout_write)
    assert os.read(stdout_read, 64) == b"answer"


def test_a_connection_is_handed_over_whole() -> None:
    ours, theirs = socket.socketpair()
    code = (
        "import socket, sys; sys.path.insert(0, sys.argv[1]); import proxy\n"
        "a, b = socket.socketpair(); b.sendall(b'through'); proxy.pass_descriptor(a)"
    )
    folder = str(Path(proxy.__file__).parent)
    subprocess.run([sys.executable, "-c", code, folder], stdout=theirs.fileno(), check=True, timeout=30)
    _, descriptors, _, _ = socket.recv_fds(ours, 16, 1)
    assert os.read(descriptors[0], 64) == b"through"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--name", "Bad", "status"], "lab name 'Bad'"),
        (["--name", "not-there", "status"], "is not up"),
        (["--help"], "systemd-nspawn"),
    ],
)
def test_command_line_says_it_plainly(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--dir", str(tmp_path), *arguments])
    assert said in done.output
    assert "Traceback" not in done.output


def test_command_line_names_a_path_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [HostStatus("lab1", "10.66.0.11", "running")]
    monkeypatch.setattr(Lab, "status", lambda _: hosts)
    done = CliRunner().invoke(main, ["--dir", str(tmp_path), "inventory", "/proc/x/hosts.yml"])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "treeline-lab: /proc/x: No such file" in done.output


def test_a_lock_that_stays_taken_is_named(tmp_path: Path) -> None:
    path = tmp_path / "build.lock"
    said: list[str] = []
    with (
        locks.held(path, 1, "first"),
        pytest.raises(LabError, match=r"second: another process has held .*build\.lock for 0\.1 s"),
        locks.held(path, 0.1, "second", lambda: said.append("waiting")),
    ):
        pytest.fail("it was taken twice")
    assert said == ["waiting"]
    with locks.held(path, 0, "third"):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "lab1"], "NAME=ADDRESS"),
        (["--host", "a=10.66.0.2", "--inventory", "x"], "not both"),
        (["--inventory", "/nowhere.yml"], "does not exist"),
    ],
)
def test_command_line_refuses_bad_hosts(options: list[str], said: str) -> None:
    done = CliRunner().invoke(main, ["--name", "not-there", "up", *options])
    assert done.exit_code != 0
    assert said in done.output
