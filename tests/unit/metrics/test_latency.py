# SPDX-License-Identifier: Apache-2.0
"""Times of single requests."""

import math
from array import array

import pytest

from tests.unit.metrics.making import MS, failed, request, with_ttft
from vllm_perf.metrics import latency


def test_ttft_runs_from_sent_to_the_first_token() -> None:
    waited = request(sent_ms=5, chunks_ms=(105, 120), scheduled_ns=0)
    assert latency.ttft_ns(waited) == 100 * MS


def test_ttft_leaves_connecting_out() -> None:
    assert latency.ttft_ns(request(sent_ms=5, chunks_ms=(105, 120), connect_ns=4 * MS)) == 100 * MS


def test_ttft_from_scheduled_counts_the_wait_before_sending() -> None:
    assert latency.ttft_from_scheduled_ns(request(sent_ms=5, chunks_ms=(105,), scheduled_ns=0)) == 105 * MS


def test_ttfa_is_the_first_answer_not_the_first_reasoning() -> None:
    thinking = request(chunks_ms=(100, 110, 120), first_answer_ns=120 * MS)
    assert (latency.ttft_ns(thinking), latency.ttfa_ns(thinking)) == (100 * MS, 120 * MS)


def test_e2el_ends_with_the_last_token_not_with_the_stream() -> None:
    waited = request(sent_ms=5, chunks_ms=(100, 155), end_ns=900 * MS, scheduled_ns=0)
    assert latency.e2el_ns(waited) == 150 * MS


def test_e2el_from_scheduled_counts_the_wait_before_sending() -> None:
    late = request(sent_ms=30, chunks_ms=(100, 150), scheduled_ns=10 * MS)
    assert latency.e2el_from_scheduled_ns(late) == 140 * MS


def test_tpot_divides_by_the_tokens_after_the_first_chunk() -> None:
    assert latency.tpot_ns(request(chunks_ms=(100, 110, 120, 130), output_tokens=4)) == 10 * MS


def test_tpot_knows_that_the_first_chunk_held_three_tokens() -> None:
    bundled = request(chunks_ms=(100, 140), output_tokens=7, first_chunk_tokens=3)
    assert latency.tpot_ns(bundled) == 10 * MS


def test_tpot_of_a_single_token_does_not_exist() -> None:
    assert latency.tpot_ns(request(chunks_ms=(100,), output_tokens=1)) is None


def test_chunk_gaps_leave_ttft_out() -> None:
    # Case H59: chunks at 200, 210, 220 ms have the gaps 10 and 10; 200 is no gap.
    assert latency.chunk_gaps_ns(request(chunks_ms=(200, 210, 220))).tolist() == [10 * MS, 10 * MS]


def test_a_chunk_of_many_tokens_is_one_gap() -> None:
    assert latency.chunk_gaps_ns(request(chunks_ms=(200, 280), output_tokens=8)).tolist() == [80 * MS]


@pytest.mark.parametrize("chunks", [(), (100,)])
def test_fewer_than_two_chunks_have_no_gap(chunks: tuple[float, ...]) -> None:
    stamps = array("q", (int(chunk * MS) for chunk in chunks))
    assert latency.chunk_gaps_ns(request(chunk_ns=stamps)).size == 0


def test_a_failed_request_counts_as_infinite() -> None:
    assert latency.request_times_ms([with_ttft(100), failed()], latency.ttft_ns) == (100.0, math.inf)


def test_a_failed_request_counts_as_infinite_even_with_a_first_token() -> None:
    cut = failed().__class__(
        id="x", prompt_id="x", scheduled_ns=0, sent_ns=0, first_token_ns=MS, outcome=failed().outcome
    )
    assert latency.request_times_ms([cut], latency.ttft_ns) == (math.inf,)


def test_a_request_without_that_time_is_left_out() -> None:
    one_token = request(chunks_ms=(100,), output_tokens=1)
    assert latency.request_times_ms([one_token, request()], latency.tpot_ns) == (10.0,)


def test_itl_pools_gaps_and_adds_one_infinite_gap_a_failure() -> None:
    pooled = latency.itl_ms([request(chunks_ms=(100, 110, 130)), failed()])
    assert pooled.tolist() == [10.0, 20.0, math.inf]
