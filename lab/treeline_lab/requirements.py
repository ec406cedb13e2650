"""What this machine must have for lab hosts, each missing thing named with the Debian package that has it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from treeline_lab import cgroups, mounts
from treeline_lab.commands import run
from treeline_lab.errors import LabError

PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "mmdebstrap": "mmdebstrap",
    "ip": "iproute2",
    "sysctl": "procps",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "mount": "mount",
    "umount": "mount",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "apt-config": "apt",
}
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")
INOTIFY_PER_HOST = 6  # measured: 20 idle hosts ran out of 128
INSTALL_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Requirement:
    """One thing that was looked for; `package` is the Debian package to install if it is missing."""

    name: str
    present: bool
    problem: str = ""
    package: str | None = None


def check_root() -> None:
    """Raise LabError with the command to use instead when this is not root."""
    if os.geteuid() != 0:
        again = " ".join(["sudo", sys.executable, "-m", "treeline_lab", *sys.argv[1:]])
        raise LabError(f"lab hosts need root (namespaces, mounts, cgroups). Run with sudo: {again}")


def check() -> None:
    """The quick part, before every `up`: raise LabError that lists all that is missing and how to get it."""
    check_root()
    missing = [item for item in [_linux(), *_programs(), _cgroups()] if not item.present]
    if missing:
        raise LabError(explain(missing))


def examine(state_dir: Path) -> list[Requirement]:
    """Everything; namespaces and the overlay are tried for real, which only root can."""
    found = [_linux(), _root(), *_programs(), _cgroups()]
    if os.geteuid() == 0 and all(item.present for item in found):
        found += [_namespaces(), _overlay(state_dir)]
    return found


def notes() -> list[str]:
    """What does not stop a lab but is good to know."""
    return [*_sudo_note(), *_inotify_note()]


def _sudo_note() -> list[str]:
    if os.geteuid() == 0:
        return []
    return [
        "you are not root: connections to lab hosts go through sudo and cannot ask for its password; where "
        "sudo wants one, run the playbooks with sudo. Namespaces and overlays are only tried as root"
    ]


def _inotify_note() -> list[str]:
    try:
        instances = int(INOTIFY_INSTANCES.read_text())
    except (OSError, ValueError):
        return []
    hosts = instances // INOTIFY_PER_HOST
    if hosts > 64:
        return []
    return [
        f"at most about {hosts} hosts at once: fs.inotify.max_user_instances is {instances}. "
        "More: sysctl -w fs.inotify.max_user_instances=1024"
    ]


def explain(missing: list[Requirement]) -> str:
    """One message for all missing things, with the command that installs what can be installed."""
    lines = ["this machine cannot run lab hosts yet:"]
    lines += [
        f"  {item.name}: {item.problem}" + (f" (apt package {item.package})" if item.package else "")
        for item in missing
    ]
    packages = packages_of(missing)
    if packages:
        lines.append(
            f"install them: apt-get install {' '.join(packages)}   or: treeline-lab requirements --install"
        )
    return "\n".join(lines)


def packages_of(missing: list[Requirement]) -> list[str]:
    """Debian packages that would help, each once."""
    return sorted({item.package for item in missing if item.package and not item.present})


def install(packages: list[str], say: Callable[[str], None]) -> None:
    """Install Debian packages with apt-get, saying each command; raises LabError when that fails."""
    check_root()
    if not shutil.which("apt-get", path=_path()):
        raise LabError(f"apt-get is not here; install by hand what has: {', '.join(packages)}")
    lock = ("-o", "DPkg::Lock::Timeout=300")
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    for command in (
        ["apt-get", *lock, "update", "--quiet"],
        ["apt-get", *lock, "install", "--quiet", "--yes", "--no-install-recommends", *packages],
    ):
        say(" ".join(command))
        run(command, timeout=INSTALL_TIMEOUT_S)


def _path() -> str:
    # Root's tools are often not on the PATH of a plain user, whose `requirements` must not call them missing.
    return f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"


def _linux() -> Requirement:
    present = sys.platform == "linux"
    return Requirement("Linux", present, f"this is {sys.platform}; use a Linux machine or virtual machine")


def _root() -> Requirement:
    present = os.geteuid() == 0 or shutil.which("sudo", path=_path()) is not None
    return Requirement("root or sudo", present, "you are not root, and sudo is not installed", "sudo")


def _programs() -> list[Requirement]:
    return [
        Requirement(name, shutil.which(name, path=_path()) is not None, "not installed", package)
        for name, package in PROGRAMS.items()
    ]


def _cgroups() -> Requirement:
    found = cgroups.hierarchies() if cgroups.MOUNTS.exists() else []
    if not found:
        return Requirement("cgroups", False, "neither cgroup2 nor name=systemd is mounted")
    if os.geteuid() == 0:
        for base in found:
            if not os.access(base, os.W_OK):
                return Requirement(
                    "cgroups", False, f"{base} is read-only (a container without --privileged?)"
                )
    return Requirement("cgroups", True)


def _namespaces() -> Requirement:
    kinds = ("--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--user")
    done = run(["unshare", *kinds, "--fork", "true"], check=False)
    return Requirement("namespaces", done.returncode == 0, done.stderr.strip() or "unshare failed")


def _overlay(state_dir: Path) -> Requirement:
    base = next(path for path in (state_dir, *state_dir.parents) if path.is_dir())
    with tempfile.TemporaryDirectory(dir=base, prefix=".treeline-lab-") as name:
        trial = Path(name)
        (trial / "lower").mkdir()
        try:
            mounts.overlay(trial / "lower", trial / "upper", trial / "work", trial / "root")
            (trial / "root/written").touch()
        except (LabError, OSError) as error:
            return Requirement(
                "overlay", False, f"cannot be mounted below {base}: {error}. Take another --dir"
            )
        finally:
            mounts.unmount_below(trial)
    return Requirement("overlay", True)
