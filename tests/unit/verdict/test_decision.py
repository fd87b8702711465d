# SPDX-License-Identifier: Apache-2.0
"""The rule itself, on estimates made by hand."""

from dataclasses import replace
from typing import Any

import pytest

from vllm_perf.verdict.decision import decide, missing_pairs
from vllm_perf.verdict.evidence import Evidence
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.statistics import Estimate
from vllm_perf.verdict.types import Change

POLICY = Policy(alpha=0.02, allowed=0.03)


def _found(log_ratio: float, error: float = 0.01, metric: str = "ttft_p50", **more: Any) -> Evidence:
    """Make evidence from 20 degrees of freedom in 5 pairs; 3 % is allowed."""
    fields: dict[str, Any] = {
        "log_ratio": log_ratio,
        "error": error,
        "df": 20.0,
        "pairs": 5,
        "hodges_lehmann": log_ratio,
        "p_up": 1 / 32,
        "p_down": 1 / 32,
    }
    return Evidence(
        metric=metric,
        base=200.0,
        head=210.0,
        worse=Estimate(**{**fields, **more}),
        allowed=0.03,
        allowed_by="asked",
        floor=None,
        how="value by value",
    )


def _change(found: Evidence, policy: Policy = POLICY) -> Change:
    return decide({found.metric: found}, policy)[found.metric].change


@pytest.mark.parametrize(
    ("log_ratio", "error", "change"),
    [
        # t(0.98, 20) = 2.197, t(0.8, 20) = 0.860, t(0.975, 20) = 2.086; ln 1.03 = 0.02956.
        (0.0382, 0.01, Change.REGRESSED),  # 0.0382 - 0.0086 > 0.02956
        (0.0381, 0.01, Change.INCONCLUSIVE),
        (0.0550, 0.025, Change.REGRESSED),  # 0.0550 - 2.197 x 0.025 > 0
        (0.0549, 0.025, Change.INCONCLUSIVE),
        (-0.0382, 0.01, Change.IMPROVED),
        (-0.0381, 0.01, Change.INCONCLUSIVE),
        (0.0086, 0.01, Change.SAME),  # 0.0086 + 0.02086 < 0.02956
        (0.0088, 0.01, Change.INCONCLUSIVE),
        (-0.0088, 0.01, Change.INCONCLUSIVE),
        (0.0, 0.0142, Change.INCONCLUSIVE),
        (0.0, 0.0141, Change.SAME),
    ],
)
def test_the_edges_of_the_four_verdicts(log_ratio: float, error: float, change: Change) -> None:
    assert _change(_found(log_ratio, error)) is change


def test_four_gating_metrics_share_the_alarms_chance() -> None:
    # Alone 2.197 errors are enough; among four 2.845 (t(0.995, 20)) are asked for.
    others = {name: _found(0.0, metric=name) for name in ("ttft_p95", "tpot_p50", "output_throughput")}
    for log_ratio, change in ((0.0570, Change.REGRESSED), (0.0569, Change.INCONCLUSIVE)):
        found = _found(log_ratio, 0.02)
        assert decide({"ttft_p50": found, **others}, POLICY)["ttft_p50"].change is change


def test_metrics_that_do_not_gate_take_no_share() -> None:
    others = {name: _found(0.0, metric=name) for name in ("ttft_p99", "e2el_p50", "itl_p50")}
    found = decide({"ttft_p50": _found(0.0550, 0.025), **others}, POLICY)
    assert found["ttft_p50"].change is Change.REGRESSED
    assert not found["ttft_p99"].gating


def test_a_robust_estimate_that_stays_inside_is_not_believed() -> None:
    one = _found(0.06, hodges_lehmann=0.02)
    compared = decide({"ttft_p50": one}, POLICY)["ttft_p50"]
    assert compared.change is Change.INCONCLUSIVE
    assert "the robust estimate does not reach the allowed change" in compared.reason


def test_an_improvement_is_cross_checked_in_its_own_direction() -> None:
    assert _change(_found(-0.06, p_up=1.0, p_down=1 / 32)) is Change.IMPROVED
    assert _change(_found(-0.06, p_up=1 / 32, p_down=0.2)) is Change.INCONCLUSIVE


def test_three_pairs_have_too_few_signs_for_a_permutation_test() -> None:
    assert _change(_found(0.06, pairs=3, p_up=0.125)) is Change.REGRESSED
    assert _change(_found(0.06, pairs=4, p_up=0.125)) is Change.INCONCLUSIVE


def test_missing_pairs_are_as_many_as_bring_the_bound_past_its_mark() -> None:
    # sigma = 0.04 sqrt(5) = 0.0894. With 10 pairs, df 25: 0.0283 x 2.167 = 0.0613 > 0.06; with 11, df 26:
    # 0.02697 x 2.162 = 0.0583 < 0.06 and 0.06 - 0.856 x 0.02697 = 0.0369 > 0.02956: six more.
    assert missing_pairs(_found(0.06, 0.04), 0.02, POLICY) == 6


def test_missing_pairs_also_count_towards_the_same() -> None:
    # t(0.975, df) sigma / sqrt(n) <= 0.02956 with sigma 0.0447: n = 12 (df 27, 2.052 x 0.0129 = 0.0265),
    # 10 (df 25, 2.060 x 0.01414 = 0.0291) but not 9 (df 24, 2.064 x 0.0149 = 0.0308).
    assert missing_pairs(_found(0.0, 0.02), 0.02, POLICY) == 5


def test_a_change_of_just_what_is_allowed_is_never_decided() -> None:
    assert missing_pairs(_found(0.02956, 0.02), 0.02, POLICY) is None


def test_assumed_noise_turns_into_the_pairs_own_when_there_are_more() -> None:
    found = _found(0.0, 0.03, df=float("inf"), pairs=1)
    # n = 7: t(0.975, 6) = 2.447 x 0.03 / sqrt(7) = 0.0277 <= 0.02956; n = 6: 2.571 x 0.01225 = 0.0315.
    assert missing_pairs(found, 0.02, POLICY) == 6


def test_interval_and_reason_name_the_confidence() -> None:
    compared = decide({"ttft_p50": _found(0.1)}, replace(POLICY, interval_alpha=0.1))["ttft_p50"]
    assert "(90 % interval" in compared.reason
