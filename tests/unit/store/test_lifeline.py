"""A worker ends with the process that forked it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from treeline.controller import process_start

FORKING = """
import multiprocessing, sys, time
from treeline.lifeline import end_with_parent

def work():
    if sys.argv[1] == "tied":
        end_with_parent()
    print(multiprocessing.current_process().pid, flush=True)
    time.sleep(30)

end_with_parent()  # not a worker: nothing happens
worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
"""


def worker_outlives_parent(how: str) -> bool:
    parent = subprocess.Popen([sys.executable, "-c", FORKING, how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait(timeout=10)
    parent.stdout.close()
    deadline = time.monotonic() + (5 if how == "tied" else 0.5)
    while process_start(worker) is not None:
        if time.monotonic() > deadline:
            os.kill(worker, signal.SIGKILL)
            return True
        time.sleep(0.02)
    return False


def test_a_tied_worker_dies_with_its_parent() -> None:
    assert worker_outlives_parent("untied")
    assert not worker_outlives_parent("tied")
