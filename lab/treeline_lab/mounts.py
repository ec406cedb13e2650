"""Mounts of this machine: what is mounted where, and removal that never crosses into a mount."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from treeline_lab.commands import run
from treeline_lab.errors import LabError

MOUNTINFO = Path("/proc/self/mountinfo")
UNMOUNT_TIMEOUT_S = 5.0


def mount_points(text: str | None = None) -> list[Path]:
    """Mount points in the order they were mounted, octal escapes resolved (proc(5), mountinfo)."""
    text = MOUNTINFO.read_text(encoding="utf-8", errors="replace") if text is None else text
    return [Path(_unescape(line.split()[4])) for line in text.splitlines() if line]


def _unescape(word: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, char)
    return word


def is_mounted(path: Path) -> bool:
    """Whether something is mounted at exactly this path."""
    return path.resolve() in mount_points()


def overlay(lower: Path, upper: Path, work: Path, at: Path) -> None:
    """Mount an overlay at `at`; raises LabError with the kernel's word when it cannot."""
    for path in (lower, upper, work):
        if any(char in str(path) for char in ",:\\"):
            raise LabError(f"{path}: the lab's directory must not hold a comma, colon or backslash (--dir)")
    for path in (upper, work, at):
        path.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    run(["mount", "-t", "overlay", "treeline-lab", "-o", options, str(at)])


def unmount_below(path: Path) -> None:
    """Unmount everything at or below `path`, innermost first; what stays busy is detached."""
    path = path.resolve()
    for point in reversed([found for found in mount_points() if found == path or path in found.parents]):
        deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
        while run(["umount", str(point)], check=False).returncode != 0:
            # The kernel takes a killed host's own mounts apart after its processes are gone.
            if time.monotonic() > deadline:
                run(["umount", "--lazy", str(point)], check=False)
                break
            time.sleep(0.05)


def remove_tree(path: Path) -> None:
    """Remove a directory tree after unmounting what is below it; raises LabError if a mount stays."""
    deadline = time.monotonic() + UNMOUNT_TIMEOUT_S
    while path.exists():
        unmount_below(path)
        left = [
            str(point)
            for point in mount_points()
            if path.resolve() in point.parents or point == path.resolve()
        ]
        if left:
            raise LabError(f"{path} is not removed: still mounted below it: {', '.join(left)}")
        try:
            shutil.rmtree(path)
        except OSError:
            # A `mount` whose lab command was killed may end only now.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
