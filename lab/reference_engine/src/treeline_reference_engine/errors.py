"""The texts of errors, as data: ``profiles/errors.yml`` gives what a scheduler prints for each.

An entry::

    illegal_address:
      phase: graph_capture           # where it is at home
      exception: torch.AcceleratorError
      message: "CUDA error: an illegal memory access was encountered"
      symbol: cudaErrorIllegalAddress  # adds torch's standard tail; `torch: old` leaves out its Search line
      before: [...]                  # lines that the process writes before the traceback, without a prefix
      frames: serving                # which stack the traceback shows (default: by phase)
      wrapped: true                  # graph capture puts its own exception around it (default)
      death: exception               # exception, abort (C++), parent (before the scheduler starts), exec
      peers: [...]                   # lines of the other ranks
      exit_code: 1

``{rank}``, ``{pid}``, ``{tp}``, ``{host}``, ``{bs}`` and ``{rows}`` in texts are filled in.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, fields
from typing import Any

from .data_files import ProfileError, known, packaged

DEATHS = ("exception", "abort", "parent", "exec", "watchdog", "killed")


@dataclass(frozen=True)
class EngineError:
    """One error; see the module's text."""

    name: str
    phase: str
    exception: str = ""
    message: str = ""
    symbol: str = ""
    torch: str = "new"
    before: tuple[str, ...] = ()
    frames: str = ""
    wrapped: bool = True
    death: str = "exception"
    peers: tuple[str, ...] = ()
    exit_code: int = 1


@functools.cache
def _all() -> dict[str, EngineError]:
    return {name: _parse(name, entry) for name, entry in packaged("errors").items()}


def error_names() -> tuple[str, ...]:
    """Ids of the errors, in the order of the file."""
    return tuple(_all())


def error_named(name: str) -> EngineError:
    """The error with this id."""
    return _all()[name]


def _parse(name: str, entry: Any) -> EngineError:
    where = f"errors.yml, {name}"
    known(entry, tuple(item.name for item in fields(EngineError) if item.name != "name"), where)
    values = dict(entry)
    for key in ("before", "peers"):
        values[key] = tuple(values.get(key) or ())
    error = EngineError(name, **values)
    if error.death not in DEATHS:
        raise ProfileError(f"{where}, death: {error.death!r} is not one of {', '.join(DEATHS)}.")
    return error
