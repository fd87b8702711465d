# SPDX-License-Identifier: Apache-2.0
"""Every case of reading ``/metrics`` and the statistics line, by its id, through the golden engine."""

from collections.abc import Callable, Iterator

import pytest

from vllm_perf.golden import GoldenServer
from vllm_perf.golden.faults import FAULTS
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import Run
from vllm_perf.load.scrape import scrape
from vllm_perf.load.stats_line import parse_stats_line
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.server_side import kv_usage, preemptions, prefix_hit_rate

Value = Callable[[Run], float]

# What each dialect must give: a number, or None for "unavailable". The scrape before had all counters at 0.
EXPECTED: dict[str, dict[Value, float | None]] = {
    "H54": {kv_usage: 0.25},
    "H54-old": {kv_usage: 0.5},
    "H54-both": {kv_usage: 0.25},
    "H54-none": {kv_usage: None},
    "H55": {prefix_hit_rate: 3000 / 7000},
    "H55-old": {prefix_hit_rate: 3000 / 7000},
    "H55-v0": {prefix_hit_rate: None},
    "H56": {kv_usage: None, prefix_hit_rate: None, preemptions: None},
    "H56-empty": {kv_usage: None, prefix_hit_rate: None, preemptions: None},
    "H57": {kv_usage: 0.0, prefix_hit_rate: 0.96},
    "H67": {preemptions: 3},
}
ZERO = {
    "vllm:prefix_cache_queries_total": 0.0,
    "vllm:prefix_cache_hits_total": 0.0,
    "vllm:num_preemptions_total": 0.0,
}
LINES = {
    "V0": (
        "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs,"
        " Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.0%, CPU KV cache usage: 0.0%",
        {
            "avg_prompt_throughput": 0, "avg_generation_throughput": 0,
            "running": 0, "swapped": 0, "waiting": 0,
            "gpu_kv_cache_usage": 0, "cpu_kv_cache_usage": 0,
        },
    ),
    "V1": (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 239.2 tokens/s,"
        " Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 91.2%, Prefix cache hit rate: 0.0%",
        {
            "avg_prompt_throughput": 0, "avg_generation_throughput": 239.2, "running": 8, "waiting": 0,
            "gpu_kv_cache_usage": 0.912, "prefix_cache_hit_rate": 0,
        },
    ),
    "V1-multimodal": (
        "Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 239.2 tokens/s,"
        " Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 91.2%, Prefix cache hit rate: 0.0%,"
        " MM cache hit rate: 16.7%",
        {
            "avg_prompt_throughput": 0, "avg_generation_throughput": 239.2, "running": 8, "waiting": 0,
            "gpu_kv_cache_usage": 0.912, "prefix_cache_hit_rate": 0, "mm_cache_hit_rate": 0.167,
        },
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[GoldenServer]:
    with GoldenServer() as running:
        yield running


def _scrape(server: GoldenServer, case: str) -> dict[str, float] | None:
    return scrape(Target(base_url=server.base_url_for(fault=case), model="golden"))


def _value(value: Value, run: Run) -> float | None:
    try:
        return value(run)
    except MetricUnavailable:
        return None


def test_every_scrape_case_is_expected_and_there_are_cases() -> None:
    assert set(EXPECTED) == {id for id, fault in FAULTS.items() if fault.scope == "metrics"} != set()


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_case(case: str, server: GoldenServer) -> None:
    run = Run(
        workload="w", target="t", samples=(), started_ns=0, ended_ns=1, peak_in_flight=0,
        counters_before=ZERO, counters_after=_scrape(server, case),
    )  # fmt: skip
    assert {value: _value(value, run) for value in EXPECTED[case]} == EXPECTED[case]


@pytest.mark.parametrize("case", ["H56", "H56-empty"])
def test_h56_an_answer_without_series_is_an_empty_scrape_not_a_missing_one(
    case: str, server: GoldenServer
) -> None:
    assert _scrape(server, case) == {}


def test_h55_nothing_looked_up_is_no_hit_rate(server: GoldenServer) -> None:
    after = _scrape(server, "H55")
    run = Run(
        workload="w", target="t", samples=(), started_ns=0, ended_ns=1, peak_in_flight=0,
        counters_before=after, counters_after=after,
    )  # fmt: skip
    assert _value(prefix_hit_rate, run) is None


def test_h57_the_gauge_counts_running_requests_only_the_counters_tell_hits(server: GoldenServer) -> None:
    after = _scrape(server, "H57") or {}
    assert (after["vllm:kv_cache_usage_perc"], after["vllm:prefix_cache_hits_total"]) == (0.0, 96.0)


@pytest.mark.parametrize("dialect", sorted(LINES))
def test_h58(dialect: str) -> None:
    line, expected = LINES[dialect]
    assert parse_stats_line(f"INFO 01-02 03:04:05 [loggers.py:1] {line}") == pytest.approx(expected)


def test_h58_another_line_has_no_statistics() -> None:
    assert parse_stats_line("INFO: Application startup complete.") is None
