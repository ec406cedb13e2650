"""Full disks and a forgetful journal on a lab host, by the commands that users call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import CliRunner
from treeline_lab import Lab, LabError, disks
from treeline_lab.disk_commands import COMMANDS
from treeline_lab.host import Host

pytestmark = pytest.mark.lab

MakeLab = Callable[..., Lab]
DATA = "/var/lib/lab-data"


@pytest.fixture(scope="module")
def host(make_lab: MakeLab) -> Host:
    lab = make_lab("full")
    lab.up({"lab1": "10.66.0.14"})
    found = lab.host("lab1")
    inside(found, f"mkdir -m 750 {DATA} && echo old > {DATA}/old && echo kept > {DATA}/kept")
    return found


def inside(host: Host, script: str) -> subprocess.CompletedProcess[str]:
    return host.enter(["sh", "-c", script])


def wrote(host: Host, path: str) -> bool:
    return inside(host, f"echo more > {path}").returncode == 0


@pytest.mark.parametrize("place", ["/run", DATA])
def test_a_full_disk_takes_nothing_and_gives_the_space_back(host: Host, place: str) -> None:
    assert wrote(host, f"{place}/before")
    disks.fill(host, place)
    assert not wrote(host, f"{place}/during")
    assert inside(host, f"cat {place}/before").stdout == "more\n"
    assert wrote(host, "/var/tmp/elsewhere")  # noqa: S108
    assert disks.drain(host, place)
    assert wrote(host, f"{place}/after")
    assert not disks.drain(host, place)


def test_what_changed_below_a_full_path_stays(host: Host) -> None:
    inside(host, f"echo old > {DATA}/old; echo kept > {DATA}/kept")
    disks.fill(host, DATA, leave_kib=64)
    assert inside(host, f"rm {DATA}/old && echo new > {DATA}/new").returncode == 0
    assert disks.drain(host, DATA)
    there = inside(host, f"cd {DATA} && cat kept new && ls old; stat -c %a {DATA}")
    assert there.stdout.split() == ["kept", "new", "750"]


def test_a_second_fill_and_a_path_that_is_none_are_named(host: Host) -> None:
    disks.fill(host, DATA)
    try:
        with pytest.raises(LabError, match="full already"):
            disks.fill(host, DATA)
    finally:
        disks.drain(host, DATA)
    with pytest.raises(LabError, match="no directory"):
        disks.fill(host, "/nowhere")
    with pytest.raises(LabError, match="full path"):
        disks.fill(host, "run")


def test_a_folder_inside_a_tmpfs_is_refused_with_what_to_fill_instead(host: Host) -> None:
    inside(host, "mkdir -p /run/lab-data")
    with pytest.raises(LabError, match=r"lies in the tmpfs at /run, .* fill /run instead"):
        disks.fill(host, "/run/lab-data")
    assert wrote(host, "/run/lab-data/after")


def test_the_journal_forgets(host: Host) -> None:
    inside(host, "logger -t before-it a line; journalctl --sync")
    assert "a line" in inside(host, "journalctl -t before-it -o cat").stdout
    disks.forget_journal(host)
    assert "a line" not in inside(host, "journalctl -t before-it -o cat").stdout
    inside(host, "logger -t after-it a line; journalctl --sync")
    assert "a line" in inside(host, "journalctl -t after-it -o cat").stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command.name))
def test_a_host_that_is_not_there_is_named(host: Host, command: object) -> None:
    arguments = ["lab9"] if command.name == "forget-journal" else ["lab9", "/run"]
    done = CliRunner().invoke(command, arguments, obj=Lab(host.lab))
    assert isinstance(done.exception, LabError), sys.exc_info()
    assert "lab9" in str(done.exception)
    assert "lab1" in str(done.exception)
