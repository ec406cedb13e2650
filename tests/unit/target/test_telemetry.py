"""What a load's telemetry says: energy as an integral, and a reason wherever the samples do not cover it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from treeline.records import Measurement
from treeline_target import telemetry
from treeline_target.telemetry import Recording, Sample, energy_j, summarise

SECONDS = range(100, 161)


def steady(gpus: int = 2, watts: float = 250.0, times: Iterable[int] = SECONDS) -> Recording:
    """A sample a second of so many GPUs."""
    return Recording(
        "tool (A)",
        tuple(
            Sample(float(at), str(gpu), watts, 90.0, 1900.0, 4000.0, 60.0 + gpu, 1000.0 * (gpu + 1))
            for at in times
            for gpu in range(gpus)
        ),
    )


def test_a_covered_stretch_is_summed_over_gpus() -> None:
    said = summarise(steady(), 110.3, 150.9, tokens=40_600)
    assert said == {
        "source": "tool (A)",
        "valid": True,
        "reason": None,
        "gpus": 2,
        "samples": 80,
        "power_w": 500.0,
        "energy_j": pytest.approx(500 * 40.6),
        "tokens_per_joule": pytest.approx(2.0),
        "utilization": 90.0,
        "sm_mhz": 1900.0,
        "sm_mhz_min": 1900.0,
        "memory_mhz": 4000.0,
        "temperature_c_max": 61.0,
        "memory_mib_max": 2000.0,
    }
    assert summarise(steady(), 110.3, 150.9)["tokens_per_joule"] is None


def test_a_stretch_shorter_than_the_time_between_samples_is_covered_by_its_neighbours() -> None:
    said = summarise(steady(), 110.2, 110.7, tokens=250)
    assert (said["valid"], said["samples"], said["energy_j"]) == (True, 0, pytest.approx(250.0))
    assert said["utilization"] is None


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ([*range(100, 120), *range(124, 161)], "GPU 0 has no sample for 5.0 s (allowed 3 s)"),
        (range(115, 161), "GPU 0 has no sample for 5.0 s (allowed 3 s)"),
        (range(100, 146), "GPU 0 has no sample for 5.0 s (allowed 3 s)"),
        (range(100, 161, 2), "GPU 0 has 21 samples in 40.0 s (at least 32 are needed)"),
    ],
)
def test_gaps_and_thin_samples_make_it_invalid(times: list[int], why: str) -> None:
    said = summarise(steady(times=times), 110.0, 150.0, tokens=1)
    assert (said["valid"], said["reason"]) == (False, why)
    assert (said["power_w"], said["energy_j"], said["tokens_per_joule"]) == (None, None, None)
    assert said["temperature_c_max"] == 61.0


def test_a_gpu_that_falls_silent_is_named_with_what_the_tool_said() -> None:
    whole = steady()
    kept = tuple(one for one in whole.samples if one.gpu == "0" or one.at < 120)
    said = summarise(Recording("tool (A)", kept, "the GPU query tool ended by itself"), 110.0, 150.0)
    assert said["reason"] == (
        "GPU 1 has no sample for 31.0 s (allowed 3 s); the GPU query tool ended by itself"
    )


def test_absent_is_said_and_never_a_number() -> None:
    said = summarise(Recording(None, (), "no GPU query tool on this host (nvidia-smi)"), 0.0, 10.0, tokens=5)
    assert said["reason"] == "no GPU query tool on this host (nvidia-smi)"
    assert said["valid"] is False
    assert {value for key, value in said.items() if key not in ("valid", "reason", "gpus", "samples")} == {
        None
    }
    assert summarise(Recording("x"), 0.0, 10.0)["reason"] == telemetry.NO_SAMPLES
    assert summarise(steady(), 150.0, 150.0)["reason"] == "the stretch has no length"


def test_a_gpu_that_does_not_tell_its_power_has_no_energy_but_the_rest() -> None:
    silent = tuple(Sample(float(at), "0", None, 50.0) for at in SECONDS)
    said = summarise(Recording("x", silent), 110.0, 150.0, tokens=5)
    assert (said["valid"], said["energy_j"], said["utilization"]) == (True, None, 50.0)
    assert said["reason"] == "GPU 0 does not tell its power"


SERIES = st.lists(
    st.tuples(st.integers(1, 40).map(lambda tenths: tenths / 10), st.floats(0, 1500)), min_size=1, max_size=30
)


def placed(steps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Watts at times that only grow."""
    at, series = 0.0, []
    for step, watts in steps:
        at += step
        series.append((at, watts))
    return series


@given(SERIES, st.floats(0, 100), st.floats(0.1, 50), st.floats(0, 1))
def test_energy_adds_up_and_lies_between_the_extremes(
    steps: list[tuple[float, float]], since: float, length: float, cut: float
) -> None:
    series, until = placed(steps), since + length
    whole = energy_j(series, since, until)
    middle = since + cut * length
    assert energy_j(series, since, middle) + energy_j(series, middle, until) == pytest.approx(whole, abs=1e-6)
    watts = [power for _, power in series]
    assert min(watts) * length - 1e-6 <= whole <= max(watts) * length + 1e-6


@given(st.floats(0, 1000), st.floats(0, 20), st.floats(0.5, 40), st.floats(0.5, 40))
def test_a_straight_line_is_integrated_exactly(low: float, slope: float, start: float, length: float) -> None:
    series = [(float(at), low + slope * at) for at in range(0, 121)]
    exact = low * length + slope * ((start + length) ** 2 - start**2) / 2
    assert energy_j(series, start, start + length) == pytest.approx(exact, rel=1e-9, abs=1e-6)


def test_energy_of_nothing_is_none() -> None:
    assert energy_j([], 0.0, 1.0) == 0.0
    assert energy_j([(0.0, 100.0)], 1.0, 1.0) == 0.0


def test_each_point_of_a_load_gets_the_figures_of_its_window() -> None:
    windowed = {"window": {"start": 5.0, "end": 25.0, "tokens": 20_000}, "completion_tokens": 33_333}
    whole = {"window": None, "completion_tokens": 5_000}
    late = {"window": None, "completion_tokens": 1}
    points = [windowed, whole, late]
    telemetry.annotate(points, [(105.0, 135.0), (140.0, 150.0), (158.0, 200.0)], steady())
    assert (windowed["power_w"], windowed["energy_j"]) == (500.0, pytest.approx(10_000))
    assert (windowed["tokens_per_joule"], windowed["telemetry_reason"]) == (pytest.approx(2.0), None)
    assert whole["tokens_per_joule"] == pytest.approx(1.0)
    assert late["energy_j"] is None
    assert late["telemetry_reason"] == "GPU 0 has no sample for 40.0 s (allowed 3 s)"


def test_what_a_point_gets_is_what_a_measurement_keeps() -> None:
    point: dict[str, object] = {"window": None, "completion_tokens": 1}
    telemetry.annotate([point], [(110.0, 120.0)], steady())
    added = set(point) - {"window", "completion_tokens"}
    assert added <= set(Measurement.__struct_fields__)
