"""Building the root file system for real, killed half-way and done again (about a minute: `long`)."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from treeline_lab import mounts, requirements, rootfs

pytestmark = [pytest.mark.lab, pytest.mark.long]

CODE = """
import sys
from dataclasses import replace
from pathlib import Path
from treeline_lab import rootfs
rootfs.ensure(Path(sys.argv[1]), replace(rootfs.machine_recipe(), packages=("openssh-server",)), print)
"""


def users_of(folder: Path) -> list[str]:
    """Processes that work in, or name, a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            places = [str((process / link).readlink()) for link in ("cwd", "root")]
        except OSError:
            continue
        if any(str(folder) in text for text in (words, *places)):
            found.append(words)
    return found


def test_a_killed_build_leaves_only_a_directory_and_the_next_one_succeeds(tmp_path: Path) -> None:
    requirements.check()
    recipe = replace(rootfs.machine_recipe(), packages=("openssh-server",))
    target = tmp_path / f"{recipe.key()}.tmp"
    with subprocess.Popen([sys.executable, "-c", CODE, str(tmp_path)], stdout=subprocess.DEVNULL) as victim:
        deadline = time.monotonic() + 240
        while not (target / "var/lib/dpkg/status").exists():
            assert time.monotonic() < deadline, "the build never reached dpkg"
            assert victim.poll() is None, "the build ended by itself"
            time.sleep(0.05)
        victim.kill()
    deadline = time.monotonic() + 10
    while users_of(target):
        assert time.monotonic() < deadline, users_of(target)
        time.sleep(0.05)
    assert [point for point in mounts.mount_points() if tmp_path in point.parents] == []
    assert target.is_dir()

    said: list[str] = []
    done = rootfs.ensure(tmp_path, recipe, said.append)
    assert (done / "usr/sbin/sshd").exists()
    assert not target.exists()
    assert any("building" in line for line in said)

    said.clear()
    assert rootfs.ensure(tmp_path, recipe, said.append) == done
    assert said == []
