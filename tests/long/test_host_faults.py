"""Reboot, link loss and power loss of the target at random moments of a trial: the sweep loses nothing.

TREELINE_LONG_FAULTS (2) is how many of each kind there are to be over all calls with the same sources. A
sweep in which something did not hold is not among them, and is the last one that is tried.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Target, number
from ledger import Kill, Ledger, Round
from looks import record_breaks
from rounds import Bench, Running, keep_or_drop, look_after
from stages import OF_A_TRIAL, wait_for

HOST = "omega"
# ssh gives a dead link up after fifteen seconds (ServerAliveInterval and ServerAliveCountMax of ansible.cfg).
SHORT_S, LONG_S = 3.0, 25.0
MOST_RUNS = 4


def reboot(target: Target) -> None:
    """In good order, as an administrator does."""
    target.lab.reboot(HOST)


def power_loss(target: Target) -> None:
    """Everything dies at once; somebody switches it on again."""
    target.lab.kill(HOST)
    time.sleep(2)
    target.lab.start(HOST)


def link_loss(target: Target, seconds: float) -> None:
    """The cable is out for a while."""
    target.lab.link(HOST, up=False)
    try:
        time.sleep(seconds)
    finally:
        target.lab.link(HOST, up=True)


FAULTS: dict[str, Callable[[Target], None]] = {
    "reboot": reboot,
    "power loss": power_loss,
    "short link loss": lambda target: link_loss(target, SHORT_S),
    "long link loss": lambda target: link_loss(target, LONG_S),
}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", list(FAULTS))
def test_the_sweep_goes_on(bench: Bench, state: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = Ledger(state / kind.replace(" ", "-"))
    dice = random.Random()
    wanted = number("TREELINE_LONG_FAULTS", 2)
    while len(ledger.sound()) < wanted and not any(done.broken for done in ledger.rounds()):
        at = ledger.next_number()
        results = ledger.place(at)
        done = one(bench, results, at, kind, dice)
        ledger.add(done)
        keep_or_drop(results, done.broken)
    rounds = ledger.rounds()
    steps = Counter(kill.step for done in rounds for kill in done.kills)
    with capsys.disabled():
        print(
            f"\n{kind}: {len(rounds)} sweeps, at {dict(steps)}, "
            f"{sum(done.runs for done in rounds)} runs of the command, all held in {len(ledger.sound())}"
        )
    ledger.check()


def one(bench: Bench, results: Path, at: int, kind: str, dice: random.Random) -> Round:
    """One sweep with one fault, and the same command again until it is complete."""
    began = time.monotonic()
    faults: list[Kill] = []
    runs = 0
    broken: list[str] = []
    while runs < MOST_RUNS:
        run = bench.start(results, treeline_reconnect_s=90)
        runs += 1
        if not faults:
            fault = _play(bench, run, kind, dice)
            faults += [fault] if fault else []
        status = run.wait()
        if status == 0:
            break
        if record_breaks(results, [fault.at for fault in faults]) == []:
            broken.append(f"the sweep is complete, and the run exited {status}:\n{run.tail(1500)}")
            break
    else:
        broken.append(f"not complete after {runs} runs of the command:\n{run.tail(1500)}")
    broken += look_after(bench, results, [fault.at for fault in faults])
    return Round(
        number=at, kills=faults, runs=runs, seconds=round(time.monotonic() - began, 1), broken=broken
    )


def _play(bench: Bench, run: Running, kind: str, dice: random.Random) -> Kill | None:
    # Before the snapshot and after the restore nothing is owed to the host.
    aim = dice.choice([step for step in OF_A_TRIAL if step != "load"])
    if not wait_for(run.trace, lambda step: step == aim, run.alive):
        return None
    time.sleep(dice.uniform(0, bench.lengths.get(aim, 0.5)))
    at = time.time()
    step = run.trace.look()
    FAULTS[kind](bench.target)
    return Kill(step=step, task=run.trace.task, mode=kind, at=at, aimed_at=aim)
