"""What the engine counted meanwhile: read from its metrics, its ranks and its log, and compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from misbehaving_peer import Peer
from treeline import cross_checks
from treeline_target import load_looks, load_run, load_spec
from treeline_target.load_spec import ClientKey

MakeSpec = Callable[..., load_spec.Spec]

PAGE = """# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{model_name="m",dp_rank="0"}} {tokens}
sglang:generation_tokens_total{{model_name="m",dp_rank="1"}} 5.0
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{{model_name="m"}} {calls}
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{{model_name="m"}} {prompt}
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{{model_name="m"}} 3.0
# TYPE sglang:time_to_first_token_seconds histogram
sglang:time_to_first_token_seconds_bucket{{le="+Inf"}} 4
"""
# SGLang issue 34743: reading rank 0 alone finds none.
RANKS = [None, None, 2.90, 3.67, None, 4.64]


def page(tokens: float, calls: float, prompt: float = 0) -> str:
    return PAGE.format(tokens=tokens, calls=calls, prompt=prompt)


def point(**changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "complete": True,
        "ok": 8,
        "failed": 0,
        "cancelled": 0,
        "al": 4.0,
        "completion_tokens": 4000,
        "verify_calls": 1000,
        "correct_drafts": 3000,
        "prompt_tokens": 800,
        "looks": {
            "metrics_before": page(100, 20, 5),
            "metrics_after": page(4100, 1020, 805),
            "ranks_after": [4.1],
            "life_tokens": 4200,
            "life_verify_calls": 1050,
            "own_life": True,
            "log": {"lines": 12, "al": 4.05, "running_peak": 8, "graph_share": 1.0},
        },
    }
    return {**values, **changes}


def checks(given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in cross_checks.of_point(given)}


def test_accounts_that_agree_say_so_with_both_figures() -> None:
    found = checks(point())
    assert {name: check["agrees"] for name, check in found.items()} == dict.fromkeys(found, True)
    assert set(found) == {
        *("al_by_drafts", "al_by_metrics", "tokens_by_metrics", "prompt_tokens_by_metrics"),
        *("al_by_ranks", "al_by_log"),
    }
    assert (found["al_by_metrics"]["ours"], found["al_by_metrics"]["theirs"]) == (4.0, 4.0)
    assert found["tokens_by_metrics"]["tolerance"] == 0.01


def test_a_lifetime_mean_of_the_metrics_is_not_what_is_compared() -> None:
    given = point()
    # Before this point the engine had accepted next to nothing: the sums over its life say 1.4.
    given["looks"]["metrics_before"] = page(10_000, 10_000)
    given["looks"]["metrics_after"] = page(14_000, 11_000)
    assert checks(given)["al_by_metrics"]["theirs"] == 4.0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("al_by_metrics", {"metrics_after": page(4100, 1320, 805)}),
        ("tokens_by_metrics", {"metrics_after": page(4200, 1045, 805)}),
        ("prompt_tokens_by_metrics", {"metrics_after": page(4100, 1020, 900)}),
        ("al_by_ranks", {"ranks_after": [2.0]}),
        ("al_by_log", {"log": {"lines": 3, "al": 2.9}}),
    ],
)
def test_an_account_that_disagrees_is_shown_as_disagreeing(name: str, changes: dict[str, Any]) -> None:
    given = point()
    given["looks"].update(changes)
    found = checks(given)
    assert [one for one, check in found.items() if check["agrees"] is False] == [name]
    assert found[name]["ours"] != found[name]["theirs"]


def test_what_is_not_there_is_neither_agreement_nor_disagreement() -> None:
    for given in (point(looks={}), point(al=None, verify_calls=None), {}):
        found = checks(given)
        assert found["al_by_metrics"]["agrees"] is None
        assert found["al_by_drafts"]["agrees"] in (None, True)
    assert "--enable-metrics" in checks(point(looks={}))["al_by_metrics"]["detail"]
    # The tokens of a request that failed are in the engine's counters and not in ours.
    failed = checks(point(failed=1))
    assert failed["tokens_by_metrics"]["agrees"] is None
    assert "requests failed" in failed["tokens_by_metrics"]["detail"]


def test_every_rank_counts_and_is_shown() -> None:
    given = point()
    given["looks"]["ranks_after"] = RANKS
    given["looks"]["life_tokens"], given["looks"]["life_verify_calls"] = 3737, 1000
    check = checks(given)["al_by_ranks"]
    assert check["theirs"] == pytest.approx((2.90 + 3.67 + 4.64) / 3)
    assert check["agrees"]
    assert "3 of 6 ranks: null, null, 2.9, 3.67, null, 4.64" in check["detail"]
    # A server that has served others: its means are not of our requests alone.
    given["looks"]["own_life"] = False
    assert checks(given)["al_by_ranks"]["agrees"] is None
    # Emptying the cache makes SGLang forget its means: what stands there then is of this point alone.
    flushed = {**given, "cache_flushed": True, "al": 3.7}
    assert checks(flushed)["al_by_ranks"]["agrees"] is True
    assert checks({**flushed, "al": 2.0})["al_by_ranks"]["agrees"] is False


def test_the_states_of_all_ranks_are_read() -> None:
    states = [None if value is None else {"avg_spec_accept_length": value} for value in RANKS]
    assert load_looks.rank_lengths({"internal_states": states}) == RANKS
    assert load_looks.rank_lengths({"internal_states": [{}, {"avg_spec_accept_length": True}]}) == [
        None,
        None,
    ]
    assert load_looks.rank_lengths({}) == []


def test_only_the_counters_of_a_metrics_page_are_kept() -> None:
    kept = load_looks.metrics_kept(page(1, 2, 3))
    assert kept is not None
    assert "num_running_reqs" not in kept
    assert "bucket" not in kept
    assert cross_checks.counters(kept) == {
        "generation_tokens": 6.0,
        "spec_verify_calls": 2.0,
        "prompt_tokens": 3.0,
    }
    assert load_looks.metrics_kept(None) is None
    assert cross_checks.counters("sglang:prompt_tokens_total{oh no") == {}


def test_acceptance_that_only_the_last_calls_were_cut_of_is_no_disagreement() -> None:
    # Short answers: the bound on tokens cuts the last call of each request.
    assert checks(point(correct_drafts=3100))["al_by_drafts"]["agrees"] is False
    short = point(ok=200, correct_drafts=3100)
    assert checks(short)["al_by_drafts"]["agrees"]


@pytest.mark.parametrize(
    ("line", "running", "accept", "graph"),
    [
        ("Decode batch. #running-req: 1, #token: 99, token usage: 0.00, gen throughput (token/s): 55.30, "
         "#queue-req: 0", 1, None, None),
        ("Decode batch, #running-req: 8, #token: 2, token usage: 0.00, accept len: 2.92, accept rate: 0.73, "
         "cuda graph: True, gen throughput (token/s): 1.0, #queue-req: 0, ", 8, 2.92, True),
        ("[2026-01-01 00:00:00 TP0] Decode batch [123], #running-req: 4, accept len: 3.5, cpu graph: False, "
         "gen throughput (token/s): 1.0, #queue-req: 0", 4, 3.5, False),
        ("Decode batch, #running-req: 2, block accept len: 9.99, cap len: 3.0, #queue-req: 1", 2, None, None),
    ],
)  # fmt: skip
def test_decode_lines_of_all_versions_are_read(
    line: str, running: int, accept: float | None, graph: bool | None
) -> None:
    found = load_looks.decode_line(1.5, line)
    assert found == load_looks.DecodeLine(1.5, running, accept, graph)
    assert load_looks.decode_line(1.5, "Prefill batch. #new-seq: 1") is None


def test_the_log_is_weighted_by_what_ran_and_bound_to_the_time_of_the_point() -> None:
    line = load_looks.DecodeLine
    lines = [
        line(0.5, 32, 9.0, True),  # another point
        line(1.1, 8, 1.0, True),  # speaks of the iterations before the start
        line(1.5, 8, 4.0, True),
        line(1.8, 2, 2.0, False),
        line(2.5, 1, 9.0, True),
    ]
    account = load_looks.log_account(lines, 1.0, 2.0)
    assert account == {
        "lines": 3,
        "al": (8 * 4.0 + 2 * 2.0) / 10,
        "running_peak": 8,
        "graph_share": pytest.approx(2 / 3),
    }
    assert load_looks.log_account(lines, 3.0, 4.0) is None


def test_a_load_looks_at_the_engine_before_and_after_each_point(peer: Peer, make_spec: MakeSpec) -> None:
    def metrics() -> str:
        return page(12.0 * len(peer.prompts), 4.0 * len(peer.prompts), 100.0 * len(peer.prompts))

    peer.metrics = metrics
    peer.server_info = {"served_model_name": "m", "internal_states": [None, {"avg_spec_accept_length": 3.0}]}
    result = load_run.run(make_spec(client_keys=[ClientKey(2)]), load_run.Life())
    result["points"][0]["looks"]["own_life"] = True
    cross_checks.settle(result)
    found = {check["name"]: check["agrees"] for check in result["points"][0]["cross_checks"]}
    assert found == {
        "al_by_drafts": True,
        "al_by_metrics": True,
        "tokens_by_metrics": True,
        "prompt_tokens_by_metrics": True,
        "al_by_ranks": True,
        "al_by_log": None,
    }
    assert "looks" not in result["points"][0]
