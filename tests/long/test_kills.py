"""kill -9 of the controller at random moments of every step; the same command again; nothing may be lost.

TREELINE_LONG_KILLS (200) is how many there are to be over all calls, TREELINE_LONG_MINUTES (25) how long one
call may take; what is done stands in TREELINE_LONG_STATE (.cache/long), in a folder for these sources, and
the next call goes on from there. Kills of a round that broke something do not count.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest
from harness import number
from ledger import Ledger, Round, by_step
from rounds import Bench, keep_or_drop, one_round
from stages import REQUIRED, STEPS

KILLS_A_ROUND = 8
ENOUGH = 20


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_killed_at_any_moment_the_same_command_goes_on(
    bench: Bench, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = int(number("TREELINE_LONG_KILLS", 200))
    enough = min(ENOUGH, wanted // len(REQUIRED))
    until = time.monotonic() + 60 * number("TREELINE_LONG_MINUTES", 25)
    ledger = Ledger(state / "kills")
    seed = random.SystemRandom().randrange(2**32)
    dice = random.Random(seed)

    def say(text: str) -> None:
        with capsys.disabled():
            print(f"\n{time.strftime('%H:%M:%S')} {text}", end="", flush=True)

    say(f"seed {seed}; control: {bench.lengths}")
    longest = 0.0
    while missing(ledger, wanted, enough) and time.monotonic() + longest < until:
        at = ledger.next_number()
        results = ledger.place(at)
        counts: Counter[str] = by_step(ledger.sound())
        done = one_round(bench, at, results, counts, dice, kills=KILLS_A_ROUND, enough=enough, say=say)
        ledger.add(done)
        longest = max(longest, done.seconds)
        keep_or_drop(results, done.broken)
        for sentence in done.broken:
            say(f"BROKEN in round {at}: {sentence}")
    say(figures(ledger.rounds()))
    ledger.check()
    left = missing(ledger, wanted, enough)
    if left:
        pytest.skip(f"all that was tried held, {left} kills are still to come: run it again to go on")


def missing(ledger: Ledger, wanted: int, enough: int) -> int:
    """How many kills are still to come, those that single steps lack included."""
    counts = by_step(ledger.sound())
    return max(wanted - sum(counts.values()), sum(max(enough - counts[step], 0) for step in REQUIRED), 0)


def figures(rounds: list[Round]) -> str:
    """What was done over all calls, as a few lines."""
    counts = by_step(rounds)
    kills = [kill for done in rounds for kill in done.kills]
    modes = Counter(kill.mode for kill in kills)
    outlived = sorted(kill.module_outlived_s for kill in kills if kill.module_outlived_s is not None)
    table = "\n".join(f"  {step:<10} {counts[step]:>4}" for step in STEPS)
    return (
        f"{len(kills)} kills in {len(rounds)} sweeps ({sum(done.runs for done in rounds)} runs), "
        f"{sum(done.seconds for done in rounds) / 60:.0f} min; by step:\n{table}\n"
        f"  by what was killed: {dict(modes)}\n"
        f"  a module outlived its controller by at most {max(outlived, default=0):.1f} s "
        f"(median {outlived[len(outlived) // 2] if outlived else 0:.1f} s, {len(outlived)} looks)\n"
        f"  rounds that broke something: {[done.number for done in rounds if done.broken]}"
    )
