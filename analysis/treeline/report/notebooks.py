"""Execute the notebooks of the repository on a folder of results."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import treeline
from treeline.jsonl import StoreError

FOLDER = Path(treeline.__file__).resolve().parents[1] / "notebooks"
NAMES = ("frontier", "acceptance", "failures", "throughput", "findings")
TIMEOUT_S = 600
RESULTS_DIR = "RESULTS_DIR"


def execute_all(results: Path, target: Path, names: Sequence[str] = NAMES) -> Iterator[Path]:
    """Execute notebooks on a sweep folder, or a folder of such, and write ``<name>.ipynb`` into target.

    One kernel serves them all, emptied in between: most of a notebook's time is importing.

    Raises:
        StoreError: the notebooks are not there, or one cannot be executed or written.
    """
    import nbformat
    from jupyter_client.manager import AsyncKernelManager

    target.mkdir(parents=True, exist_ok=True)
    # Sockets of the file system: nobody else on the machine can talk to the kernel.
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc")
    try:
        for name in names:
            path = target / f"{name}.ipynb"
            nbformat.write(_execute(FOLDER / f"{name}.py", results, kernel), path)
            yield path
    finally:
        if kernel.has_kernel:
            asyncio.run(_stopped(kernel))


async def _stopped(kernel: Any) -> None:
    await kernel.shutdown_kernel(now=True)


def _execute(source: Path, results: Path, kernel: Any) -> Any:
    """Return a notebook in percent format, executed with RESULTS_DIR set to a folder. Raises StoreError."""
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    if not source.is_file():
        raise StoreError(
            f"{source} is not there: notebooks belong to the repository, not to an installed package"
        )
    notebook = jupytext.read(source)
    client = NotebookClient(notebook, timeout=TIMEOUT_S, km=kernel)
    try:
        client.execute(env={**os.environ, RESULTS_DIR: str(results.resolve())})
        client.kc.execute("%reset -f", silent=True, store_history=False)
    except CellExecutionError as error:
        raise StoreError(
            f"{source.name} could not be executed: {str(error).strip().splitlines()[-1]}"
        ) from error
    return notebook
