"""Put the restore program on the target: the sources of this package, as they run now.

A module runs from an archive that is gone when it ends; the lease needs a program that stays.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

from . import systemd
from .files import PATHS, Paths, StateFileError, write_atomic

PACKAGE = "treeline_target"
PROGRAM = "treeline_target.restore"


def program_argv(interpreter: str, *arguments: str) -> tuple[str, ...]:
    """The command line of the restore program under `interpreter`."""
    return (interpreter, "-B", "-m", PROGRAM, *arguments)


def interpreter() -> str:
    """The Python that runs this, and that the restore program will run under."""
    return sys.executable


def sources() -> dict[str, str]:
    """File name -> text of every module of this package that is loaded here, the package itself included.

    The caller imports the restore program, so all that it needs is loaded. Raises StateFileError when a
    loader does not give its source.
    """
    own = __package__ or PACKAGE
    found = {}
    for name, module in sorted(sys.modules.items()):
        if name != own and not name.startswith(own + "."):
            continue
        relative = name[len(own) :].lstrip(".")
        if "." in relative:
            continue
        found["%s.py" % (relative or "__init__")] = _source_of(name, module)
    return found


def install(paths: Paths = PATHS) -> bool:
    """Write the package to the library folder and prove that this interpreter can run it from there.

    Returns whether anything changed. Raises StateFileError or CommandError.
    """
    folder = paths.library / PACKAGE
    changed = False
    for name, text in sources().items():
        target = folder / name
        if _text_of(target) != text:
            write_atomic(target, text, 0o644)
            changed = True
    run_program(paths, "--check", timeout_s=30)
    return changed


def run_program(paths: Paths, *arguments: str, timeout_s: float, check: bool = True) -> systemd.Completed:
    """Run the installed restore program with the running interpreter, in a session of its own.

    Its own session keeps a hang-up of the connection from ending it half-way. Raises CommandError.
    """
    return systemd.run(
        program_argv(interpreter(), *arguments),
        timeout=timeout_s,
        check=check,
        environment={"PYTHONPATH": str(paths.library)},
        own_session=True,
    )


def _source_of(name: str, module: Any) -> str:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    try:
        text = loader.get_source(name) if loader is not None else None
    except (AttributeError, ImportError, OSError):
        text = None
    if text is None:
        raise StateFileError(
            "the source of %s cannot be read, so the restore program cannot be installed" % name
        )
    return str(text)


def _text_of(path: Path) -> Optional[str]:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
