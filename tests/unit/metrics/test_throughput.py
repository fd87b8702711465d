# SPDX-License-Identifier: Apache-2.0
"""Work a second."""

from dataclasses import replace

import pytest

from tests.unit.metrics.making import MS, failed, request, run_of
from vllm_perf.metrics import throughput
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.spec.category import Category


def test_request_throughput_counts_completed_requests_only() -> None:
    assert throughput.request_throughput(run_of(request(), request(), failed(), seconds=2)) == 1.0


def test_output_throughput_leaves_a_failed_request_out() -> None:
    cut = replace(request(), outcome=Category.TRUNCATED_STREAM)
    assert throughput.output_throughput(run_of(request(), request(), failed(), cut, seconds=2)) == 3.0


def test_output_throughput_takes_the_servers_count_not_the_chunks() -> None:
    assert throughput.output_throughput(run_of(request(output_tokens=30), seconds=2)) == 15.0


def test_total_throughput_adds_the_prompts() -> None:
    assert throughput.total_throughput(run_of(request(prompt_tokens=17), seconds=2)) == 10.0


def test_output_throughput_refuses_estimated_tokens() -> None:
    with pytest.raises(MetricUnavailable, match="estimated"):
        throughput.output_throughput(run_of(request(), request(token_source="estimated")))


def test_total_throughput_refuses_unknown_prompt_tokens() -> None:
    with pytest.raises(MetricUnavailable, match="prompt tokens"):
        throughput.total_throughput(run_of(request(prompt_tokens=None)))


@pytest.mark.parametrize("of", [throughput.request_throughput, throughput.output_throughput])
def test_a_run_without_success_has_no_throughput(of: object) -> None:
    assert callable(of)
    with pytest.raises(MetricUnavailable, match="no request completed"):
        of(run_of(failed()))


def test_a_run_without_duration_has_no_throughput() -> None:
    with pytest.raises(MetricUnavailable, match="no duration"):
        throughput.request_throughput(run_of(request(), seconds=0))


def test_peak_concurrency_does_not_count_an_end_and_a_start_at_the_same_time_twice() -> None:
    first, second = request(sent_ms=0, chunks_ms=(50,)), request(sent_ms=50, chunks_ms=(90,))
    assert throughput.peak_concurrency([first, second]) == 1


def test_steady_window_is_the_longest_span_at_four_fifths_of_the_peak() -> None:
    # In flight: 1 from 0, 2 from 100 to 400, 1 until 500, 2 from 500 to 600: the longest at 2 is 100..400.
    run = run_of(
        request(sent_ms=0, chunks_ms=(400,)),
        request(sent_ms=100, chunks_ms=(600,)),
        request(sent_ms=500, chunks_ms=(700,)),
    )
    window = throughput.steady_window(run)
    assert (window.start_ns, window.end_ns) == (100 * MS, 400 * MS)


def test_steady_window_bridges_the_clients_turn_round() -> None:
    run = run_of(request(sent_ms=0, chunks_ms=(100,)), request(sent_ms=109, chunks_ms=(200,)))
    assert throughput.steady_window(run).seconds == 0.2


def test_steady_window_does_not_bridge_a_pause() -> None:
    run = run_of(request(sent_ms=0, chunks_ms=(100,)), request(sent_ms=111, chunks_ms=(200,)))
    assert throughput.steady_window(run).seconds == 0.1


def test_tokens_inside_a_window_are_those_of_the_chunks_inside() -> None:
    # 9 tokens: 3 in the first chunk, then 2 in each of three; the window holds the last two chunks.
    sample = request(chunks_ms=(100, 200, 300, 400), output_tokens=9, first_chunk_tokens=3)
    window = throughput.Window(start_ns=200 * MS, end_ns=400 * MS)
    assert throughput.output_tokens_within([sample], window) == 4.0


def test_a_single_chunk_carries_all_tokens() -> None:
    window = throughput.Window(start_ns=0, end_ns=400 * MS)
    assert throughput.output_tokens_within([request(chunks_ms=(100,), output_tokens=9)], window) == 9.0


def test_steady_throughput_leaves_ramp_and_tail_out() -> None:
    # Steady from 100 to 400 ms: 3 of the first request's 4 chunks, 3 of the second's 5, one end.
    run = run_of(
        request(sent_ms=0, chunks_ms=(100, 200, 300, 400)),
        request(sent_ms=100, chunks_ms=(200, 300, 400, 500, 600)),
        seconds=10,
    )
    assert throughput.steady_output_throughput(run) == pytest.approx(6 / 0.3)
    assert throughput.steady_request_throughput(run) == pytest.approx(1 / 0.3)
    assert throughput.steady_total_throughput(run) == pytest.approx((6 + 10) / 0.3)


def test_a_run_in_which_nothing_was_in_flight_has_no_steady_window() -> None:
    with pytest.raises(MetricUnavailable):
        throughput.steady_window(run_of())
