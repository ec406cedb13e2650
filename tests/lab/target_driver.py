"""Call one function of the target package inside a lab host and print what it returned, as JSON.

target_driver.py FUNCTION '{"keyword": ...}'
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from treeline_target import (
    begin,
    bringup,
    clock,
    evidence,
    lease,
    preflight,
    restore,
    systemd,
    takeover,
    telemetry,
    telemetry_sampler,
    units,
)


def _take(**given: Any) -> Any:
    return takeover.take(given.pop("found_units"), given.pop("trial_unit"), given.pop("lease", None), **given)


def _give_back(**given: Any) -> Any:
    return takeover.give_back(given.pop("trial_unit"), given.pop("lease", None), **given)


def _restore(**given: Any) -> Any:
    bounds = bringup.Bounds(**given.pop("bounds", {}))
    return asdict(restore.restore("operator", bounds=bounds, **given))


def _begin(**given: Any) -> Any:
    return begin.begin(
        given["trial_unit"],
        given.get("trial_id", "trial-1"),
        given.get("lease"),
        gpu_query=given.get("gpu_query", "none"),
        kernel=given.get("kernel", "none"),
    )


def _evidence(**given: Any) -> Any:
    return evidence.collect(evidence.Spec(**given))


def _sample(**given: Any) -> Any:
    started = clock.monotonic()
    with telemetry_sampler.Sampler(given["gpu_query"], Path(given["path"])) as sampler:
        time.sleep(given["for_s"])
    recording = sampler.stop()
    return telemetry.summarise(recording, started + 1, clock.monotonic(), given["tokens"])


def _rearm(**given: Any) -> Any:
    lease.rearm(given["lease"])
    return lease.read_holder()


def _keep(**given: Any) -> Any:
    with lease.Keeper(given["lease"]) as keeper:
        time.sleep(given["for_s"])
        return {"lost": keeper.lost}


def _preflight(**given: Any) -> Any:
    return asdict(preflight.look(preflight.Request(**given)))


def _picture(**given: Any) -> Any:
    """What must be the same before and after, per unit: texts, enablement, state, command line."""
    shown = {}
    for unit in given["names"]:
        now = systemd.show(unit, ("ActiveState", "MainPID"))
        shown[unit] = {
            "cat": systemd.systemctl("cat", "--", unit, check=False).stdout,
            "enabled": systemd.systemctl("is-enabled", "--", unit, check=False).stdout,
            "state": now["ActiveState"],
            "argv": units.argv_of(int(now.get("MainPID", "0"))),
        }
    return shown


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "take": _take,
    "give_back": _give_back,
    "restore": _restore,
    "begin": _begin,
    "evidence": _evidence,
    "sample": _sample,
    "rearm": _rearm,
    "keep": _keep,
    "preflight": _preflight,
    "picture": _picture,
}

if __name__ == "__main__":
    try:
        answer = {"result": FUNCTIONS[sys.argv[1]](**json.loads(sys.argv[2]))}
    except Exception as error:
        answer = {"error": str(error), "kind": type(error).__name__}
    json.dump(answer, sys.stdout)
