"""Print what the search for the frontier costs and gets wrong, against truths of several kinds.

`python tests/bench/bench_frontier.py [--truths N] [--pairs N] [--seed N] [--exhaustive]`. Nothing runs on a
host: a restart here is one question to a truth table. The grid is 8 budgets x 9 request limits. The figures
of record are those of `--truths 1000 --pairs 4000 --exhaustive`.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence

from treeline.keys import ClientKey, Column, Frontier, Item, Plan, RestartKey, Slice
from treeline.plan import Past, next_step
from treeline.plan.simulate import Simulated, simulate
from treeline.plan.truth import Chance, Truth, cell_key, plan_for
from treeline.stats import sign_test

BUDGETS = (8, 12, 16, 20, 24, 32, 48, 64)
LIMITS = (8, 16, 32, 48, 64, 96, 128, 192, 256)
CELLS = len(BUDGETS) * len(LIMITS)
# (budget, maxreq) -> works; graphs on. The rest of the field table follows by closure along maxreq.
FIELD = {8: 128, 16: 48, 32: 16, 64: 8}


def staircase(chance: random.Random) -> tuple[int, ...]:
    """A border uniform over all monotone lattice paths: at each budget, how many limits work."""
    path = sorted(chance.sample(range(len(BUDGETS) + len(LIMITS)), len(BUDGETS)))
    return tuple(step - place for place, step in enumerate(path))[::-1]


def every_staircase() -> Iterable[tuple[int, ...]]:
    """All of them."""
    for path in itertools.combinations(range(len(BUDGETS) + len(LIMITS)), len(BUDGETS)):
        yield tuple(step - place for place, step in enumerate(path))[::-1]


def product_law(threshold: float) -> Truth:
    """Cells work up to a number of rows."""
    return of_rule(lambda budget, limit: limit * (budget + 1) <= threshold)


def of_rule(works: Callable[[int, int], bool]) -> Truth:
    """A truth over the whole grid."""
    return Truth.of(
        {
            cell_key(budget, limit): Chance(float(not works(budget, limit)))
            for budget in BUDGETS
            for limit in LIMITS
        }
    )


def changed(truth: Truth, change: Callable[[RestartKey, float], float]) -> Truth:
    """A truth with other chances of failing."""
    return Truth.of({key: Chance(change(key, nature.p_fail)) for key, nature in truth.cells.items()})


def run(truth: Truth, salt: object, *, audit: float = 0.1, seed: int = 0, hosts: int = 1) -> Simulated:
    """The whole search against one truth."""
    return simulate(plan_for(truth, audit_share=audit, salt=str(salt)), truth, seed=seed, hosts=hosts)


def say(name: str, runs: Sequence[Simulated]) -> None:
    """One line about many searches."""
    walks = [one.count("explore") + one.count("retry") for one in runs]
    restarts = [one.restarts for one in runs]
    wrong = [one.wrong for one in runs]
    print(
        f"{name:<34} {len(runs):>5} truths: walk mean {statistics.mean(walks):5.2f} max {max(walks):>2}; "
        f"with confirmation and audit mean {statistics.mean(restarts):5.2f} max {max(restarts):>2} "
        f"(grid {len(runs[0].believed)}); wrong cells {sum(wrong):>4}, mean {statistics.mean(wrong):.3f}, "
        f"max {max(wrong)}; "
        f"contradictions {sum(len(one.contradictions) for one in runs)}"
    )


def monotone(count: int, seed: int, *, exhaustive: bool) -> None:
    """Staircases: the bound of the walk, and the mean and maximum of everything."""
    chance = random.Random(seed)
    truths = [staircase(chance) for _ in range(count)]
    say("random monotone staircases", [run(of_heights(h), number) for number, h in enumerate(truths)])
    if exhaustive:
        walks = [
            simulate(plan_for(truth := of_heights(heights), audit_share=0.0, confirm=False), truth)
            for heights in every_staircase()
        ]
        say("all 24310 staircases, walk alone", walks)


def of_heights(heights: Sequence[int]) -> Truth:
    """A staircase over the grid."""
    return Truth.of_heights(BUDGETS, LIMITS, heights)


def other_shapes(count: int, seed: int) -> None:
    """Product laws, the field table, a dead column at every position, a dead row at every position."""
    chance = random.Random(seed + 1)
    say(
        "product law, 300 to 6000 rows",
        [run(product_law(chance.uniform(300, 6000)), n) for n in range(count)],
    )
    say("product law, 1100 to 1300 rows", [run(product_law(t), t) for t in range(1100, 1301, 10)])
    field = {cell_key(b, m): Chance(float(m > FIELD[b])) for b in FIELD for m in LIMITS}
    say("field table, graphs on (4 x 9)", [run(Truth.of(field), "field")])
    for name, hits in (
        ("dead budget column", lambda key, place: key.budget == BUDGETS[place % len(BUDGETS)]),
        ("dead maxreq row", lambda key, place: key.maxreq == LIMITS[place % len(LIMITS)]),
    ):
        runs = []
        for number in range(count):
            truth = of_heights(staircase(chance))
            runs.append(run(changed(truth, lambda key, p, n=number, h=hits: 1.0 if h(key, n) else p), number))
        say(f"{name}, every position", runs)


def audits_pay(pairs: int, seed: int) -> None:
    """The same truths with flipped cells, audit on and off; every audit that contradicts is checked."""
    chance = random.Random(seed + 2)
    on, off = [], []
    unreported = 0
    for number in range(pairs):
        flips = {(b, m) for b in BUDGETS for m in LIMITS if chance.random() < 0.03}
        truth = changed(
            of_heights(staircase(chance)),
            lambda key, p, flips=flips: 1 - p if (key.budget, key.maxreq) in flips else p,
        )
        on.append(run(truth, number))
        off.append(run(truth, number, audit=0.0))
        unreported += _unreported(on[-1])
    say("3 % of cells flipped, audit on", on)
    say("3 % of cells flipped, audit off", off)
    fewer = sum(a.wrong < b.wrong for a, b in zip(on, off, strict=True))
    more = sum(a.wrong > b.wrong for a, b in zip(on, off, strict=True))
    print(
        f"{'':34} paired: audit has fewer wrong cells in {fewer}, more in {more}, as many in "
        f"{pairs - fewer - more}; sign test p = {sign_test(fewer, more):.3g}; "
        f"audits that contradicted and were not reported: {unreported}"
    )


def _unreported(one: Simulated) -> int:
    """Audits whose outcome differs from what their own reason says was implied, less those reported."""
    against = {
        (item.key.budget, item.key.maxreq)
        for item, past in one.trials
        if item.purpose == "audit" and past.effect != ("good" if "implied good" in item.reason else "bad")
    }
    reported = {(found.budget, found.maxreq) for found in one.contradictions if found.by_audit}
    return len(against - reported)


def rims(count: int, seed: int) -> None:
    """Cells beside the border fail in a fifth of their trials."""
    chance = random.Random(seed + 3)
    runs, seen_both, called_mixed = [], 0, 0
    for number in range(count):
        heights = staircase(chance)
        top = {
            (budget, LIMITS[height - 1]) for budget, height in zip(BUDGETS, heights, strict=True) if height
        }
        truth = changed(
            of_heights(heights),
            lambda key, p, top=top: 0.2 if (key.budget, key.maxreq) in top else p,
        )
        one = run(truth, number, seed=number)
        runs.append(one)
        both = [cell for cell in one.believed if cell.cell.goods and cell.cell.fails]
        seen_both += len(both)
        called_mixed += sum(cell.verdict == "mixed" for cell in both)
    say("rims that fail in 20 %", runs)
    print(f"{'':34} cells seen both ways {seen_both}, called mixed {called_mixed}")


def hosts_share(seed: int) -> None:
    """One slice on four hosts: time in trials, and what looking ahead costs."""
    chance = random.Random(seed + 4)
    truths = [of_heights(staircase(chance)) for _ in range(40)]
    one = [run(truth, number) for number, truth in enumerate(truths)]
    four = [run(truth, number, hosts=4) for number, truth in enumerate(truths)]
    print(
        f"{'one slice on 4 hosts':<34} {len(truths):>5} truths: time "
        f"{statistics.mean(r.time for r in four):.1f} trials against "
        f"{statistics.mean(r.time for r in one):.1f} on 1 host; restarts "
        f"{statistics.mean(r.restarts for r in four):.1f} against "
        f"{statistics.mean(r.restarts for r in one):.1f}; "
        f"wrong cells {sum(r.wrong for r in four)}"
    )


def inherited(count: int, seed: int) -> None:
    """Four values of topk whose borders differ by little: what the first guess saves."""
    chance = random.Random(seed + 5)
    alone, together, wrong = [], [], 0
    for number in range(max(count // 20, 10)):
        first = staircase(chance)
        cells: dict[RestartKey, Chance] = {}
        for place, topk in enumerate((2, 4, 8, 16)):
            shifted = sorted((max(h - (chance.random() < 0.3), 0) for h in first), reverse=True)
            for budget, height in zip(BUDGETS, shifted if place else first, strict=True):
                for row, limit in enumerate(LIMITS):
                    cells[cell_key(budget, limit, topk)] = Chance(float(row >= height))
        truth = Truth.of(cells, with_topk=True)
        done = run(truth, number)
        wrong += done.wrong
        walked = [
            sum(i.key.topk == k and i.purpose == "explore" for i, _ in done.trials) for k in (2, 4, 8, 16)
        ]
        alone.append(walked[0])
        together += walked[1:]
    print(
        f"{'4 values of topk, borders alike':<34} {len(alone):>5} truths: walk of the first slice mean "
        f"{statistics.mean(alone):.2f}, of those that inherit {statistics.mean(together):.2f}, "
        f"max {max(together)}; "
        f"wrong cells {wrong}"
    )


def big_plans() -> None:
    """Time of one question to a plan of 5,000 items, half done."""
    items = tuple(
        Item.of(cell_key(1 + n // 100, 1 + n % 100), [ClientKey(concurrency=1)], reason="grid")
        for n in range(5000)
    )
    grid = Plan(kind="grid", items=items)
    done = [_past(item.item_id, "good") for item in items[:2500]]
    _time("next of a grid of 5,000 items", lambda: next_step(grid, done, [], "host1"))
    columns = tuple(Column(budget=budget, maxreqs=LIMITS) for budget in BUDGETS)
    slices = tuple(Slice(topk=k, block_size=8, graphs=True, columns=columns) for k in range(1, 71))
    plan = Plan(kind="frontier", items=(), frontier=Frontier(slices=slices))
    truth = Truth.of(
        {
            part.key(b, m): Chance(float(m * (b + 1) > 1200))
            for part in slices
            for b in BUDGETS
            for m in LIMITS
        }
    )
    trials = [past for _, past in simulate(plan, truth).trials]
    for share in (0.0, 0.5, 1.0):
        part = trials[: int(len(trials) * share)]
        _time(
            f"next of a frontier of {70 * CELLS} cells",
            lambda part=part: next_step(plan, part, [], "host1"),
            len(part),
        )


def _past(item_id: str, effect: str) -> Past:
    return Past(trial_id="t", item_id=item_id, cell=item_id.split("/")[0], host="host1", effect=effect)  # type: ignore[arg-type]


def _time(name: str, ask: Callable[[], object], trials: int = 2500) -> None:
    spent = []
    for _ in range(7):
        begun = time.process_time()
        ask()
        spent.append(time.process_time() - begun)
    took = 1000 * statistics.median(spent)
    print(f"{name:<34} {trials:>5} trials done: {took:.1f} ms of CPU time (allowed 50)")


def main() -> None:
    """Run it and print the figures."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--truths", type=int, default=150)
    options.add_argument("--pairs", type=int, default=150)
    options.add_argument("--seed", type=int, default=20261129)
    options.add_argument("--exhaustive", action="store_true", help="walk all 24310 monotone staircases")
    chosen = options.parse_args()
    print(f"seed {chosen.seed}; grid {len(BUDGETS)} x {len(LIMITS)} = {CELLS} cells")
    monotone(chosen.truths, chosen.seed, exhaustive=chosen.exhaustive)
    other_shapes(chosen.truths, chosen.seed)
    audits_pay(chosen.pairs, chosen.seed)
    rims(chosen.truths, chosen.seed)
    inherited(chosen.truths, chosen.seed)
    hosts_share(chosen.seed)
    big_plans()


if __name__ == "__main__":
    main()
