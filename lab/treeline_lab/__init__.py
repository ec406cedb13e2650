"""Lab hosts: real systemd and sshd on this machine, under systemd-nspawn, for plain Ansible to reach.

`Lab` is the whole interface: `Lab("mine").up({"lab1": "10.66.0.11"})`, `down()`, `status()`, and the faults
`kill`, `start`, `reboot`, `link`. The same is on the command line as `treeline-lab`.
"""

from __future__ import annotations

from treeline_lab.errors import LabError
from treeline_lab.lab import Lab, UpResult

__all__ = ["Lab", "LabError", "UpResult"]
