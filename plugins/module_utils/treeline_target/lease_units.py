"""The two units of the lease: a timer, and the service that restores this host when the timer fires."""

from __future__ import annotations

TIMER = "treeline-lease.timer"
SERVICE = "treeline-lease.service"


def timer_text(seconds: int) -> str:
    """The timer unit; without AccuracySec it may be a minute late.

    A trial that dies at once renews the lease several times within seconds: no start limit may stand against
    that, or the timer would be left dead.
    """
    return (
        "[Unit]\n"
        "Description=Treeline lease: restores the found services when the sweep stops renewing it\n"
        "StartLimitIntervalSec=0\n\n"
        "[Timer]\n"
        "OnActiveSec=%d\n"
        "AccuracySec=1s\n"
        "Unit=%s\n" % (seconds, SERVICE)
    )


def service_text(interpreter: str, library: str, bound_s: int) -> str:
    """The service that the timer starts: the restore program, tried again where it could not prove success.

    `interpreter` is the Python that installed the program; `bound_s` limits one attempt in seconds.
    """
    return (
        "[Unit]\n"
        "Description=Treeline restore: the lease ended, the found services are brought back\n"
        "StartLimitIntervalSec=1d\n"
        "StartLimitBurst=10\n\n"
        "[Service]\n"
        "Type=oneshot\n"
        "Environment=%s\n"
        "WorkingDirectory=%s\n"
        "ExecStart=%s -B -m treeline_target.restore --by lease\n"
        "TimeoutStartSec=%d\n"
        "Restart=on-failure\n"
        "RestartSec=30\n"
        % (
            _quoted("PYTHONPATH=%s" % library),
            library.replace("%", "%%"),
            _quoted(interpreter),
            bound_s,
        )
    )


def _quoted(text: str) -> str:
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
