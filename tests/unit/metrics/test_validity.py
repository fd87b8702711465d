# SPDX-License-Identifier: Apache-2.0
"""Each line of docs/metrics.md "When a run is valid" refuses a run, and a good run passes them all."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.metrics.making import MS, WORKLOAD, failed, request, run_of, with_ttft
from vllm_perf.load.sample import Run, ServerTimes
from vllm_perf.metrics.reasons import InvalidCode, RunFacts
from vllm_perf.metrics.validity import check_runs, check_validity
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec

FINISHED = "vllm:request_success_total"
OUTPUT = "vllm:generation_tokens_total"
PROMPT = "vllm:prompt_tokens_total"


def _workload(**changes: Any) -> WorkloadSpec:
    return WORKLOAD.model_copy(update=changes)


def _codes(run: Run, workload: WorkloadSpec = WORKLOAD, facts: RunFacts | None = None) -> list[InvalidCode]:
    return [reason.code for reason in check_validity(run, workload, facts)]


def _good(**changes: Any) -> Run:
    """Two requests of 10 prompt and 3 output tokens, with everything known and right."""
    before: dict[str, float] = {FINISHED: 5, OUTPUT: 50, PROMPT: 500}
    after: dict[str, float] = {FINISHED: 7, OUTPUT: 56, PROMPT: 520}
    known: dict[str, Any] = {
        "asked_concurrency": 2,
        "pinned_output_tokens": 3,
        "expected_prompt_tokens": {"a": 10, "b": 10},
        "median_lag_ns": MS,
        "caches_reset": True,
        "warmup_samples": (request("w"),),
        "counters_before": before,
        "counters_after": after,
    }
    return run_of(request("a"), request("b"), **{**known, **changes})


def test_a_good_run_has_no_reason_against_it() -> None:
    facts = RunFacts(floor_ms=25, budget_ms=250, asserted=("ttft_mean",), prefix_caching=True)
    assert _codes(_good(), facts=facts) == []


def test_nothing_sent_is_no_verdict() -> None:
    assert _codes(run_of()) == [InvalidCode.NOTHING_SENT]


def test_no_repetition_at_all_is_no_verdict() -> None:
    assert [reason.code for reason in check_runs([], WORKLOAD)] == [InvalidCode.NOTHING_SENT]


def test_one_failed_request_is_too_many_by_default_and_the_reason_shows_it() -> None:
    reasons = check_validity(run_of(*[request()] * 3, failed()), WORKLOAD)
    assert [reason.code for reason in reasons] == [InvalidCode.TOO_MANY_FAILED]
    assert "1 of 4 requests failed (1 x TIMEOUT)" in reasons[0].sentence
    assert "nothing came" in reasons[0].sentence


def test_failures_within_the_workloads_share_are_accepted() -> None:
    assert _codes(run_of(*[request()] * 3, failed()), _workload(max_failed_share=0.25)) == []


def test_everything_failed_is_no_verdict() -> None:
    assert InvalidCode.TOO_MANY_FAILED in _codes(run_of(failed()), _workload(max_failed_share=0.9))


@pytest.mark.parametrize(
    ("metric", "enough"), [("ttft_p50", 7), ("ttft_p90", 44), ("ttft_p95", 90), ("ttft_p99", 459)]
)
def test_an_asserted_percentile_needs_its_requests_over_all_repetitions(metric: str, enough: int) -> None:
    facts = RunFacts(asserted=(metric,))
    first = run_of(*[request()] * (enough - 1))
    assert [reason.code for reason in check_runs([first], WORKLOAD, facts)] == [InvalidCode.TOO_FEW_SAMPLES]
    assert check_runs([first, run_of(request())], WORKLOAD, facts) == ()


def test_a_metric_that_is_no_percentile_needs_no_number_of_requests() -> None:
    assert check_runs([run_of(request())], WORKLOAD, RunFacts(asserted=("ttft_mean",))) == ()


def test_a_reason_shared_by_repetitions_is_given_once() -> None:
    facts = RunFacts(gpu_problems=("GPU 0 was throttled (thermal) for 12 s",))
    assert len(check_runs([_good(), _good()], WORKLOAD, facts)) == 1


def test_prompts_of_another_length_are_refused() -> None:
    assert _codes(_good(expected_prompt_tokens={"a": 10, "b": 11})) == [InvalidCode.PROMPT_LENGTH]


def test_answers_of_another_length_than_pinned_are_refused() -> None:
    # Case H65: one output token a request.
    run = run_of(request(chunks_ms=(100,)), pinned_output_tokens=128)
    assert _codes(run) == [InvalidCode.OUTPUT_LENGTH]


@pytest.mark.parametrize(("lag_ns", "late"), [(1 * MS, False), (1 * MS + 1, True)])
def test_a_median_lag_above_one_percent_of_ttft_is_late(lag_ns: int, late: bool) -> None:
    assert (_codes(_good(median_lag_ns=lag_ns)) == [InvalidCode.GENERATOR_LATE]) is late


@pytest.mark.parametrize(("last_sent_ms", "slow"), [(1020, False), (1021, True)])
def test_a_rate_below_98_percent_of_the_schedule_is_refused(last_sent_ms: int, slow: bool) -> None:
    # 1000 / 0.98 = 1020.4 ms is how long the schedule's second may take.
    last = request(
        sent_ms=last_sent_ms, chunks_ms=(last_sent_ms + 100, last_sent_ms + 110), scheduled_ns=1000 * MS
    )
    run = run_of(request(sent_ms=0), last, asked_rate_per_s=1.0)
    assert (_codes(run) == [InvalidCode.RATE_NOT_REACHED]) is slow


def test_concurrency_that_was_never_reached_is_refused() -> None:
    # Case H61: a client capped at fewer connections than asked.
    run = run_of(*[request()] * 8, asked_concurrency=8, peak_in_flight=4)
    assert _codes(run) == [InvalidCode.CONCURRENCY_NOT_REACHED]


def test_a_closed_loop_that_is_held_to_a_rate_has_no_concurrency_to_reach() -> None:
    run = run_of(*[request()] * 8, asked_concurrency=8, peak_in_flight=1)
    paced = _workload(arrival=ArrivalSpec(concurrency=8, max_rate_per_s=10.0))
    assert _codes(run, paced) == []


def test_fewer_requests_than_asked_concurrency_cannot_reach_it() -> None:
    assert _codes(run_of(request(), asked_concurrency=8)) == []


@pytest.mark.parametrize(("floor_ms", "refused"), [(25.0, False), (25.1, True), (None, False)])
def test_a_client_floor_above_a_tenth_of_the_budget_is_refused(floor_ms: float | None, refused: bool) -> None:
    codes = _codes(_good(), facts=RunFacts(floor_ms=floor_ms, budget_ms=250))
    assert (codes == [InvalidCode.CLIENT_FLOOR]) is refused


def test_a_stream_that_arrives_in_bursts_is_refused() -> None:
    # Case H89: the proxy hands out everything at once, TTFT up and ITL down.
    burst = request(chunks_ms=[287 + 0.05 * n for n in range(10)])
    assert _codes(run_of(burst)) == [InvalidCode.STREAM_BUFFERED]
    assert _codes(run_of(burst), facts=RunFacts(allow_buffered=True)) == []


def test_a_stream_that_was_marked_as_buffered_is_refused() -> None:
    marked = request(warnings=(f"{Category.STREAM_BUFFERED}: all chunks in one read",))
    assert _codes(run_of(marked)) == [InvalidCode.STREAM_BUFFERED]


def test_a_client_that_was_kept_from_its_cpu_is_refused() -> None:
    wall_ns = _good().ended_ns - _good().started_ns
    waits = {"cpu_wait_ns": wall_ns, "worst_cpu_wait_ns": 300 * MS, "scheduling": "normal"}
    [reason] = check_validity(_good(**waits, long_cpu_wait_ns=wall_ns // 50), WORKLOAD)
    assert reason.code is InvalidCode.CLIENT_STARVED
    assert "2.0% of the time, up to 300 ms at once (scheduling: normal)" in reason.sentence
    assert "real-time" in reason.remedy
    assert _codes(_good(**waits, long_cpu_wait_ns=wall_ns // 200)) == []


def test_a_burst_that_the_starved_client_made_itself_is_not_blamed_on_the_way() -> None:
    marked = request(warnings=(f"{Category.STREAM_BUFFERED}: all chunks in one read",))
    run = run_of(marked, long_cpu_wait_ns=500 * MS, worst_cpu_wait_ns=500 * MS)
    assert _codes(run) == [InvalidCode.CLIENT_STARVED]


def test_a_few_short_gaps_are_no_buffering() -> None:
    assert _codes(run_of(request(chunks_ms=[100, 100.05, *range(110, 200, 10)]))) == []


def test_a_client_ahead_of_the_server_is_refused() -> None:
    times = ServerTimes(queue_ns=50 * MS, first_token_ns=60 * MS)
    assert _codes(run_of(request(server=times))) == [InvalidCode.TIMES_CONTRADICT]


HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"


def _hitting(hits: float) -> Run:
    return run_of(
        request(), counters_before={HITS: 0, QUERIES: 0}, counters_after={HITS: hits, QUERIES: 1000}
    )


@pytest.mark.parametrize(("hits", "outside"), [(899, True), (900, False), (950, False), (951, True)])
def test_a_hit_rate_outside_the_band_is_refused(hits: float, outside: bool) -> None:
    band = _workload(hit_rate_min=0.9, hit_rate_max=0.95)
    assert (_codes(_hitting(hits), band) == [InvalidCode.HIT_RATE]) is outside


def test_a_hit_rate_may_come_from_usage() -> None:
    run = run_of(request(cached_tokens=8))
    assert _codes(run, _workload(hit_rate_min=0.7)) == []
    assert _codes(run, _workload(hit_rate_max=0.7)) == [InvalidCode.HIT_RATE]


def test_a_hit_rate_that_nobody_reports_is_refused_where_the_workload_needs_it() -> None:
    assert _codes(run_of(request()), _workload(hit_rate_max=0.05)) == [InvalidCode.HIT_RATE]


def test_an_engine_without_prefix_caching_has_no_hit_rate_to_keep() -> None:
    facts = RunFacts(prefix_caching=False)
    assert _codes(run_of(request()), _workload(hit_rate_min=0.9), facts) == []


@pytest.mark.parametrize("series", [FINISHED, OUTPUT, PROMPT])
@pytest.mark.parametrize(("by", "code"), [(1, InvalidCode.FOREIGN_TRAFFIC), (-1, InvalidCode.LOST_REQUESTS)])
def test_counters_that_differ_from_the_client_are_refused(series: str, by: int, code: InvalidCode) -> None:
    run = _good()
    assert run.counters_after is not None
    after = {**run.counters_after, series: run.counters_after[series] + by}
    assert _codes(_good(counters_after=after)) == [code]


def test_a_server_that_restarted_during_the_run_is_refused() -> None:
    assert set(_codes(_good(counters_after={FINISHED: 2, OUTPUT: 6, PROMPT: 20}))) == {
        InvalidCode.SERVER_RESTARTED
    }


def test_without_scrapes_the_counters_say_nothing() -> None:
    assert _codes(_good(counters_before=None, counters_after=None)) == []


def test_a_failed_request_may_have_been_counted_in_part() -> None:
    run = run_of(
        request("a"),
        failed(),
        counters_before={FINISHED: 0, OUTPUT: 0, PROMPT: 0},
        counters_after={FINISHED: 2, OUTPUT: 4, PROMPT: 20},
    )
    assert _codes(run, _workload(max_failed_share=0.5)) == []


@pytest.mark.parametrize(("reset", "refused"), [(False, True), (True, False), (None, False)])
def test_caches_that_could_not_be_reset_are_refused(reset: bool | None, refused: bool) -> None:
    assert (_codes(_good(caches_reset=reset)) == [InvalidCode.CACHES_NOT_RESET]) is refused
    assert _codes(_good(caches_reset=reset), _workload(reset_caches=False)) == []


def test_a_warm_up_with_a_measured_prompt_is_refused() -> None:
    assert _codes(_good(warmup_samples=(request("a"),))) == [InvalidCode.WARMUP_SHARES_PROMPTS]


def test_a_workload_of_one_text_has_no_other_prompt_to_warm_up_with() -> None:
    fixed = _workload(prompt=PromptSpec(kind="text", text="Say yes."))
    assert _codes(_good(warmup_samples=(request("a"),)), fixed) == []


def test_an_engine_that_runs_something_else_is_refused() -> None:
    facts = RunFacts(engine_problems=("quantization awq was asked, gptq runs",))
    assert _codes(_good(), facts=facts) == [InvalidCode.ENGINE_NOT_AS_ASKED]


def test_a_gpu_that_was_not_clean_is_refused() -> None:
    assert _codes(_good(), facts=RunFacts(gpu_problems=("pid 77 holds 3 GiB of GPU 0",))) == [InvalidCode.GPU]


def test_a_reason_reads_as_code_what_was_seen_and_what_to_do() -> None:
    (reason,) = check_validity(_good(), WORKLOAD, RunFacts(floor_ms=30, budget_ms=250))
    assert str(reason).startswith("CLIENT_FLOOR: the client alone adds 30.0 ms of TTFT")
    assert "measure from a faster" in str(reason)


def test_every_code_can_be_reached_by_a_test_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in InvalidCode if f"InvalidCode.{code}" not in source] == []


def test_ttft_of_the_good_run_is_what_its_lag_is_compared_with() -> None:
    assert _codes(run_of(with_ttft(200), median_lag_ns=2 * MS)) == []
