"""Plots: one of each on data and on nothing, as SVG and PNG that say what they must."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from field_sweep import anchors, field_notes, frontier
from treeline import plots
from treeline.frames import summaries
from treeline.frames.results import Results, read
from treeline.plots import Drawn, style
from treeline.plots.pareto import steps
from treeline.report.figures import figures

NAMES = [
    "frontier", "acceptance_vs_budget", "pareto", "goodput", "per_position", "step_time", "anchor_drift",
    "time_budget", "search_course",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read(field_notes(tmp_path_factory.mktemp("field") / "s").folder)


@pytest.fixture(scope="module")
def drawn(results: Results) -> dict[str, Drawn]:
    return {one.name: one for one in figures(results)}


def texts(one: Drawn) -> str:
    root = ElementTree.fromstring(one.svg())  # noqa: S314  (made by matplotlib a moment ago)
    return "\n".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))


def test_every_plot_is_drawn_and_says_that_timing_is_simulated(drawn: dict[str, Drawn]) -> None:
    assert list(drawn) == NAMES
    for name, one in drawn.items():
        assert one.empty == (name == "anchor_drift"), name
        assert one.alt
        if not one.empty:
            assert "simulated timing" in texts(one), name


def test_every_plot_of_nothing_says_what_there_is_none_of(tmp_path: Path) -> None:
    for one in figures(read(tmp_path)):
        assert one.empty
        assert len(one.alt) > 20
        assert one.svg().startswith("<?xml")


def test_files_are_written_twice_alike(drawn: dict[str, Drawn], tmp_path: Path) -> None:
    vector, pixels = drawn["frontier"].save(tmp_path / "plots")
    assert vector.read_text(encoding="utf-8") == drawn["frontier"].svg()
    assert pixels.read_bytes().startswith(b"\x89PNG")


def test_the_map_names_causes_and_marks_extrapolated_cells(drawn: dict[str, Drawn]) -> None:
    said = texts(drawn["frontier"])
    for word in ("CUBLAS", "garbled*", "AL 4.5", "topk 8 graphs off", "1200 rows (prior)", "extrapolated"):
        assert word in said, word
    assert said.count("CUBLAS") == 2


def test_implied_cells_are_hatched_and_hold_no_figure(tmp_path: Path) -> None:
    one = plots.frontier_map(read(frontier(tmp_path / "f").folder).cells)
    assert "implied, not measured" in texts(one)
    patterns = re.findall(r'<pattern id="([^"]+)"', one.svg())
    assert len(patterns) >= 2
    cells = read(tmp_path).cells
    assert texts(one).count("AL ") == (cells["state"] == "good").sum()


def test_rates_can_stand_in_the_map_instead(results: Results) -> None:
    assert "2400" in texts(plots.frontier_map(results.cells, text="tok_s"))


def test_failed_trials_stand_beside_the_pareto_steps(drawn: dict[str, Drawn]) -> None:
    said = texts(drawn["pareto"])
    assert "Failed, no point" in said
    assert "illegal_address" in said
    assert "5 failed trials beside" in drawn["pareto"].alt


def test_pareto_steps_are_those_that_nothing_beats() -> None:
    points = pd.DataFrame({"tok_s_user": [10, 20, 30, 15, 30], "tok_s_gpu": [9, 7, 3, 6, 2]})
    assert steps(points)[["tok_s_user", "tok_s_gpu"]].to_numpy().tolist() == [[10, 9], [20, 7], [30, 3]]


def test_drift_with_and_without_what_the_gpus_did(tmp_path: Path) -> None:
    def drawn_of(name: str, rates: list[float], degrees: list[float] | None = None) -> Drawn:
        results = read(anchors(tmp_path / name, rates, degrees).folder)
        found = summaries.anchors(summaries.points(results.measurements, results.trials))
        return plots.anchor_drift(found)

    moved = drawn_of("moved", [100.0, 99.0, 94.0])
    assert moved.alt.startswith("The host drifted: anchor -6.0 % at most, -6.0 % from first to last")
    assert "°C, highest" not in texts(moved)
    warm = drawn_of("warm", [100.0, 99.0, 98.0], [60.0, 70.0, 82.0])
    assert warm.alt.startswith("No drift shown: anchor -2.0 % at most")
    assert "°C, highest" in texts(warm)


def test_inline_plots_have_their_own_ids_a_text_and_the_colours_of_the_page(drawn: dict[str, Drawn]) -> None:
    pages = [one.inline() for one in drawn.values()]
    ids = [found for page in pages for found in re.findall(r' id="([^"]+)"', page)]
    assert len(ids) == len(set(ids))
    for page in pages:
        assert page.startswith("<svg")
        assert 'role="img" aria-label="' in page
        assert f"var(--ink, {style.INK})" in page
        used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page))
        assert used <= set(re.findall(r' id="([^"]+)"', page))


def test_drawing_leaves_the_settings_of_the_process_alone(results: Results) -> None:
    before = dict(mpl.rcParams)
    plots.frontier_map(results.cells).png()
    assert dict(mpl.rcParams) == before


def test_colours_of_classes_do_not_repeat_among_the_usual_ones() -> None:
    names = ["cublas_execution_failed", "illegal_address", "silent_corruption", "oom", "nccl_timeout"]
    assert len(set(style.colours_of(names).values())) == len(names)
