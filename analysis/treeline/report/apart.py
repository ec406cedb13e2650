"""Draw the report in a process of its own: it may fail or take too long there without harming anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PAGE = "report.html"


def draw_page(sweep_dir: Path, within_s: float) -> tuple[Path | None, str]:
    """Write `report.html` into a sweep folder. Returns it and no remark, or None and why there is none."""
    target = sweep_dir / PAGE
    command = [sys.executable, "-m", "treeline.report.apart", str(sweep_dir), str(target)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None, f"{PAGE} was not drawn within {within_s:g} s; `treeline report` draws it without a limit"
    except OSError as error:
        return None, f"{PAGE} was not drawn: {error.strerror or error}"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, f"{PAGE} was not drawn: {lines[-1][:300]}"
    return target, ""


def main(arguments: list[str]) -> None:
    """Draw one sweep's report: its folder and the file to write."""
    from treeline.report.page import write_page

    write_page([Path(arguments[0])], Path(arguments[1]))


if __name__ == "__main__":
    main(sys.argv[1:])
