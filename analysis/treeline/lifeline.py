"""Tie a worker of Ansible to the ansible-playbook process that forked it.

A worker is a session of its own: when ansible-playbook alone is killed (by a closed terminal, by the kernel
for want of memory), the worker and its ssh client live on, and with them a module on a host that renews its
lease for nobody. The kernel can signal a process when its parent dies (prctl(2), PR_SET_PDEATHSIG), and on
SIGTERM a worker of Ansible ends its whole session, the ssh client included.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """From now on, SIGTERM reaches this process when the process that forked it dies; at once if it has died.

    Does nothing outside a forked worker, and nothing where the system has no such call.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent.pid:
        os.kill(os.getpid(), signal.SIGTERM)
