"""The one root file system every lab host is an overlay of: built once by mmdebstrap, cached by its inputs.

Nothing may change a finished rootfs: it is the lower layer of mounted overlays. Other content is another key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from treeline_lab import locks, mounts
from treeline_lab.commands import run
from treeline_lab.errors import LabError
from treeline_lab.sources import Source, machine_sources

FORMAT = 1  # raise when customise() changes in a way its data below does not show
BUILD_TIMEOUT_S = 1800.0

PACKAGES = (
    "ca-certificates",
    "curl",
    "dbus",
    "iproute2",
    "libnss-systemd",
    "libpam-systemd",
    "openssh-server",
    "procps",
    "python3",
    "python3-aiohttp",
    "python3-apt",
    "python3-numpy",
    "python3-prometheus-client",
    "python3-starlette",
    "python3-uvicorn",
    "python3-venv",
    "sudo",
    "systemd",
    "systemd-sysv",
    "zstd",
)

DPKG_OPTIONS = (
    "force-unsafe-io",
    "path-exclude=/usr/share/doc/*",
    "path-exclude=/usr/share/info/*",
    "path-exclude=/usr/share/locale/*",
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/lintian/*",
)

# The lab gives addresses from outside, shares the machine's clock, and has no network for apt.
MASKED_UNITS = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "console-getty.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty.target",
    "motd-news.timer",
    "systemd-networkd.service",
    "systemd-networkd.socket",
    "systemd-resolved.service",
    "systemd-timesyncd.service",
)

# curve25519 alone saves half of the CPU time of a connection; nobody outside this machine can reach the host.
FILES = {
    "etc/ssh/sshd_config.d/lab.conf": (
        "UseDNS no\n"
        "PermitRootLogin prohibit-password\n"
        "PasswordAuthentication no\n"
        "MaxStartups 200\n"
        "MaxSessions 100\n"
        "HostKey /etc/ssh/ssh_host_ed25519_key\n"
        "KexAlgorithms curve25519-sha256\n"
        "PrintMotd no\n"
    ),
    "etc/resolv.conf": "",
    "etc/hostname": "lab\n",
    "etc/machine-id": "",
    "etc/default/locale": "",  # pam_env warns at every login when it is missing
    # A lab host writes its journal to the overlay; a runaway test must not fill the disk.
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=256M\n",
}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what is in the rootfs."""

    suite: str
    sources: tuple[str, ...]
    packages: tuple[str, ...] = PACKAGES
    dpkg_options: tuple[str, ...] = DPKG_OPTIONS
    masked: tuple[str, ...] = MASKED_UNITS
    files: tuple[tuple[str, str], ...] = tuple(sorted(FILES.items()))
    format: int = FORMAT

    def key(self) -> str:
        """Sixteen hex digits that change with any input, readable prefix included."""
        text = json.dumps(self.__dict__, sort_keys=True)
        return f"{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def machine_recipe() -> Recipe:
    """The recipe for this machine's distribution; raises LabError when its apt sources cannot be used."""
    suite, sources = machine_sources()
    return recipe_from(suite, sources)


def recipe_from(suite: str, sources: Sequence[Source]) -> Recipe:
    """The recipe for given archives."""
    return Recipe(suite, tuple(source.line() for source in sources))


def ensure(cache: Path, recipe: Recipe, say: Callable[[str], None]) -> Path:
    """The finished rootfs of `recipe` under `cache`, built first if it is missing.

    Builds of several processes wait for each other. A killed one leaves `<key>.tmp`, which the next removes.
    Raises LabError when the build fails; its log stays beside the cache and is named.
    """
    done = cache / recipe.key()
    if not done.is_dir():
        with _building(cache, say):
            if not done.is_dir():
                _build(cache, recipe, done, say)
    return done


@contextlib.contextmanager
def _building(cache: Path, say: Callable[[str], None]) -> Iterator[None]:
    cache.mkdir(parents=True, exist_ok=True)
    what = "the lab's root file system is being built"

    def wait() -> None:
        say(f"{what} by another process; waiting for it")

    with locks.held(cache / "build.lock", BUILD_TIMEOUT_S, what, wait):
        yield


def _build(cache: Path, recipe: Recipe, done: Path, say: Callable[[str], None]) -> None:
    for stale in cache.glob("*.tmp"):
        mounts.remove_tree(stale)
    count = len(recipe.packages)
    say(f"building the lab's root file system ({recipe.suite}, {count} packages, 1 to 3 minutes, once)")
    started = time.monotonic()
    target = done.with_name(done.name + ".tmp")
    log = cache / f"{done.name}.log"
    _mmdebstrap(recipe, target, log)
    customise(target, recipe)
    target.rename(done)
    say(f"root file system ready after {time.monotonic() - started:.0f} s: {done}")


def build_command(recipe: Recipe, target: Path, apt_options: Path) -> list[str]:
    """The mmdebstrap command line.

    It runs in its own pid and mount namespace and dies with its parent: a killed build leaves neither an apt
    that still writes into the directory nor a mount below it.
    """
    return [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
        f"--include={','.join(recipe.packages)}",
        *(f"--dpkgopt={option}" for option in recipe.dpkg_options),
        f"--aptopt={apt_options}",
        recipe.suite,
        str(target),
        *recipe.sources,
    ]


def _mmdebstrap(recipe: Recipe, target: Path, log: Path) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as options, log.open("w") as out:
        options.write(apt_network_options(run(["apt-config", "dump"]).stdout))
        options.flush()
        try:
            rc = subprocess.run(
                build_command(recipe, target, Path(options.name)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=BUILD_TIMEOUT_S,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            raise LabError(f"mmdebstrap did not end within {BUILD_TIMEOUT_S:g} s; its log: {log}") from None
    if rc != 0:
        tail = "\n  ".join(log.read_text(errors="replace").splitlines()[-8:])
        raise LabError(f"mmdebstrap exited {rc}; the end of its log {log}:\n  {tail}")


def apt_network_options(dump: str) -> str:
    """Of `apt-config dump`, what decides whether the archives can be reached (proxy, dates, CA)."""
    wanted = ("::proxy ", "::check-valid-until ", "::check-date ", "::cainfo ", "::retries ", "::forceipv4 ")
    lines = [line for line in dump.splitlines() if line.startswith("Acquire::")]
    kept = [
        line for line in lines if any(name in line.lower() for name in wanted) and not line.endswith('"";')
    ]
    return "\n".join([*kept, 'Acquire::Languages "none";', ""])


def customise(root: Path, recipe: Recipe) -> None:
    """Turn a fresh bootstrap into a clean lower layer: no identity, no keys, no timers, sshd set up."""
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    for path in ("var/lib/dbus/machine-id", "etc/resolv.conf", "etc/apt/apt.conf.d/99mmdebstrap"):
        (root / path).unlink(missing_ok=True)
    for path in ("var/log/journal", "var/lib/apt/lists", "var/cache/apt/archives"):
        shutil.rmtree(root / path, ignore_errors=True)
        (root / path).mkdir(parents=True)
    for path, content in recipe.files:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    for unit in recipe.masked:
        link = root / "etc/systemd/system" / unit
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
