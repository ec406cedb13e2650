"""Public tables: figures derived from them equal the stated ones."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from treeline.exchange import inferencex
from treeline.frames import summaries
from treeline.plots import acceptance_vs_budget

PUBLIC = Path(__file__).resolve().parents[2] / "data" / "public"


def table(name: str) -> pd.DataFrame:
    return pd.read_csv(PUBLIC / name)


@pytest.mark.parametrize(
    ("name", "by_rate", "by_al"), [("a_lucebox_rtx3090.csv", 22, 24), ("b_lucebox_rtx5090.csv", 22, 30)]
)
def test_ranking_by_acceptance_is_not_ranking_by_throughput(name: str, by_rate: int, by_al: int) -> None:
    frame = table(name).assign(slice="27B")
    drawn = acceptance_vs_budget(frame[frame["status"] == "ok"], frame[frame["status"] != "ok"])
    assert f"tok/s is highest at budget {by_rate} " in drawn.alt
    assert f"acceptance length is highest at budget {by_al} " in drawn.alt
    svg = drawn.svg()
    assert f"highest at {by_rate}: " in svg
    assert ("12 failed" in svg) == (name.startswith("b_"))


def test_a_step_costs_what_was_stated() -> None:
    frame = table("c_vllm_ddtree_a6000.csv")
    rates = frame["al"] / frame["ms_step"] * 1000
    stated = frame["tok_s"].notna()
    assert rates[stated].round(1).tolist() == pytest.approx(frame["tok_s"][stated].tolist(), abs=0.051)
    assert (frame["al"] * frame["steps"]).tolist() == pytest.approx([1152.0] * len(frame), abs=1.5)
    # Back from tok/s to the time of a step, by the function that measurements go through.
    measured = pd.DataFrame({"concurrency": 1, "al": frame["al"], "output_tok_s": rates})
    assert summaries._ms_step(measured).tolist() == pytest.approx(frame["ms_step"].tolist())


@pytest.mark.parametrize(
    ("model", "best"),
    [("kimi-k2.5-eagle3-on", 8), ("dsv4-mtp-on", 8), ("dsv4-mtp-off", 6), ("qwen3.5-on", 8)],
)
def test_golden_acceptance_lengths_and_their_dip(model: str, best: int) -> None:
    frame = table("e_golden_al.csv")
    curve = frame[frame["model"] == model].assign(slice=model, tok_s=float("nan"))
    assert f"acceptance length is highest at budget {best} " in acceptance_vs_budget(curve).alt
    assert curve["al"].is_monotonic_increasing == (not model.startswith("dsv4"))


def test_acceptance_is_flat_over_concurrency_and_a_drop_is_flagged() -> None:
    frame = table("g_dflash_by_concurrency.csv")
    lives = frame.assign(label="dflash", trial_id="tp" + frame["tp"].astype(str))
    found = summaries.al_over_concurrency(lives)
    assert found["spread"].round(2).tolist() == [0.09, 0.08, 0.06, 0.07]
    assert found["flat"].all()
    dropped = lives.assign(al=lives["al"].where(lives["concurrency"] < 32, 6.1))
    assert not summaries.al_over_concurrency(dropped)["flat"].any()


def test_the_inferencex_transform() -> None:
    told = json.loads((PUBLIC / "h_inferencex.json").read_text(encoding="utf-8"))
    given = told["given"]
    assert (
        inferencex.rates(given["total"], given["output"], inferencex.gpu_count(given["tp"])) == told["stated"]
    )
    for tpot_ms, stated in told["interactivity"]:
        assert round(inferencex.interactivity(tpot_ms), 2) == stated
