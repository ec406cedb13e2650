"""What nvidia-smi says: the GPUs of this host, the driver, and the processes that use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from . import systemd

_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Gpus:
    """GPU names in index order and the driver's version; both empty on a host without nvidia-smi."""

    names: tuple[str, ...]
    driver: Optional[str]
    note: Optional[str] = None

    @property
    def hardware_class(self) -> str:
        """A first name for the hardware class: `8x NVIDIA B300`, `2x A + 1x B`, or `cpu`."""
        if not self.names:
            return "cpu"
        kinds = dict.fromkeys(self.names)
        return " + ".join("%dx %s" % (self.names.count(name), name) for name in kinds)


def parse_gpus(text: str) -> Gpus:
    """From `--query-gpu=name,driver_version` in CSV."""
    rows = [[part.strip() for part in line.rsplit(",", 1)] for line in text.splitlines() if "," in line]
    return Gpus(tuple(row[0] for row in rows), rows[0][1] if rows else None)


def parse_pids(text: str) -> list[int]:
    """From `--query-compute-apps=pid` in CSV; each pid once, in order."""
    found = (line.strip() for line in text.splitlines())
    return list(dict.fromkeys(int(word) for word in found if word.isdigit()))


def read() -> Gpus:
    """Ask nvidia-smi; a host without it has no GPUs, one where it fails says so in `note`."""
    shown, note = _ask("--query-gpu=name,driver_version")
    return parse_gpus(shown) if note is None else Gpus((), None, note)


def processes() -> tuple[list[int], Optional[str]]:
    """Pids that compute on a GPU, and a note when that cannot be told."""
    shown, note = _ask("--query-compute-apps=pid")
    return parse_pids(shown), note


def _ask(query: str) -> tuple[str, Optional[str]]:
    try:
        done = systemd.run(("nvidia-smi", query, "--format=csv,noheader"), timeout=_TIMEOUT_S)
    except systemd.CommandError as error:
        return "", str(error)
    if done.rc != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        return "", "nvidia-smi exited %d: %s" % (done.rc, said[0] if said else "no output")
    return done.stdout, None
