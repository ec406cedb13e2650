"""Keep a sweep that has lost its host from starting its trial unit again.

A controller that sleeps through its lease and wakes up would go on with its next task, a restart of the
trial unit, and by `Conflicts=` kill the service that has just been restored; a condition in the unit would
come too late, because the conflicting unit is stopped first. A masked unit is refused before that.
"""

from __future__ import annotations

from pathlib import Path

from . import systemd
from .files import PATHS, Paths, StateFileError


def raise_fence(trial_unit: str, paths: Paths = PATHS) -> None:
    """Mask the trial unit until `lower_fence` or a reboot. Raises StateFileError, CommandError."""
    link = paths.overrides / trial_unit
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to("/dev/null")
    except OSError as error:
        raise StateFileError("cannot write %s: %s" % (link, error.strerror or error)) from error
    systemd.systemctl("daemon-reload")


def lower_fence(trial_unit: str, paths: Paths = PATHS) -> bool:
    """Take our mask away; returns whether there was one. Raises StateFileError, CommandError."""
    link = paths.overrides / trial_unit
    if not is_raised(trial_unit, paths):
        return False
    try:
        link.unlink()
    except OSError as error:
        raise StateFileError("cannot delete %s: %s" % (link, error.strerror or error)) from error
    systemd.systemctl("daemon-reload")
    return True


def is_raised(trial_unit: str, paths: Paths = PATHS) -> bool:
    """Whether the trial unit is masked by us."""
    link = paths.overrides / trial_unit
    return link.is_symlink() and link.readlink() == Path("/dev/null")
