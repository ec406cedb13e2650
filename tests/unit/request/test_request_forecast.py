"""The forecast: its arithmetic and its words."""

from store_builders import finished, started
from treeline.progress import remaining_s
from treeline.records import Times
from treeline.request import Rates, Surroundings, forecast_lines, understand
from treeline.request.forecast import Costs, measured_rates

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
    assert lines({"budget": "8,16"}, costs=Costs(max_trials_per_run=1))[-1] == (
        "This run ends after 1 trial; the same command then goes on."
    )
    assert lines({"budget": "8,16"}, costs=Costs(max_trials_per_run=2)) == lines({"budget": "8,16"})


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


def test_a_frontier_says_what_each_stage_is_expected_to_cost():
    said = lines({"plan": "frontier"})
    assert said[0].startswith("Plan: frontier of 72 configurations in 1 slice, about 36 restarts in dialect")
    assert said[1] == (
        "Search: about 16 restarts along the border, 4 confirmations, 6 audits; at most 33 where failures "
        "are monotone, more where they are not or are repeated."
    )
    assert "2 finalists x 3 lives and anchors between them, a soak of 10m of the winner" in said[2]
    assert "best by throughput" in said[2]
    assert "renewed as the border gets known" in said[3]
    alone = lines({"plan": "frontier", "stages": "frontier"})
    assert "about 26 restarts" in alone[0]
    assert not any(line.startswith("After it") for line in alone)


def test_more_hosts_than_slices_can_keep_busy_do_not_shorten_a_frontier():
    def hours(hosts, **more):
        said = lines({"plan": "frontier", "stages": "frontier", **more}, hosts=[str(n) for n in range(hosts)])
        return said[2].split(" if the")[0]

    assert hours(2) == hours(8) != hours(1)
    assert hours(2, topk="2,4,8,16") != hours(8, topk="2,4,8,16")


def test_the_baseline_is_an_extra_restart_and_said():
    said = lines({"budget": "8,16", "baseline": "auto"})
    assert said[0].startswith("Plan: grid, 3 restarts")
    assert said[1].startswith("Baseline: 1 restart without speculation, unless an earlier one")


def test_limits_of_the_sweep_are_said():
    said = lines({"budget": "8,16"}, costs=Costs(max_restarts=5, max_hours=1.5))
    assert "Ends after 5 restarts of the whole sweep (max_restarts)" in said[-2]
    assert "Ends before 1.5 hours of work are over (max_hours), about 11 trials on each host" in said[-1]


def test_rates_are_taken_from_what_earlier_trials_took():
    first = started(1)
    times = [
        Times(started_at="x", waited_s=waited, load_s=load, total_s=total)
        for waited, load, total in [(300, 60, 380), (320, None, 400), (340, 80, 440)]
    ]
    done = [finished(first, times=each) for each in times]
    crash = finished(first, "crash", "bad", times=Times(started_at="x", waited_s=1, load_s=1, total_s=3))
    rates = measured_rates([*done, crash])
    assert rates == Rates(load_s=320, measure_s=70, overhead_s=20, trials=3)
    said = forecast_lines(understand({"budget": 8}).plan, dialect="field", rates=rates, rows_prior=1200)
    assert "as measured in 3 earlier trials" in said[2]
    assert measured_rates([crash]) is None
