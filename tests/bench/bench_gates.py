"""How often gates catch what was planted and flag what is healthy: python tests/bench/bench_gates.py.

Every run is simulated at the level of the load module's result (tests/unit/gates/simulated_runs.py says how)
and goes through the real detector and the real gates, with a stored baseline and without. A fault counts as
caught only where the status is that of its own axis: garbled, or accept_collapse. Intervals are
Clopper-Pearson, 95 %.

--calibrate prints what the limits of the pooled detector were set on instead: scores of pools of ordinary
text, and of draws from a vocabulary. Its texts are the first halves of the shipped prompts and whatever is
installed here; the evaluation's prompts come from the second halves.
"""

from __future__ import annotations

import argparse
import random
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "analysis"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "plugins/module_utils"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lab/reference_engine/src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit/gates"))

import simulated_runs as simulated
from scipy.stats import binomtest
from treeline_target import garble_pool

ROOT = Path(__file__).resolve().parents[2]
CAUGHT_AT_LEAST, FLAGGED_AT_MOST = 0.99, 0.01
POOLS = ((8, 150), (16, 150), (16, 500))


def interval(count: int, of: int) -> str:
    """A share with its Clopper-Pearson interval."""
    found = binomtest(count, of).proportion_ci(0.95, method="exact")
    return f"{count:4d} of {of} = {count / of:7.2%}  [{found.low:.2%}, {found.high:.2%}]"


def evaluate(world: simulated.World, fault: simulated.Fault, runs: int) -> dict[bool, int]:
    """Print and return how often this fault gets its status, with and without a baseline."""
    hits = {True: 0, False: 0}
    by_gate: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for run in range(runs):
        load = simulated.load_result(world, fault, f"evaluation/{fault.name}/{run}")
        for with_baseline in hits:
            status, failed = simulated.judged(world, load, with_baseline)
            hits[with_baseline] += status == fault.status
            by_gate[with_baseline].update(gate.name for gate in failed)
    for with_baseline, reference in ((True, "baseline stored"), (False, "shipped answers")):
        flagged = ", ".join(f"{name} {count}" for name, count in by_gate[with_baseline].most_common())
        count = hits[with_baseline] if fault is not simulated.HEALTHY else runs - hits[with_baseline]
        word = "flagged" if fault is simulated.HEALTHY else "caught"
        print(f"{fault.name:32} {reference:16} {word} {interval(count, runs)}")
        print(f"{'':32} by {flagged or 'no gate'}")
    return hits


def report(runs: int) -> int:
    """The whole evaluation; 1 where a point estimate misses its aim."""
    world = simulated.World()
    print("simulated runs, real gates; seeds and prompts are other than those that set the limits\n")
    missed = []
    hits = evaluate(world, simulated.HEALTHY, runs)
    if min(hits.values()) < (1 - FLAGGED_AT_MOST) * runs:
        missed.append(simulated.HEALTHY.name)
    for fault in simulated.CAUGHT:
        if min(evaluate(world, fault, runs).values()) < CAUGHT_AT_LEAST * runs:
            missed.append(fault.name)
    print("\nreported, without an aim:")
    for fault in simulated.REPORTED:
        evaluate(world, fault, runs)
    aims = f"caught >= {CAUGHT_AT_LEAST:.0%}, healthy flagged <= {FLAGGED_AT_MOST:.0%}"
    print(f"\n{aims}: {'missed by ' + ', '.join(missed) if missed else 'met'}")
    return 1 if missed else 0


def groups() -> dict[str, list[str]]:
    """Texts by kind: what Python, the distribution and the environment have installed, and our own."""
    stdlib = sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"))[:800]
    site = sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*"))
    web = [path for path in site if path.suffix in (".md", ".rst", ".js", ".css", ".yml", ".json")][:800]
    manuals = [
        path for path in Path("/usr/share/doc").rglob("*") if path.suffix in ("", ".txt", ".md", ".html")
    ]
    texts = {
        "code": _read(stdlib),
        "web": _read(web),
        "manuals": _read(manuals),
        "chinese": _read([ROOT / "tests/data/texts/chinese.txt"]),
        "russian": _read([ROOT / "tests/data/texts/russian.txt"]),
        "prompts": [text[: len(text) // 2] for text in simulated.material.prompts()],
    }
    return {name: found for name, found in texts.items() if found}


def _read(paths: Iterable[Path]) -> list[str]:
    found = []
    for path in paths:
        if path.is_file() and path.stat().st_size < 400_000:
            text = path.read_text("utf-8", "replace")
            if len(text) > 300 and "\ufffd" not in text:
                found.append(text)
    return found


def windows(rng: random.Random, texts: Sequence[str], count: int, size: int) -> list[str]:
    """A pool from one text, or from several."""
    one = rng.choice(texts) if rng.random() < 0.5 else None
    pool = []
    for _ in range(count):
        text = one or rng.choice(texts)
        begin = rng.randrange(max(1, len(text) - size))
        pool.append(text[begin : begin + size])
    return pool


def calibrate(pools: int) -> int:
    """Print the scores of pools of ordinary text and of noise."""
    rng = random.Random("calibration")
    world = simulated.World()
    noise = [world.text([world.noise(rng) for _ in range(40_000)]) for _ in range(5)]
    for name, texts in {**groups(), "noise": noise}.items():
        for count, size in POOLS:
            found = [windows(rng, texts, count, size) for _ in range(pools)]
            reports = [garble_pool.inspect(pool) for pool in found]
            verdicts = Counter(report.verdict for report in reports)
            loops = sum(garble_pool.count_loops(pool)["count"] for pool in found) / (pools * count)
            print(f"{name:8} {count:2} x {size} characters: {dict(verdicts)}, looping {loops:.2%}")
            print(f"{'':9}flagged by {dict(Counter(one for report in reports for one in report.reasons))}")
            for signal in ("no_repeats", "late_no_repeats", "mixed_scripts", "incompressible"):
                values = sorted(report.scores[signal] for report in reports if signal in report.scores)
                if values:
                    middle = values[len(values) // 2]
                    print(f"{'':9}{signal}: {values[0]:.4f} .. {middle:.4f} .. {values[-1]:.4f}")
    return 0


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100, help="runs per class (default %(default)s)")
    parser.add_argument("--calibrate", action="store_true", help="print what the limits were set on")
    parser.add_argument("--pools", type=int, default=100, help="pools per kind of text (default %(default)s)")
    given = parser.parse_args()
    began = time.monotonic()
    code = calibrate(given.pools) if given.calibrate else report(given.runs)
    print(f"\n{time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
