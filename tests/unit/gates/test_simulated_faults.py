"""Planted faults and healthy runs through the real detector and gates; the whole count is in tests/bench."""

from __future__ import annotations

import pytest
import simulated_runs as simulated

SEEDS = range(6)


@pytest.fixture(scope="module")
def world() -> simulated.World:
    return simulated.World()


@pytest.mark.parametrize("with_baseline", [True, False], ids=["baseline", "shipped"])
@pytest.mark.parametrize(
    "fault", [simulated.HEALTHY, *simulated.CAUGHT], ids=lambda fault: str(fault.name).replace(" ", "-")
)
def test_each_run_gets_the_status_of_its_fault(
    world: simulated.World, fault: simulated.Fault, with_baseline: bool
) -> None:
    for seed in SEEDS:
        load = simulated.load_result(world, fault, f"test/{seed}")
        status, failed = simulated.judged(world, load, with_baseline)
        assert status == fault.status, (seed, failed)


def test_acceptance_and_correctness_are_separate_axes(world: simulated.World) -> None:
    names = {
        fault.name: {
            gate.name
            for gate in simulated.judged(world, simulated.load_result(world, fault, "axes"), True)[1]
        }
        for fault in simulated.CAUGHT
    }
    assert names["collapse with right text"] == {"acceptance"}
    assert not any(name.startswith("acceptance") for name in names["garble with normal acceptance"])


def test_what_comes_late_or_under_load_only_is_seen(world: simulated.World) -> None:
    late, busy, midway = simulated.REPORTED
    for seed in SEEDS:
        for fault in (late, busy, midway):
            load = simulated.load_result(world, fault, f"test/{seed}")
            assert simulated.judged(world, load, True)[0] == fault.status
            singles = [one["ok"] for one in load["canaries"] if one["phase"] == "single"]
            assert sum(singles) >= len(singles) - 2


def test_the_same_seed_gives_the_same_run(world: simulated.World) -> None:
    first, again, other = (
        simulated.load_result(world, simulated.HEALTHY, seed) for seed in ("one", "one", "two")
    )
    assert first == again != other
