"""Run this machine's own tools (ip, mount, ssh-keygen, ...), always bounded in time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from treeline_lab.errors import LabError


def run(
    argv: Sequence[str], *, timeout: float = 30.0, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run `argv` without a shell; output as text with bad bytes replaced.

    Raises LabError when the program is missing, outlasts `timeout` seconds, or (with `check`) exits non-zero.
    """
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise LabError(f"{argv[0]} is not installed here; see: treeline-lab requirements") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)} did not end within {timeout:g} s") from None
    if check and done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or "no output"
        raise LabError(f"{' '.join(argv)} exited {done.returncode}: {said}")
    return done
