# SPDX-License-Identifier: Apache-2.0
"""A side made of real runs."""

import math

import pytest

from tests.unit.metrics.making import WORKLOAD, failed, request, run_of, with_ttft
from tests.unit.verdict.making import THROTTLED
from vllm_perf.verdict.side import side_from_runs


def test_values_are_those_of_the_catalogue() -> None:
    side = side_from_runs([run_of(with_ttft(100), with_ttft(200), with_ttft(300))], WORKLOAD)
    assert side.values["ttft_p50"] == 200.0
    assert side.values["output_throughput"] == 9.0


def test_what_has_no_value_keeps_its_reason() -> None:
    side = side_from_runs([run_of(request())], WORKLOAD)
    assert "prefix_hit_rate" not in side.values
    assert "/metrics" in side.unavailable["prefix_hit_rate"]


def test_a_prompt_is_the_geometric_mean_of_its_repetitions() -> None:
    runs = [run_of(with_ttft(100, "a"), with_ttft(50, "b")), run_of(with_ttft(400, "a"))]
    assert side_from_runs(runs, WORKLOAD).by_prompt["ttft"] == pytest.approx({"a": 200.0, "b": 50.0})


def test_a_failed_request_has_no_prompt_time() -> None:
    side = side_from_runs([run_of(with_ttft(100, "a"), failed("b"))], WORKLOAD)
    assert side.by_prompt["ttft"] == {"a": pytest.approx(100.0)}


def test_spread_is_the_standard_error_behind_the_interval() -> None:
    # ln 100, ln 121: s / sqrt(2) = ln 1.1.
    side = side_from_runs([run_of(with_ttft(100)), run_of(with_ttft(121))], WORKLOAD)
    assert side.spread["ttft_p50"] == pytest.approx(math.log(1.1))


def test_work_counts_what_was_done() -> None:
    work = side_from_runs([run_of(request("a"), request("b", finish_reason="stop"), failed())], WORKLOAD).work
    assert (work.sent, work.failed, work.prompt_tokens, work.output_tokens) == (3, 1, 10, 3)
    assert work.finish == {"length": 0.5, "stop": 0.5}


def test_work_knows_cache_hits_and_preemptions_from_the_servers_counters() -> None:
    after = {
        "vllm:prefix_cache_hits_total": 9.0,
        "vllm:prefix_cache_queries_total": 10.0,
        "vllm:num_preemptions_total": 2.0,
    }
    run = run_of(request(), counters_before=dict.fromkeys(after, 0.0), counters_after=after)
    work = side_from_runs([run, run], WORKLOAD).work
    assert work.hit_rate == pytest.approx(0.9)
    assert work.preemptions == 4.0


def test_work_of_nothing_is_unknown_not_zero() -> None:
    work = side_from_runs([run_of(failed())], WORKLOAD).work
    assert (work.prompt_tokens, work.output_tokens, work.hit_rate, work.preemptions) == (None,) * 4


def test_reasons_travel_with_the_side() -> None:
    assert side_from_runs([run_of(request())], WORKLOAD, (THROTTLED,)).reasons == (THROTTLED,)
