"""A real SGLang router on a lab host of its own: the package in the cache, bound read-only into the host."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from treeline_lab import locks, rootfs
from treeline_lab.commands import run
from treeline_lab.errors import LabError
from treeline_lab.lab import UP_TIMEOUT_S, Lab

# The extra `router` of pyproject.toml names the same.
REQUIREMENT = "sglang-router>=0.3.2,<0.4"
PORT = 31000
FOLDER = "/opt/treeline/router"
UNIT = "sglang-router.service"
INSTALL_TIMEOUT_S = 600.0

# Its defaults are kept, the slow health checks too (a look a minute, three to notice a death).
_UNIT = """[Unit]
Description=SGLang router of the lab
StartLimitIntervalSec=0
[Service]
Environment=PYTHONPATH={folder}
ExecStart=/usr/bin/python3 -m sglang_router.launch_router --host {address} --port {port} \
--policy round_robin --prometheus-port 29000
Restart=on-failure
RestartSec=1
# Two sockets for each request under way; systemd's 1024 are soon used up.
LimitNOFILE=16384
[Install]
WantedBy=multi-user.target
"""
_WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"


def install(lab: Lab) -> Path:
    """The folder that holds the router and what it needs, installed first if it is not cached.

    It is made for the Python of the lab's root file system. Raises LabError.
    """
    lab.files.make_base()
    root = rootfs.ensure(lab.files.rootfs_cache, rootfs.machine_recipe(), lambda _: None)
    versions = sorted(path.name.removeprefix("python") for path in root.glob("usr/lib/python3.*"))
    if not versions:
        raise LabError(f"{root}: no Python in the lab's root file system")
    cache = lab.files.rootfs_cache.parent / "router"
    cache.mkdir(parents=True, exist_ok=True)
    done = cache / f"python{versions[-1]}"
    with locks.held(cache / "install.lock", INSTALL_TIMEOUT_S, "the router is being installed"):
        if not done.is_dir():
            _install(done, versions[-1])
    return done


def _install(done: Path, python: str) -> None:
    unfinished = done.with_suffix(f".{os.getpid()}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # Wheels only: what is built here would be for this machine's Python.
    wanted = ["--python-version", python, "--only-binary=:all:", "--target", str(unfinished), REQUIREMENT]
    try:
        run([*pip, *wanted], timeout=INSTALL_TIMEOUT_S)
        unfinished.rename(done)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def up(lab: Lab, name: str, address: str, timeout: float = UP_TIMEOUT_S) -> str:
    """Boot a host with the router as a service on it, unless that runs; the router's address as a URL.

    Raises LabError.
    """
    lab.up({name: address}, [f"{install(lab)}:{FOLDER}"], timeout)
    text = _UNIT.format(folder=FOLDER, address=address, port=PORT)
    for argv in (
        ["/usr/bin/python3", "-c", _WRITE, f"/etc/systemd/system/{UNIT}", text],
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "--now", "--quiet", UNIT],
    ):
        done = lab.host(name).enter(argv)
        if done.returncode != 0:
            raise LabError(f"{name}: {argv[0]} exited {done.returncode}: {done.stderr or done.stdout}")
    return f"http://{address}:{PORT}"
