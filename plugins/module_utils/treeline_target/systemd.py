"""Ask systemd and the journal by their command-line tools, always bounded in time.

What this rests on was measured on systemd 252, the version of Debian bookworm.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence

DEFAULT_TIMEOUT_S = 30.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(y|month|w|d|h|min|s|ms|us)")
_DAY = 86400.0
_UNITS = {
    "y": 365.25 * _DAY,
    "month": 30.44 * _DAY,
    "w": 7 * _DAY,
    "d": _DAY,
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
}


class CommandError(Exception):
    """A command failed, was missing or ran past its bound; the message names it and what it printed."""


@dataclass(frozen=True)
class Completed:
    """What a finished command left behind."""

    argv: tuple[str, ...]
    rc: int
    stdout: str
    stderr: str


def run(
    argv: Sequence[str],
    timeout: float = DEFAULT_TIMEOUT_S,
    check: bool = False,
    environment: Optional[Mapping[str, str]] = None,
    own_session: bool = False,
) -> Completed:
    """Run `argv` without a shell and return its output as text (bad bytes replaced).

    `environment` is added to this process's own; `own_session` detaches it from a hang-up of ours.
    Raises CommandError when the program is missing, outlasts `timeout` seconds, or (with `check`) exits
    non-zero.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            check=False,
            env={**os.environ, **environment} if environment else None,
            start_new_session=own_session,
        )
    except FileNotFoundError:
        raise CommandError("%s is not installed on this host" % argv[0]) from None
    except subprocess.TimeoutExpired:
        raise CommandError("%s did not end within %g s" % (" ".join(argv), timeout)) from None
    result = Completed(
        tuple(argv),
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )
    if check and result.rc != 0:
        said = (result.stderr or result.stdout).strip()
        raise CommandError("%s exited %d: %s" % (" ".join(argv), result.rc, said or "no output"))
    return result


def systemctl(*args: str, timeout: float = DEFAULT_TIMEOUT_S, check: bool = True) -> Completed:
    """Run `systemctl ARGS`; raises CommandError as `run` does."""
    return run(("systemctl", "--no-pager", *args), timeout=timeout, check=check)


def parse_properties(text: str) -> dict[str, str]:
    """Turn `Key=value` lines of `systemctl show` into a dict; a repeated key keeps all values, one a line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, sep, value = line.partition("=")
        if not sep:
            continue
        found[key] = "%s\n%s" % (found[key], value) if key in found else value
    return found


def show(unit: str, properties: Sequence[str] = ()) -> dict[str, str]:
    """Properties of `unit` as systemd reports them; all of them when `properties` is empty."""
    wanted = ["--property=%s" % ",".join(properties)] if properties else []
    return parse_properties(systemctl("show", "--all", *wanted, "--", unit).stdout)


def seconds(span: str) -> Optional[float]:
    """Seconds of a time span as `systemctl show` prints it (`1min 30s`, `infinity`); None: it is none."""
    if span.strip() == "infinity":
        return math.inf
    parts = span.split()
    matches = [_SPAN.fullmatch(part) for part in parts]
    if span.strip() == "0":
        return 0.0
    if not parts or None in matches:
        return None
    return sum(float(match[1]) * _UNITS[match[2]] for match in matches if match)


def is_running_state(active_state: str) -> bool:
    """Whether a unit in this ActiveState counts as running (active, activating and reloading do)."""
    return active_state in ("active", "activating", "reloading")
