# SPDX-License-Identifier: Apache-2.0
"""Differences of two scrapes."""

import pytest

from tests.unit.metrics.making import request, run_of
from vllm_perf.load.sample import Run
from vllm_perf.metrics import server_side
from vllm_perf.metrics.measurement import MetricUnavailable


def _scraped(before: dict[str, float], after: dict[str, float]) -> Run:
    return run_of(request(), counters_before={"up": 1, **before}, counters_after={"up": 1, **after})


NEW = ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
OLD = ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total")


@pytest.mark.parametrize(("hits", "queries"), [NEW, OLD])
def test_hit_rate_is_the_growth_of_hits_over_the_growth_of_queries(hits: str, queries: str) -> None:
    # Case H55: hits over queries, not the other way round, and only what this run added.
    run = _scraped({hits: 1000, queries: 2000}, {hits: 4000, queries: 9000})
    assert server_side.prefix_hit_rate(run) == pytest.approx(3 / 7)


def test_the_newer_name_wins_where_both_are_exposed() -> None:
    # Case H54.
    after = {"vllm:kv_cache_usage_perc": 0.25, "vllm:gpu_cache_usage_perc": 0.75}
    assert server_side.kv_usage(_scraped({}, after)) == 0.25


def test_hit_rate_without_queries_is_unavailable() -> None:
    same = dict.fromkeys(NEW, 5.0)
    with pytest.raises(MetricUnavailable, match="no prefix was looked up"):
        server_side.prefix_hit_rate(_scraped(same, same))


def test_a_missing_series_is_unavailable_not_zero() -> None:
    with pytest.raises(MetricUnavailable, match="vllm:num_preemptions"):
        server_side.preemptions(_scraped({}, {}))


@pytest.mark.parametrize("scrape", [None, {}])
def test_an_empty_scrape_is_unavailable_not_zero(scrape: dict[str, float] | None) -> None:
    # Case H56.
    run = run_of(request(), counters_before=scrape, counters_after=scrape)
    with pytest.raises(MetricUnavailable):
        server_side.preemptions(run)


def test_a_missing_first_scrape_is_unavailable() -> None:
    run = run_of(request(), counters_after={"vllm:num_preemptions_total": 3})
    with pytest.raises(MetricUnavailable, match="before the run"):
        server_side.preemptions(run)


def test_a_series_born_during_the_run_started_at_zero() -> None:
    assert server_side.preemptions(_scraped({}, {"vllm:num_preemptions_total": 3})) == 3


def test_a_counter_that_went_backwards_is_a_restart() -> None:
    run = _scraped({"vllm:num_preemptions_total": 5}, {"vllm:num_preemptions_total": 1})
    with pytest.raises(MetricUnavailable, match="restarted"):
        server_side.preemptions(run)


def test_mean_times_are_growth_of_sum_over_growth_of_count_in_ms() -> None:
    name = "vllm:request_prefill_time_seconds"
    run = _scraped({f"{name}_sum": 1.0, f"{name}_count": 10}, {f"{name}_sum": 1.5, f"{name}_count": 15})
    assert server_side.prefill_mean_ms(run) == pytest.approx(100.0)


@pytest.mark.parametrize("of", [server_side.queue_mean_ms, server_side.decode_mean_ms])
def test_mean_times_without_the_series_are_unavailable(of: object) -> None:
    assert callable(of)
    with pytest.raises(MetricUnavailable):
        of(_scraped({}, {}))


def test_queue_time_of_no_request_is_unavailable() -> None:
    same = {"vllm:request_queue_time_seconds_sum": 1.0, "vllm:request_queue_time_seconds_count": 1.0}
    with pytest.raises(MetricUnavailable, match="counted no request"):
        server_side.queue_mean_ms(_scraped(same, same))
