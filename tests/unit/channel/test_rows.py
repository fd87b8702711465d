# SPDX-License-Identifier: Apache-2.0
"""Differences by hand, the network's part of them, and what may not be compared."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.channel.making import blocks, side
from tests.unit.metrics.making import WORKLOAD, failed, request, run_of
from vllm_perf.channel.cache import CacheProbe
from vllm_perf.channel.difference import minus, paired
from vllm_perf.channel.rounds import keep_good_rounds
from vllm_perf.channel.rows import Against, Row, make_rows
from vllm_perf.channel.side import Side
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import ArrivalSpec, PromptSpec, WorkloadSpec


def rows(base: Side, other: Side, workload: WorkloadSpec = WORKLOAD, **more: Any) -> dict[str, Row]:
    """Return the rows of two sides by metric."""
    return {row.metric: row for row in make_rows([base, other], workload, **more)}


def reason(base: Side, other: Side, metric: str, workload: WorkloadSpec = WORKLOAD) -> str | None:
    """Return why a metric is not comparable."""
    return rows(base, other, workload)[metric].against[0].reason


def test_a_paired_difference_is_the_mean_with_its_t_interval() -> None:
    found = paired([10.0, 12.0, 14.0])
    assert found is not None
    # s = 2, t(0.975, 2) = 4.3027, half = 4.3027 x 2 / sqrt(3) = 4.9683
    assert found.mean == 12.0
    assert found.low == pytest.approx(7.0317, abs=1e-4)
    assert found.high == pytest.approx(16.9683, abs=1e-4)
    assert found.pairs == 3


def test_one_pair_has_no_interval_and_none_has_nothing() -> None:
    found = paired([5.0])
    assert found is not None
    assert (found.mean, found.low, found.high) == (5.0, None, None)
    assert paired([]) is None


def test_a_pair_with_a_failed_percentile_makes_the_difference_unavailable() -> None:
    assert paired([1.0, float("inf")]) is None


def test_differences_need_both_sides() -> None:
    assert minus([5.0, None, 9.0], [1.0, 2.0, 3.0]) == [4.0, 6.0]


def test_ttft_is_split_into_network_and_rest() -> None:
    local = side("local", blocks(100, 110), rtts_ms=[1.0, 1.0])
    far = side("far", blocks(150, 180), rtts_ms=[31.0, 41.0])
    found = rows(local, far)["ttft_p50"].against[0]
    # differences 50 and 70, round trips 30 and 40, rest 20 and 30
    assert found.difference is not None
    assert found.network is not None
    assert found.rest is not None
    assert found.difference.mean == pytest.approx(60.0)
    assert found.network.mean == pytest.approx(35.0)
    assert found.rest.mean == pytest.approx(25.0)


def test_adjusted_ttft_is_raw_less_the_round_trip_and_its_difference_is_the_rest() -> None:
    local = side("local", blocks(100, 110), rtts_ms=[1.0, 1.0])
    far = side("far", blocks(150, 180), rtts_ms=[31.0, 41.0])
    row = rows(local, far)["ttft_p50_adjusted"]
    # raw P50 over all requests 165, median round trip 36
    assert row.values["far"].value == pytest.approx(129.0)
    assert row.against[0].difference is not None
    assert row.against[0].difference.mean == pytest.approx(25.0)


def test_gaps_between_tokens_hold_no_round_trip() -> None:
    found = rows(side("local", blocks(100, 110)), side("far", blocks(150, 180)))["tpot_p50"].against[0]
    assert found.difference is not None
    assert (found.network, found.rest) == (None, None)


def test_behind_a_proxy_nothing_is_subtracted() -> None:
    far = side("far", blocks(150, 180))
    far.network.through_proxy = True
    found = rows(side("local", blocks(100, 110)), far)
    assert found["ttft_p50"].against[0].network is None
    assert found["ttft_p50_adjusted"].values["far"].value is None
    assert found["ttft_p50_adjusted"].against[0].difference is None


def test_without_usage_throughput_and_tpot_are_not_compared_and_have_no_value() -> None:
    found = rows(side("local", blocks(100, 110)), side("far", blocks(150, 180), usage=False))
    for metric in ("output_throughput", "total_throughput", "tpot_p50"):
        assert found[metric].against[0].reason == "far sends no usage: its tokens are not counted"
        assert found[metric].values["far"].value is None
        assert found[metric].values["local"].value is not None
    assert found["ttft_p50"].against[0].reason is None


def test_a_buffered_stream_has_no_arrival_times_but_an_end() -> None:
    found = rows(side("local", blocks(100, 110)), side("far", blocks(150, 180), buffered=True))
    for metric in ("ttft_p50", "ttfa_p50", "tpot_p50", "itl_p50"):
        assert found[metric].against[0].reason is not None
        assert found[metric].values["far"].value is None
    assert found["e2el_p50"].against[0].reason is None


def test_hidden_reasoning_makes_ttft_incomparable_and_leaves_ttfa() -> None:
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180), hidden_reasoning=True)
    assert reason(local, far, "ttft_p50") is not None
    assert reason(local, far, "ttfa_p50") is None


def test_answers_of_different_length_are_different_work() -> None:
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180, tokens=5))
    expected = "answers are 3.0 tokens long on local, 5.0 on far"
    assert reason(local, far, "e2el_p50") == expected
    assert reason(local, far, "output_throughput") == expected
    assert reason(local, far, "ttft_p50") is None


def test_chunks_of_several_tokens_are_no_gaps_between_tokens() -> None:
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180), tokens_per_chunk=4.0)
    assert reason(local, far, "itl_p50") == (
        "a chunk is 1.00 tokens on local, 4.00 on far: gaps are not between tokens"
    )


def test_what_only_the_server_knows_needs_metrics_on_both() -> None:
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180), metrics=False)
    assert reason(local, far, "prefix_hit_rate") == "far shows no /metrics"


def test_a_rate_that_was_limited_is_the_limits_not_the_channels() -> None:
    paced = WORKLOAD.model_copy(update={"arrival": ArrivalSpec(max_rate_per_s=1.0)})
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180))
    assert reason(local, far, "output_throughput", paced) is not None
    assert reason(local, far, "ttft_p50", paced) is None


def test_a_429_in_a_block_makes_rates_incomparable_and_counts_as_never_finished() -> None:
    refused = [
        run_of(request("p0"), failed("p1", outcome=Category.RATE_LIMITED), failed("p2")),
        run_of(request("p0"), request("p1"), request("p2")),
    ]
    local, far = side("local", blocks(100, 110)), side("far", refused)
    found = rows(local, far)
    assert found["request_throughput"].against[0].reason == (
        "far refused requests (429): the rate is that of its limit"
    )
    assert found["ttft_p50"].against[0].difference is None
    assert found["ttft_p50"].against[0].reason == "far: requests failed, and the value leans on them"


def test_a_repeated_prompt_is_incomparable_where_only_one_side_caches() -> None:
    repeating = WORKLOAD.model_copy(update={"prompt": PromptSpec(kind="text", text="a")})
    local, far = side("local", blocks(100, 110)), side("far", blocks(150, 180))
    local.cache, far.cache = CacheProbe(caches=False), CacheProbe(caches=True)
    assert reason(local, far, "ttft_p50", repeating) == (
        "the workload repeats its prompt and only far caches prompts"
    )
    assert reason(local, far, "ttft_p50") is None
    far.cache = CacheProbe(caches=None)
    assert reason(local, far, "ttft_p50", repeating) is None


def test_an_unfit_comparison_compares_nothing() -> None:
    found = rows(side("local", blocks(100, 110)), side("far", blocks(150, 180)), unfit="spoiled")
    assert {row.against[0] for row in found.values()} == {Against(channel="far", reason="spoiled")}


def bursts() -> Any:
    """Return a block whose ten chunks all came within a tenth of a millisecond."""
    return run_of(request("p0", chunks_ms=[100 + number / 100 for number in range(10)]))


def steady() -> Any:
    """Return a block whose ten chunks came 10 ms apart."""
    return run_of(request("p0", chunks_ms=[100 + 10 * number for number in range(10)]))


def test_a_round_spoiled_on_one_side_is_left_out_on_both() -> None:
    local = side("local", [steady(), bursts(), steady(), steady()])
    far = side("far", [steady() for _ in range(4)], rtts_ms=[1, 2, 3, 4])
    sentences, unfit = keep_good_rounds([local, far], WORKLOAD)
    assert unfit is None
    assert sentences[0].startswith("round 2 is left out: local: STREAM_BUFFERED")
    assert (len(local.runs), len(far.runs)) == (3, 3)
    assert far.rtts_ms == [1, 3, 4]
    assert local.facts.buffered is False


def test_bursts_half_of_the_time_are_a_fact_about_the_channel_and_spoil_no_round() -> None:
    far = side("far", [bursts(), bursts(), steady(), steady()])
    local = side("local", [steady() for _ in range(4)])
    sentences, unfit = keep_good_rounds([local, far], WORKLOAD)
    assert (sentences, unfit) == ([], None)
    assert far.facts.buffered is True
    assert len(far.runs) == 4


def test_steady_blocks_outweigh_a_handshake_that_saw_bursts() -> None:
    far = side("far", [steady(), steady()], buffered=True)
    keep_good_rounds([side("local", [steady(), steady()]), far], WORKLOAD)
    assert far.facts.buffered is False


def test_with_hardly_a_round_left_nothing_is_compared() -> None:
    def lost(before: float) -> Any:
        counters = {"vllm:request_success_total": before}
        return replace(steady(), counters_before={"vllm:request_success_total": 0.0}, counters_after=counters)

    local, far = side("local", [lost(5.0), lost(1.0)]), side("far", [steady(), steady()])
    sentences, unfit = keep_good_rounds([local, far], WORKLOAD)
    assert unfit == "1 of 2 rounds were spoiled"
    assert "FOREIGN_TRAFFIC" in sentences[0]


def test_a_round_with_failed_requests_stays_in() -> None:
    far = side("far", [run_of(request("p0"), failed("p1")), *blocks(100, 100)])
    assert keep_good_rounds([side("local", blocks(100, 100, 100)), far], WORKLOAD) == ([], None)
