# SPDX-License-Identifier: Apache-2.0
"""One boot against one boot: what it may be believed to tell, and what it may not."""

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.verdict.making import WORK, side
from vllm_perf.verdict.comparison import compare_metric
from vllm_perf.verdict.noise import GPU_BOOTS, NoiseFloor
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side, Work
from vllm_perf.verdict.types import Change

POLICY = Policy()


def test_a_single_pair_leans_on_assumed_boots_not_on_its_requests() -> None:
    # sqrt(2) x 2 % x 1.96: a single boot a side cannot tell 5 % from luck, whatever its requests say.
    quiet = {"ttft_p50": 0.0001}
    compared = compare_metric("ttft_p50", [side(200, spread=quiet)], [side(210, spread=quiet)], POLICY)
    assert compared.change is Change.INCONCLUSIVE
    assert compared.low == pytest.approx(1.05 / math.exp(1.95996 * math.sqrt(2) * 0.02), rel=1e-4)
    assert "boots assumed to differ by 2.0 %" in compared.reason


def test_a_single_pair_ten_percent_apart_is_regressed() -> None:
    assert compare_metric("ttft_p50", [side(200)], [side(220)], POLICY).change is Change.REGRESSED


def test_a_single_pair_with_wild_requests_is_inconclusive() -> None:
    wild = {"ttft_p50": 0.05}
    compared = compare_metric("ttft_p50", [side(200, spread=wild)], [side(220, spread=wild)], POLICY)
    assert compared.change is Change.INCONCLUSIVE


@pytest.mark.parametrize(("learnt", "change"), [(12, Change.INCONCLUSIVE), (200, Change.REGRESSED)])
def test_a_single_pair_tells_four_percent_after_a_long_quiet_past_only(learnt: int, change: Change) -> None:
    quiet = Policy(floors={"ttft_p50": NoiseFloor(log_ratios=(0.004, -0.004) * (learnt // 2))})
    assert compare_metric("ttft_p50", [side(200)], [side(208)], quiet).change is change


def test_a_single_pair_ten_percent_apart_is_regressed_after_a_short_quiet_past() -> None:
    quiet = Policy(floors={"ttft_p50": NoiseFloor(log_ratios=(0.004, -0.004) * 6)})
    assert compare_metric("ttft_p50", [side(200)], [side(220)], quiet).change is Change.REGRESSED


def test_a_p95_of_ten_requests_is_shown_and_never_turns_red() -> None:
    base = Side(values={"ttft_p95": 30.0}, work=Work(sent=10, failed=0))
    head = Side(values={"ttft_p95": 168.0}, work=Work(sent=10, failed=0))
    one = compare_metric("ttft_p95", [base], [head], Policy())
    assert (one.change, one.gating) == (Change.REGRESSED, False)
    assert "needs 90 requests a side, 10 were sent" in one.reason


def test_a_p95_of_ninety_requests_turns_red() -> None:
    base = Side(values={"ttft_p95": 30.0}, work=Work(sent=90, failed=0))
    head = Side(values={"ttft_p95": 168.0}, work=Work(sent=90, failed=0))
    one = compare_metric("ttft_p95", [base], [head], Policy())
    assert (one.change, one.gating) == (Change.REGRESSED, True)


def _repeated(ttft_p95: float, spread: float) -> Side:
    """Make a boot that sent 32 prompts three times; its P95 wavers by ``spread`` over the repetitions."""
    times = {f"p{number}": 100.0 + number for number in range(32)}
    work = replace(WORK, sent=96)
    made = side(100.0, by_prompt={"ttft": times}, spread={"ttft_p95": spread}, work=work)
    return replace(made, values={**made.values, "ttft_p95": ttft_p95})


FLOOR = NoiseFloor(log_ratios=(0.02, -0.02) * 6)


@pytest.mark.parametrize("policy", [Policy(), Policy(floors={"ttft_p95": FLOOR})], ids=["assumed", "learnt"])
def test_a_stall_in_one_repetition_is_no_slower_tail(policy: Policy) -> None:
    # Each prompt's mean over repetitions is as ever; the P95 is not, and one repetition made it so.
    stalled = compare_metric("ttft_p95", [_repeated(105, 0.006)], [_repeated(160, 0.178)], policy)
    assert stalled.change is Change.INCONCLUSIVE
    steady = compare_metric("ttft_p95", [_repeated(105, 0.006)], [_repeated(160, 0.008)], policy)
    assert steady.change is Change.REGRESSED


@pytest.mark.parametrize("policy", [Policy(), Policy(floors={"ttft_p50": FLOOR})], ids=["assumed", "learnt"])
def test_a_whole_burst_that_came_late_is_no_slower_median(policy: Policy) -> None:
    # Every prompt a fifth slower, which prompt by prompt looks certain; but so far apart are repetitions.
    def repeated(factor: float, spread: float) -> Side:
        times = {f"p{number}": factor * (100.0 + number) for number in range(32)}
        work = replace(WORK, sent=96)
        return side(
            116.0 * factor,
            by_prompt={"ttft": times},
            spread={"ttft_p50": spread},
            work=work,
            at_once=8,
            repetitions=3,
        )

    wavering = compare_metric("ttft_p50", [repeated(1.0, 0.1)], [repeated(1.2, 0.1)], policy)
    assert wavering.change is Change.INCONCLUSIVE
    steady = compare_metric("ttft_p50", [repeated(1.0, 0.01)], [repeated(1.2, 0.01)], policy)
    assert steady.change is Change.REGRESSED


@pytest.mark.parametrize(("sent", "repetitions", "gating"), [(128, 1, False), (256, 1, True), (128, 2, True)])
def test_two_bursts_that_were_sent_once_never_turn_red(sent: int, repetitions: int, gating: bool) -> None:
    load: dict[str, Any] = {
        "work": replace(WORK, sent=sent),
        "at_once": 64,
        "repetitions": repetitions,
        "spread": {"ttft_p50": 0.001},
    }
    one = compare_metric("ttft_p50", [side(200, **load)], [side(300, **load)], POLICY)
    assert (one.change, one.gating) == (Change.REGRESSED, gating)
    assert ("128 requests at 64 at once, sent once, are 2 bursts" in one.reason) is not gating


def test_pairs_of_boots_that_sent_two_bursts_are_judged() -> None:
    # Three pairs show what bursts waver by themselves.
    load: dict[str, Any] = {"work": replace(WORK, sent=128), "at_once": 64}
    base, head = [side(200, **load)] * 3, [side(ttft, **load) for ttft in (299, 300, 301)]
    assert compare_metric("ttft_p50", base, head, POLICY).gating


def test_first_tokens_are_assumed_to_waver_more_than_the_rest_on_real_hardware() -> None:
    on_gpu = Policy(boots=GPU_BOOTS)
    first = compare_metric("ttft_p50", [side(200)], [side(230)], on_gpu)
    rest = compare_metric("tpot_p50", [side()], [side(tpot_ms=23)], on_gpu)
    assert (first.change, rest.change) == (Change.INCONCLUSIVE, Change.REGRESSED)
    assert "boots assumed to differ by 7.0 %" in first.reason
    assert "boots assumed to differ by 3.0 %" in rest.reason
