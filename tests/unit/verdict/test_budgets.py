# SPDX-License-Identifier: Apache-2.0
"""Absolute limits and gains: the five rules of the module, each at its edge."""

import math
from typing import Any

import pytest

from tests.unit.verdict.making import THROTTLED
from vllm_perf.metrics.measurement import Measurement
from vllm_perf.spec.budget import Budget
from vllm_perf.verdict.budgets import judge
from vllm_perf.verdict.types import Status

PASS, FAIL, NO_VERDICT = Status.PASS, Status.FAIL, Status.NO_VERDICT


def _measured(value: float | None, low: float | None, high: float | None, **more: Any) -> Measurement:
    fields: dict[str, Any] = {
        "metric": "ttft_p50",
        "unit": "ms",
        "direction": "lower",
        "value": value,
        "low": low,
        "high": high,
        "samples": (1.0,),
        "sent": 100,
        "ok": 100,
    }
    return Measurement(**{**fields, **more})


def _throughput(value: float, low: float | None, high: float | None, **more: Any) -> Measurement:
    return _measured(
        value, low, high, metric="output_throughput", unit="tokens/s", direction="higher", **more
    )


TTFT = Budget(metric="ttft_p50", max=250)


@pytest.mark.parametrize(
    ("low", "value", "high", "status"),
    [
        (100.0, 110.0, 120.0, PASS),
        (230.0, 240.0, 250.0, PASS),
        (240.0, 245.0, 255.0, PASS),  # straddles, keeps the limit, enough requests
        (245.0, 255.0, 265.0, NO_VERDICT),  # straddles from beyond
        (250.0, 260.0, 270.0, NO_VERDICT),
        (251.0, 260.0, 270.0, FAIL),
        (240.0, 245.0, None, PASS),
        (None, 255.0, 270.0, NO_VERDICT),
        (math.inf, math.inf, math.inf, FAIL),
    ],
)
def test_limit_against_interval(low: float | None, value: float, high: float | None, status: Status) -> None:
    assert judge(TTFT, _measured(value, low, high)).status is status


def test_a_pass_that_straddles_says_that_it_is_close() -> None:
    verdict = judge(TTFT, _measured(245.0, 240.0, 255.0))
    assert "245 ms (95 % interval 240 to 255), at most 250 is allowed: close" in verdict.reason


def test_a_straddling_value_from_too_few_requests_is_no_verdict() -> None:
    few = _measured(245.0, 240.0, 255.0, metric="ttft_mean", sent=29)
    assert judge(Budget(metric="ttft_mean", max=250), few).status is NO_VERDICT
    enough = _measured(245.0, 240.0, 255.0, metric="ttft_mean", sent=30)
    assert judge(Budget(metric="ttft_mean", max=250), enough).status is PASS


@pytest.mark.parametrize(
    ("metric", "needed"), [("ttft_p50", 7), ("ttft_p90", 44), ("ttft_p95", 90), ("ttft_p99", 459)]
)
def test_a_percentile_from_too_few_requests_never_passes(metric: str, needed: int) -> None:
    budget = Budget(metric=metric, max=250)
    few = judge(budget, _measured(100.0, 90.0, 110.0, metric=metric, sent=needed - 1))
    assert few.status is NO_VERDICT
    assert f"insufficient, {needed - 1} of {needed} requests" in few.reason
    assert judge(budget, _measured(100.0, 90.0, 110.0, metric=metric, sent=needed)).status is PASS


def test_a_percentile_from_too_few_requests_may_still_fail() -> None:
    assert judge(TTFT, _measured(300.0, 280.0, 320.0, sent=3)).status is FAIL


def test_reasons_against_the_run_come_before_everything() -> None:
    for measured in (_measured(100.0, 90.0, 110.0), _measured(900.0, 800.0, 1000.0)):
        verdict = judge(TTFT, measured, reasons=(THROTTLED,))
        assert verdict.status is NO_VERDICT
        assert "GPU 0 was throttled" in verdict.reason


@pytest.mark.parametrize("value", [None, math.nan])
def test_no_value_is_no_verdict_and_says_why(value: float | None) -> None:
    verdict = judge(TTFT, _measured(value, None, None, unavailable="nothing was sent"))
    assert verdict.status is NO_VERDICT
    assert "nothing was sent" in verdict.reason


def test_estimated_tokens_are_no_verdict() -> None:
    tpot = _measured(10.0, 9.0, 11.0, metric="tpot_p50", estimated=True)
    verdict = judge(Budget(metric="tpot_p50", max=250), tpot)
    assert verdict.status is NO_VERDICT
    assert "include_usage" in verdict.reason


@pytest.mark.parametrize(("value", "status"), [(250.0, PASS), (250.1, FAIL)])
def test_an_exact_count_needs_no_interval(value: float, status: Status) -> None:
    assert judge(TTFT, _measured(value, None, None, samples=(), sent=1, metric="count")).status is status


@pytest.mark.parametrize(
    ("low", "value", "high", "status"),
    [(401.0, 410.0, 420.0, PASS), (390.0, 405.0, 420.0, PASS), (380.0, 390.0, 399.0, FAIL)],
)
def test_a_minimum_is_judged_from_the_other_side(
    low: float, value: float, high: float, status: Status
) -> None:
    assert judge(Budget(metric="output_throughput", min=400), _throughput(value, low, high)).status is status


def test_of_two_limits_the_worse_outcome_counts() -> None:
    both = Budget(metric="prefix_hit_rate", min=0.9, max=0.95)
    verdict = judge(both, _measured(0.97, None, None, samples=(), metric="prefix_hit_rate"))
    assert (verdict.status, verdict.limit) == (FAIL, 0.95)


GAIN = Budget(metric="output_throughput", min=3.0, relative_to="initial")


def test_a_gain_divides_throughputs() -> None:
    verdict = judge(GAIN, _throughput(400, 396, 404), _throughput(100, 99, 101))
    assert verdict.status is PASS
    assert verdict.value == pytest.approx(4.0)


def test_a_gain_in_latency_divides_the_baseline_by_the_value() -> None:
    gain = Budget(metric="ttft_p50", min=3.0, relative_to="initial")
    verdict = judge(gain, _measured(100.0, 99.0, 101.0), _measured(400.0, 396.0, 404.0))
    assert verdict.status is PASS
    assert verdict.value == pytest.approx(4.0)


def test_a_gain_whose_interval_reaches_the_limit_does_not_pass() -> None:
    # Two boots at 3 % each: 1.96 x sqrt(2) x 3 % = 8.3 %; 3.1 / 1.087 = 2.85 < 3.
    verdict = judge(GAIN, _throughput(310, 310, 310), _throughput(100, 100, 100))
    assert verdict.status is NO_VERDICT
    assert "2.853 to 3.369" in verdict.reason


def test_a_gain_that_stays_below_fails() -> None:
    assert judge(GAIN, _throughput(250, 248, 252), _throughput(100, 99, 101)).status is FAIL


def test_an_interval_of_a_gain_holds_both_sides_uncertainty() -> None:
    # ln(1.1)^2 + ln(1.1)^2 + (1.96 sqrt(2) 0.03)^2, rooted, is 0.1584: 4 x / 1.172.
    verdict = judge(GAIN, _throughput(400, 400 / 1.1, 440), _throughput(100, 100 / 1.1, 110))
    assert f"{4 / math.exp(0.15842):.3f}"[:4] in verdict.reason


def test_a_gain_without_a_baseline_is_no_verdict() -> None:
    verdict = judge(GAIN, _throughput(400, 396, 404), None)
    assert verdict.status is NO_VERDICT
    assert "no measurement of initial" in verdict.reason


def test_a_gain_over_nothing_is_no_verdict() -> None:
    assert judge(GAIN, _throughput(400, 396, 404), _throughput(0, None, None)).status is NO_VERDICT


def test_a_gain_over_a_baseline_without_value_is_no_verdict() -> None:
    baseline = _measured(None, None, None, metric="output_throughput", unavailable="tokens are estimated")
    verdict = judge(GAIN, _throughput(400, 396, 404), baseline)
    assert "tokens are estimated" in verdict.reason
