"""One round: a sweep that is killed several times and started again, until it ends; then the checks."""

from __future__ import annotations

import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import killing
from harness import ROOT, Target, environment
from ledger import Kill, Round
from looks import (
    HostState,
    Outcome,
    host_differs,
    is_ours,
    lines,
    processes_left,
    record_breaks,
    results_differ,
    sweep_is_complete,
)
from stages import OF_A_TRIAL, REQUIRED, STEPS, Trace, lengths, wait_for

# One of each kind: a good cell, one that dies in capture, one that serves nonsense.
POINTS = "budget,topk,maxreq\n8,4,16\n16,8,64\n32,8,32\n"
ENGINE = {"fault-profile": "b300-kimi-k26", "time-scale": 0.002}
# An item may be interrupted three times; the fourth makes its cell unknown, which is another test.
MOST_BACKS = 3
# What a kill is aimed at while items are open, and once none is: a run without trials takes half a minute.
BEFORE_THE_END = tuple(step for step in STEPS if step not in ("restore", "report"))
OUTSIDE_TRIALS = tuple(step for step in STEPS if step not in OF_A_TRIAL)
RUN_TIMEOUT_S = 420.0
SETTLE_S = 60.0


@dataclass
class Bench:
    """A host with its found service, what it looks like at rest, and what a sweep finds out undisturbed."""

    target: Target
    host: str
    points: Path
    rest: HostState | None = None
    control: Outcome | None = None
    lengths: dict[str, float] = field(default_factory=dict)

    def at(self, results: Path) -> Target:
        """The same host with another results folder."""
        return Target(self.target.lab, self.target.inventory, (self.host,), results)

    def start(
        self,
        results: Path,
        logs: Path | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
        **extra: Any,
    ) -> Running:
        """Start the sweep, the same command each time; its output goes to `logs`, or beside the results."""
        logs = logs or results
        results.mkdir(parents=True, exist_ok=True)
        number = len(list(logs.glob("run-*.log"))) + 1
        trace = logs / f"run-{number}.trace"
        given = {
            "points": str(self.points),
            "treeline_max_tokens": 16,
            "concurrency": 1,
            "sglang_ddtree_extra_args": ENGINE,
            **extra,
        }
        watching = {
            "TREELINE_TRACE": str(trace),
            "ANSIBLE_CALLBACK_PLUGINS": f"{ROOT / 'plugins/callback'}:{Path(__file__).parent / 'callback'}",
            "ANSIBLE_CALLBACKS_ENABLED": "treeline_failures,treeline_trace",
        }
        log = logs / f"run-{number}.log"
        with log.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                self.at(results).command("sweep.yml", **given),
                cwd=ROOT,
                env={**environment(), **watching, **environ},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Running(process, Trace(trace), log)

    def see_control(self, results: Path) -> None:
        """Run the sweep undisturbed; rounds compare with what it found and take steps' lengths from it."""
        run = self.start(results)
        status = run.wait()
        assert status == 0, f"the control run exited {status}:\n{run.tail()}"
        run.trace.look()
        missing = [step for step in STEPS if step not in run.trace.began and step not in ("request", "load")]
        assert not missing, f"the trace no longer shows {missing}: were tasks of the sweep renamed?"
        self.lengths = lengths(run.trace, time.time())
        # Canaries and load are one task; the host's files tell them apart, so that any moment of it will do.
        self.lengths["load"] = self.lengths["canary"]
        self.control = Outcome.of(results)
        self.rest = HostState.of(self.target, self.host)

    def load_has_begun(self, trial_id: str) -> bool:
        """Whether the trial's load has written records: canaries and warm-up are over then."""
        leader = self.target.lab.host(self.host).leader()
        folder = Path(f"/proc/{leader}/root/run/treeline/evidence/{trial_id}")
        try:
            return any(path.stat().st_size > 0 for path in folder.glob("requests*"))
        except OSError:
            return False


@dataclass
class Running:
    """A run of the playbook in the background."""

    process: subprocess.Popen[bytes]
    trace: Trace
    log: Path

    def alive(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, timeout: float = RUN_TIMEOUT_S) -> int:
        """Its exit status; it is killed when it takes too long."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            killing.kill(self.process.pid, "tree")
            self.process.wait(30)
            raise AssertionError(f"a run did not end within {timeout:g} s:\n{self.tail()}") from None

    def tail(self, size: int = 4000) -> str:
        """The end of what it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-size:]


def choose(counts: Counter[str], possible: tuple[str, ...], dice: random.Random, enough: int) -> str:
    """The step to aim at: of those that still lack kills one with the fewest, else any."""
    lacking = [step for step in possible if step in REQUIRED and counts[step] < enough]
    fewest = min((counts[step] for step in lacking), default=0)
    return dice.choice([step for step in lacking if counts[step] == fewest] or list(possible))


def one_round(
    bench: Bench,
    number: int,
    results: Path,
    counts: Counter[str],
    dice: random.Random,
    *,
    kills: int,
    enough: int,
    say: Callable[[str], None],
) -> Round:
    """Run one sweep with up to `kills` kills; `counts` are the kills so far by step, and are added to."""
    began = time.monotonic()
    done: list[Kill] = []
    broken: list[str] = []
    runs = 0
    while True:
        run = bench.start(results)
        runs += 1
        kill = None
        if len(done) < kills:
            kill = _disturb(bench, run, results, done, counts, dice, enough)
        if kill is None:
            status = run.wait()
            if status != 0:
                broken.append(f"run {runs} was not killed and exited {status}: {_last_error(run)}")
            break
        done.append(kill)
        counts[kill.step] += 1
        say(f"round {number}, run {runs}: killed ({kill.mode}) at {kill.step}: {kill.task}")
        if sweep_is_complete(
            results
        ):  # the kill came after the sweep's end; the command would begin another one
            break
    broken += look_after(bench, results, [kill.at for kill in done])
    return Round(
        number=number, kills=done, runs=runs, seconds=round(time.monotonic() - began, 1), broken=broken
    )


def look_after(bench: Bench, results: Path, kills: list[float], settle_s: float = SETTLE_S) -> list[str]:
    """Everything that must hold once the sweep has ended."""
    assert bench.control is not None
    assert bench.rest is not None
    target = bench.at(results)
    broken = record_breaks(results, kills)
    broken += results_differ(bench.control, Outcome.of(results))
    deadline = time.monotonic() + settle_s
    while True:  # what was killed is given a little time to notice
        left = host_differs(bench.rest, HostState.of(target, bench.host)) + processes_left(target, bench.host)
        if not left or time.monotonic() > deadline:
            return broken + left
        time.sleep(1)


def _disturb(
    bench: Bench,
    run: Running,
    results: Path,
    done: list[Kill],
    counts: Counter[str],
    dice: random.Random,
    enough: int,
) -> Kill | None:
    """Wait for a step that is worth it, kill at a random moment of it; None when the run ended before."""
    left = _open_items(bench, results)
    aim = choose(counts, BEFORE_THE_END if left else OUTSIDE_TRIALS, dice, enough)
    # Mostly the next trial: a run that gets far costs a minute. One of the cells dies before any load.
    far = left - (aim in ("canary", "load"))
    skip = dice.randrange(max(far, 1)) if aim in OF_A_TRIAL and dice.random() < 0.3 else 0
    seen: set[str] = set()

    def here(step: str) -> bool:
        if step == "restore" and aim != "report":  # the aim was missed; no run is to be in vain
            return True
        item, trial = _in_flight(results) if step in OF_A_TRIAL else ("", "")
        if step in OF_A_TRIAL and _backs(results, item) > MOST_BACKS:
            return False
        task = "canary" if aim == "load" else aim
        arrived = step == task and (aim != "load" or bench.load_has_begun(trial))
        if arrived:
            seen.add(trial)
        return arrived and len(seen) > skip

    if not wait_for(run.trace, here, run.alive):
        return None
    # A little less than the step takes: what comes after it must not get the kills that are meant for it.
    reached = run.trace.step if aim != "load" or run.trace.step == "restore" else "load"
    length = 2.0 if reached == "load" else bench.lengths.get(reached, 0.5)
    time.sleep(dice.uniform(0, 0.8 * length))
    step = run.trace.look()
    item, trial = _in_flight(results) if step in OF_A_TRIAL else ("", "")
    if not run.alive() or (item and _backs(results, item) > MOST_BACKS):
        return None
    if step == "canary" and bench.load_has_begun(trial):
        step = "load"
    mode = dice.choice(killing.MODES)
    at = time.time()
    killing.kill(run.process.pid, mode)
    run.process.wait(30)
    pause, outlived = _pause(bench, dice)
    return Kill(
        step=step,
        task=run.trace.task,
        mode=mode,
        at=at,
        aimed_at=aim,
        trial_id=trial,
        item_id=item,
        pause_s=pause,
        module_outlived_s=outlived,
    )


def _pause(bench: Bench, dice: random.Random) -> tuple[float, float | None]:
    """What passes until somebody starts the command again: nothing, a moment, or until the host is quiet."""
    kind = dice.randrange(3)
    if kind == 0:
        return 0.0, None
    if kind == 1:
        pause = dice.uniform(0, 5)
        time.sleep(pause)
        return round(pause, 2), None
    began = time.monotonic()
    while time.monotonic() < began + 20:
        if not module_runs(bench):
            break
        time.sleep(0.2)
    passed = round(time.monotonic() - began, 2)
    return passed, passed


def module_runs(bench: Bench) -> bool:
    """Whether a module of Ansible or a restore runs on the host; a trial goes on until it is stopped."""
    text = bench.target.on(bench.host, "ps", "-eo", "args=", "-ww")
    return any(is_ours(line) and "31990" not in line for line in text.splitlines())


def _in_flight(results: Path) -> tuple[str, str]:
    """Item and trial of the newest start."""
    started = [line for line in lines(results, "trials.jsonl") if line["event"] == "started"]
    return (started[-1]["item_id"], started[-1]["trial_id"]) if started else ("", "")


def _backs(results: Path, item: str) -> int:
    """How often the item has been started without a verdict, the trial in flight included."""
    log = lines(results, "trials.jsonl")
    starts = sum(line["event"] == "started" and line["item_id"] == item for line in log)
    verdicts = sum(
        line["event"] == "finished" and line["item_id"] == item and line["status"] != "void" for line in log
    )
    return starts - verdicts


def _open_items(bench: Bench, results: Path) -> int:
    assert bench.control is not None
    log = lines(results, "trials.jsonl")
    over = {line["item_id"] for line in log if line["event"] == "finished" and line["status"] != "void"}
    return len(bench.control.verdicts) - len(over)


def _last_error(run: Running) -> str:
    said = [line for line in run.tail(20000).splitlines() if "[ERROR]" in line or "fatal:" in line]
    return (said[-1] if said else run.tail(600))[:600]


def keep_or_drop(results: Path, broken: list[str]) -> None:
    """Keep the records of a round that broke something, drop the others."""
    if broken:
        return
    shutil.rmtree(results)
