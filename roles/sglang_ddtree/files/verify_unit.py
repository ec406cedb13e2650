"""Refuse a systemd unit that systemd would load only in part.

usage: verify_unit.py UNIT_NAME FILE

`systemd-analyze verify` exits 0 on an unknown key and only prints it, and it needs a file with the unit's own
name. So this copies FILE to a private directory under UNIT_NAME, and refuses it when verify fails or says
anything about that file. Exit status: 0 accepted, 1 refused, 2 could not be checked. Standard library only;
no percent sign in this file, because Ansible's `validate` formats the command that carries it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 30


def complaints(printed: str, copy: Path) -> list[str]:
    """Lines of verify's output about the unit in `copy`, without the path of that private copy."""
    return [
        line.replace(f"{copy.parent}/", "").strip()
        for line in printed.splitlines()
        if line.startswith((f"{copy.name}:", f"{copy}:"))
    ]


def verify(unit_name: str, source: str) -> tuple[int, str]:
    """Exit status and text for the unit in the file `source`."""
    with tempfile.TemporaryDirectory(prefix="verify-unit-") as directory:
        copy = Path(directory) / unit_name
        shutil.copyfile(source, copy)
        try:
            done = subprocess.run(
                ["systemd-analyze", "verify", "--man=no", copy],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            return 2, "systemd-analyze is not installed on this host"
        except subprocess.TimeoutExpired:
            return 2, f"systemd-analyze verify did not end within {TIMEOUT_S} s"
        printed = done.stdout.decode("utf-8", "replace")
        found = complaints(printed, copy)
    if found:
        return 1, "\n".join([f"systemd does not accept {unit_name}:", *found])
    if done.returncode != 0:
        return 1, f"systemd-analyze verify exited {done.returncode} for {unit_name}:\n{printed.strip()}"
    return 0, ""


def main(arguments: list[str]) -> int:
    """Check the unit named on the command line and say on stderr what is wrong with it."""
    if len(arguments) != 2:
        sys.stderr.write("usage: verify_unit.py UNIT_NAME FILE\n")
        return 2
    status, text = verify(*arguments)
    if text:
        sys.stderr.write(f"{text}\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
