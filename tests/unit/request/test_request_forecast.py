"""The forecast: its arithmetic and its words."""

from treeline.progress import remaining_s
from treeline.request import Rates, Surroundings, forecast_lines, understand

RATES = Rates(load_s=360, measure_s=120, overhead_s=10)


def test_remaining_time_is_shared_by_hosts_in_whole_trials():
    assert remaining_s(7, 490) == 7 * 490
    assert remaining_s(7, 490, hosts=2) == 4 * 490
    assert remaining_s(0, 490) == 0
    assert remaining_s(-1, 490, hosts=0) == 0


def lines(variables, **more):
    plan = understand(variables).plan
    return forecast_lines(plan, dialect="field", rates=RATES, rows_prior=1200, **more)


def test_what_the_forecast_says():
    said = lines({"budget": "8,16", "maxreq": 128}, hosts=["b300-1"], units=["sglang-ddtree.service"])
    assert said == (
        "Plan: grid, 2 restarts in dialect field on b300-1.",
        "Time: about 16m, repeats of doubtful trials not counted.",
        "One trial: about 8m10s (6m until the engine serves, 2m of load, 10s around them).",
        "Down on each host for that time: sglang-ddtree.service; started again at the end if running now.",
        "1 configuration above the rows prior of 1200: more likely to fail. "
        "A failure is recorded and the sweep goes on.",
    )


def test_several_hosts_share_only_within_a_hardware_class():
    said = lines({"budget": "8,16"}, hosts=["a", "b"])
    assert said[0].endswith("on 2 hosts.")
    assert "about 8m10s if the 2 hosts are of one hardware class and share the plan, 16m if not" in said[1]


def test_a_limit_of_trials_is_said_only_when_it_is_reached():
    assert lines({"budget": "8,16"}, max_trials_per_run=1)[-1] == (
        "This run ends after 1 trial; the same command then goes on."
    )
    assert lines({"budget": "8,16"}, max_trials_per_run=2) == lines({"budget": "8,16"})


def test_only_the_first_left_out_are_listed():
    said = lines({"budget": [*range(1, 30)], "topk": 1})
    assert "Left out: 22 configurations." in said
    assert said[-1] == "  and 12 more, all in the plan of the sweep"
    assert sum(": a tree of topk 1" in line for line in said) == 10


def test_the_rates_of_the_surroundings_are_used():
    outcome = understand({"budget": 8}, Surroundings(rates=Rates(load_s=8, measure_s=15, overhead_s=10)))
    said = "One trial: about 33s (8s until the engine serves, 15s of load, 10s around them)."
    assert said in outcome.forecast
    assert outcome.to_dict()["forecast_trial_s"] == 33
