"""Whether the account that a trial will run under is on this host."""

from __future__ import annotations

import grp
import pwd

from . import unitdiff

_TRUE = ("1", "yes", "y", "true", "t", "on")


def check(trial_unit_text: str, problems: list[str]) -> None:
    """A user or group of the rendered trial unit that does not exist is a problem: no trial would start.

    A number needs no entry, and with DynamicUser= systemd makes the account.
    """
    settings = {
        key: values[-1]
        for (section, key), values in unitdiff.effective(trial_unit_text).items()
        if section == "Service"
    }
    if settings.get("DynamicUser", "").lower() in _TRUE:
        return
    for key, variable in (("User", "sglang_ddtree_user"), ("Group", "sglang_ddtree_group")):
        name = settings.get(key, "")
        if name and not name.isdigit() and not _exists(key, name):
            problems.append(
                "the trial would run as %s %s, which does not exist on this host; run deploy.yml or name an "
                "existing %s with %s" % (key.lower(), name, key.lower(), variable)
            )


def _exists(key: str, name: str) -> bool:
    try:
        return bool(pwd.getpwnam(name) if key == "User" else grp.getgrnam(name))
    except KeyError:
        return False
