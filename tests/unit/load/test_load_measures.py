"""Acceptance length, latencies and the window: exact identities of public data, and properties."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from treeline_target import load_engine, load_stream, load_summary, load_window, measures

# SGLang pull request 33518: one request with 106 tokens in 43 verify calls.
COMPLETION, VERIFY, CORRECT, PROPOSED = 106, 43, 63, 215
ACCEPTED_HISTOGRAM = [11, 14, 11, 4, 0, 3]
# SGLang issue 16818: acceptance length by tensor parallelism and concurrency 1..32.
FLAT = [6.36, 6.34, 6.34, 6.36, 6.29, 6.38, 6.33, 6.31, 6.29, 6.36, 6.29, 6.30]


def test_acceptance_length_has_the_identity_of_a_public_request() -> None:
    assert measures.acceptance_length([(COMPLETION, VERIFY)]) == 2.4651162790697674
    assert COMPLETION == VERIFY + CORRECT
    assert sum(ACCEPTED_HISTOGRAM) == VERIFY
    assert sum(drafts * count for drafts, count in enumerate(ACCEPTED_HISTOGRAM)) == CORRECT
    assert measures.share(CORRECT, PROPOSED) == pytest.approx(0.2930232558139535, abs=1e-12)


def test_that_request_is_measured_as_it_was_published() -> None:
    meta = {
        "completion_tokens": COMPLETION,
        "spec_verify_ct": VERIFY,
        "spec_num_correct_drafts": CORRECT,
        "spec_num_proposed_drafts": PROPOSED,
        "spec_correct_drafts_histogram": ACCEPTED_HISTOGRAM,
        "finish_reason": {"type": "stop"},
    }
    exchange = load_stream.Exchange()
    reader = load_stream.Reader(exchange, incremental=False)
    reader.feed(b"data: " + json.dumps({"text": "t", "meta_info": meta}).encode() + b"\n\n", 1.0)
    reader.finish()
    found = load_summary.acceptance([exchange])
    assert found["al"] == pytest.approx(2.4651162790697674, abs=1e-12)
    assert found["accept_rate"] == pytest.approx(0.2930232558139535, abs=1e-12)
    assert (found["correct_drafts"], found["proposed_drafts"]) == (CORRECT, PROPOSED)
    assert found["accepted_histogram"] == ACCEPTED_HISTOGRAM
    twice = load_summary.acceptance([exchange, exchange])
    assert twice["accepted_histogram"] == [2 * bar for bar in ACCEPTED_HISTOGRAM]
    assert twice["al"] == found["al"]


def test_older_spellings_of_the_counters_are_read() -> None:
    exchange = load_stream.Exchange()
    older = {"spec_verify_ct": 4, "spec_accepted_drafts": 8, "spec_proposed_drafts": 20}
    load_stream.take_speculation(exchange, {**older, "spec_accept_histogram": [1, 1, 1, 1]})
    assert (exchange.correct_drafts, exchange.proposed_drafts) == (8, 20)
    assert exchange.accepted_histogram == [1, 1, 1, 1]


def test_it_is_a_ratio_of_sums_and_not_a_mean_of_ratios() -> None:
    assert measures.acceptance_length([(100, 10), (10, 10)]) == 5.5
    assert measures.acceptance_length([(100, 10), (1000, 1000)]) == pytest.approx(1100 / 1010)


def test_equal_work_at_any_concurrency_gives_the_public_flat_line() -> None:
    lengths = [
        measures.acceptance_length([(round(value * 1000), 1000)] * n) for n, value in enumerate(FLAT, 1)
    ]
    assert max(filter(None, lengths)) - min(filter(None, lengths)) <= 0.15


def test_requests_that_report_nothing_are_left_out() -> None:
    assert measures.acceptance_length([(None, 3), (12, None), (12, 4)]) == 3
    assert measures.acceptance_length([(12, None)]) is None
    assert measures.acceptance_length([(12, 0)]) is None
    assert measures.acceptance_length([]) is None


def test_time_per_token_leaves_the_first_one_out() -> None:
    assert measures.time_per_output_token_s(1.1, 0.1, 11) == pytest.approx(0.1)
    assert measures.time_per_output_token_s(1.1, 0.1, 1) is None


def test_percentiles_interpolate_and_need_no_second_value() -> None:
    assert measures.percentile([1, 2, 3, 4, 5], 50) == 3
    assert measures.percentile([0, 10], 90) == pytest.approx(9)
    assert measures.percentile([7], 99) == 7
    assert measures.percentile([], 50) is None


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([50, 90, 99]))
def test_a_percentile_lies_within_its_sample(values: list[float], rank: int) -> None:
    found = measures.percentile(values, rank)
    assert found is not None
    assert min(values) - 1e-6 <= found <= max(values) + 1e-6


def test_the_window_leaves_ramp_and_drain_out() -> None:
    # Five clients start one after the other; the first stops early, the others together at 10.
    intervals = [(0.0, 8.0), (1.0, 10.0), (2.0, 10.0), (3.0, 10.0), (4.0, 10.0)]
    ticks = [[(at / 2, 3 * (at + 1)) for at in range(0, 20)]]
    window = load_window.steady(intervals, ticks)
    assert window is not None
    assert (window.start, window.end, window.peak, window.share_at_peak) == (3.0, 10.0, 5, 1.0)
    # 3 tokens each half second, those after 3.0 up to 9.5.
    assert window.tokens == 3 * 13
    assert window.tokens_per_s == pytest.approx(39 / 7)


def test_short_gaps_of_a_closed_loop_do_not_end_the_window() -> None:
    window = load_window.steady(
        [(0.0, 1.0), (1.01, 2.0), (2.01, 3.0)], [[(1.0, 10)], [(2.0, 10)], [(3.0, 10)]]
    )
    assert window is not None
    assert (window.start, window.end, window.tokens) == (0.0, 3.0, 30)
    assert window.share_at_peak == pytest.approx(2.98 / 3)


def test_nothing_sent_has_no_window() -> None:
    assert load_window.steady([], []) is None
    assert load_window.steady([(1.0, 1.0)], [[]]) is None


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 50), st.integers(1, 200)), min_size=1, max_size=40)
)
def test_no_window_counts_more_than_there_was(requests: list[tuple[float, float, int]]) -> None:
    intervals = [(sent, sent + took) for sent, took, _ in requests]
    ticks = [[(sent + took / 2, tokens // 2), (sent + took, tokens)] for sent, took, tokens in requests]
    window = load_window.steady(intervals, ticks)
    assert window is not None
    assert 1 <= window.peak <= len(requests)
    assert 0 <= window.tokens <= sum(tokens for _, _, tokens in requests)
    assert min(sent for sent, _ in intervals) <= window.start < window.end <= max(end for _, end in intervals)
    assert 0 < window.share_at_peak <= 1 + 1e-9


def test_the_window_of_an_open_loop_ends_with_the_last_due_time() -> None:
    window = load_window.arrival_span(
        [(0.0, 5.0), (4.0, 9.0)], [0.0, 4.0], [[(2.0, 10), (5.0, 20)], [(9.0, 7)]]
    )
    assert window is not None
    assert (window.start, window.end, window.tokens, window.peak) == (0.0, 4.0, 10, 2)
    assert load_window.arrival_span([(0.0, 1.0)], [0.0], [[(1.0, 3)]]) is None


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=45))
def test_the_interval_of_the_mean_is_students(values: list[float]) -> None:
    mean, relative = measures.mean_and_relative_ci(values)
    assert mean is not None
    assert relative is not None
    t = stats.t.ppf(0.975, len(values) - 1) if len(values) <= 31 else stats.norm.ppf(0.975)
    assert relative * mean == pytest.approx(t * stats.sem(values), rel=1e-3, abs=1e-9)


def test_one_repeat_has_no_interval() -> None:
    assert measures.mean_and_relative_ci([]) == (None, None)
    assert measures.mean_and_relative_ci([5.0]) == (5.0, None)


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30), st.floats(0, 1), st.floats(0, 1))
def test_goodput_counts_who_keeps_both(pairs: list[tuple[float, float]], ttft: float, tpot: float) -> None:
    good = measures.good_requests(pairs, ttft, tpot)
    assert good == sum(first <= ttft and per_token <= tpot for first, per_token in pairs)
    assert good <= measures.good_requests(pairs, None, tpot)
    assert measures.good_requests([(None, 0.1)], 1.0, None) == 0
    assert measures.good_requests([(0.1, None)], 1.0, 1.0) == 1


def exchange_of(ticks: list[tuple[float, int]], calls: int | None) -> load_stream.Exchange:
    exchange = load_stream.Exchange(sent=0.0, ended=ticks[-1][0])
    for at, tokens in ticks:
        exchange.tick(at, tokens)
    exchange.tokens, exchange.verify_calls = ticks[-1][1], calls
    return exchange


def test_gaps_between_tokens_are_given_only_where_each_chunk_holds_one() -> None:
    plain = load_engine.facts({"model_path": "m"})
    speculating = load_engine.facts({"model_path": "m", "speculative_algorithm": "DDTREE"})
    single = exchange_of([(0.1, 1), (0.2, 2), (0.4, 3)], None)
    joined = exchange_of([(0.1, 1), (0.3, 3)], None)
    assert load_summary._gaps([single], plain)["itl_p50_ms"] == pytest.approx(150)
    assert load_summary._gaps([single], speculating)["itl_p50_ms"] is None
    assert load_summary._gaps([exchange_of([(0.1, 1), (0.2, 2)], 2)], plain)["itl_p50_ms"] is None
    assert load_summary._gaps([single, joined], plain)["itl_p50_ms"] is None
