"""A unit that systemd cannot start: the lines as systemd 252 writes them, from the child it forked."""

from __future__ import annotations

import pytest
from logs import entry, systemd
from treeline.signatures import classify_journal

UNIT = "sglang-ddtree-trial.service"


@pytest.mark.parametrize(
    ("step", "status", "why"),
    [
        ("USER", 217, "No such process"),
        ("GROUP", 216, "No such process"),
        ("CHDIR", 200, "No such file or directory"),
        ("EXEC", 203, "No such file or directory"),
        ("NAMESPACE", 226, "No such file or directory"),
        ("CREDENTIALS", 243, "Protocol error"),
        ("RUNTIME_DIRECTORY", 233, "Permission denied"),
    ],
)
def test_a_program_that_systemd_could_not_start_is_the_hosts_set_up(step: str, status: int, why: str) -> None:
    failed = f"{UNIT}: Failed at step {step} spawning /opt/engine/bin/python: {why}"
    child = {
        "_SYSTEMD_INVOCATION_ID": None,
        "INVOCATION_ID": "a" * 32,
        "_TRANSPORT": "journal",
        "SYSLOG_IDENTIFIER": "(python)",
    }
    verdict = classify_journal(
        [
            systemd(f"Starting {UNIT}...", at=1),
            entry(failed, at=2, pid=118, **child),
            systemd(f"{UNIT}: Main process exited, code=exited, status={status}/{step}", at=3),
            systemd(f"{UNIT}: Failed with result 'exit-code'.", at=3),
        ],
        alive=False,
    )
    assert (verdict.class_, verdict.kind, verdict.confidence) == ("unit_setup", "setup", "high")
    assert verdict.first_error == failed
