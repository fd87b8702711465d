# SPDX-License-Identifier: Apache-2.0
"""Two sides, metric by metric."""

import math
from dataclasses import replace

import pytest

from tests.unit.verdict.making import THROTTLED, WORK, boots, prompts, side
from vllm_perf.verdict.comparison import aa_log_ratios, compare_metric, compare_sides, overall
from vllm_perf.verdict.noise import NoiseFloor
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change, Comparison
from vllm_perf.verdict.work import WorkKind

WAVER = (1.0, 1.004, 0.997, 1.002, 0.999)
OTHER = (1.001, 0.998, 1.003, 1.0, 0.997)
POLICY = Policy()


def _changes(head: list[Side], policy: Policy = POLICY, base: list[Side] | None = None) -> dict[str, Change]:
    compared = compare_sides(base or boots(WAVER), head, policy)
    return {one.metric: one.change for one in compared if one.gating}


def _only(change: Change) -> set[Change]:
    return {change}


def test_equal_sides_are_the_same() -> None:
    assert set(_changes(boots(OTHER)).values()) == _only(Change.SAME)


def test_ten_percent_slower_is_regressed_in_every_metric_whatever_its_direction() -> None:
    assert set(_changes(boots(OTHER, slower=1.1)).values()) == _only(Change.REGRESSED)


def test_ten_percent_faster_is_improved_in_every_metric() -> None:
    assert set(_changes(boots(OTHER, slower=1 / 1.1)).values()) == _only(Change.IMPROVED)


def test_only_the_metric_that_moved_is_named() -> None:
    head = [side(200 * factor, tpot_ms=22 * factor, throughput=400 / factor) for factor in OTHER]
    changes = _changes(head)
    assert [name for name, change in changes.items() if change is Change.REGRESSED] == ["tpot_p50"]


def test_a_change_within_the_allowed_one_is_the_same_even_when_it_is_certain() -> None:
    assert set(_changes(boots(OTHER, slower=1.02)).values()) == _only(Change.SAME)


def test_the_users_own_allowance_decides_by_metric() -> None:
    policy = Policy(allowed_by_metric={"ttft_p50": 0.2})
    changes = _changes(boots(OTHER, slower=1.1), policy)
    assert (changes["ttft_p50"], changes["ttft_p95"]) == (Change.SAME, Change.REGRESSED)


def test_noisy_pairs_are_inconclusive_and_say_how_many_are_missing() -> None:
    # Mean 0.0639, s 0.0565: with six pairs 0.0639 - t(0.98, 5) s / sqrt(6) = 0.0639 - 2.757 x 0.0231 > 0.
    base = boots((1.0, 1.05, 0.96, 1.03, 0.98))
    head = boots((1.08, 1.02, 1.08, 1.09, 1.08))
    compared = compare_metric("ttft_p50", base, head, POLICY)
    assert compared.change is Change.INCONCLUSIVE
    assert compared.missing_pairs == 1


def test_a_decided_metric_misses_no_pairs() -> None:
    assert compare_metric("ttft_p50", boots(WAVER), boots(OTHER, 1.1), POLICY).missing_pairs == 0


def test_ratio_and_interval_are_head_over_base_in_the_metrics_own_direction() -> None:
    slower = compare_metric("output_throughput", boots(WAVER), boots(OTHER, 1.1), POLICY)
    assert slower.ratio == pytest.approx(1 / 1.1, rel=0.005)
    assert slower.low is not None
    assert slower.high is not None
    assert slower.low < 1 / 1.1 < slower.high < 1


def test_interval_of_five_pairs_is_the_paired_t_interval_of_log_ratios() -> None:
    # Log ratios 0.08, 0.09, 0.10, 0.11, 0.12: mean 0.1, s 0.0158114, t(0.975, 4) = 2.77645: -/+ 0.019632.
    head = [side(200 * math.exp(value / 100)) for value in (8, 9, 10, 11, 12)]
    compared = compare_metric("ttft_p50", [side(200)] * 5, head, POLICY)
    assert compared.ratio == pytest.approx(math.exp(0.1))
    assert compared.low == pytest.approx(math.exp(0.1 - 0.019632), rel=1e-5)
    assert compared.high == pytest.approx(math.exp(0.1 + 0.019632), rel=1e-5)


def test_base_and_head_are_geometric_means_over_boots() -> None:
    compared = compare_metric("ttft_p50", [side(100), side(400)], [side(100), side(100)], POLICY)
    assert compared.base == pytest.approx(200.0)
    assert compared.head == pytest.approx(100.0)


def test_prompts_are_compared_one_by_one_where_both_sides_know_them() -> None:
    # The medians are equal (the slow half got slower); prompt by prompt 4 of 9 are 20 % slower.
    base = {str(n): 100.0 + n for n in range(9)}
    head = {str(n): (100.0 + n) * 1.1 for n in range(9)}
    compared = compare_metric("ttft_p50", [prompts(base)], [prompts(head)], POLICY)
    assert compared.how == "prompt by prompt"
    assert compared.ratio == pytest.approx(1.1)


def test_a_prompt_in_one_side_only_has_no_ratio() -> None:
    base = {str(n): 100.0 for n in range(9)}
    head = {**{str(n): 100.0 for n in range(8)}, "new": 9000.0}
    assert compare_metric("ttft_p50", [prompts(base)], [prompts(head)], POLICY).ratio == pytest.approx(1.0)


def test_a_tail_is_compared_by_its_value() -> None:
    assert compare_metric("ttft_p95", boots(WAVER), boots(OTHER), POLICY).how == "value by value"


def test_a_tail_is_allowed_twice_what_was_asked() -> None:
    changes = _changes([side(200 * factor * 1.05) for factor in OTHER])
    assert (changes["ttft_p50"], changes["ttft_p95"]) == (Change.REGRESSED, Change.SAME)
    tail = compare_metric("ttft_p95", boots(WAVER), boots(OTHER), POLICY)
    assert (tail.allowed, tail.allowed_by) == (0.06, "asked x 2 for a tail")


def test_an_allowance_for_a_tail_itself_is_taken_as_it_stands() -> None:
    policy = Policy(allowed_by_metric={"ttft_p95": 0.04})
    assert compare_metric("ttft_p95", boots(WAVER), boots(OTHER), policy).allowed == 0.04


def test_a_change_under_two_milliseconds_is_nobodys_regression() -> None:
    base, head = ([side(ttft * factor) for factor in WAVER] for ttft in (10.0, 11.5))
    compared = compare_metric("ttft_p50", base, head, POLICY)
    assert compared.change is not Change.REGRESSED
    assert compared.allowed == pytest.approx(2 / 10.004, rel=1e-3)
    assert compared.allowed_by == "2 ms"


def test_a_learnt_floor_above_the_asked_change_is_what_is_allowed() -> None:
    noisy = NoiseFloor(log_ratios=(0.2, -0.2) * 5)
    compared = compare_metric("ttft_p50", boots(WAVER), boots(OTHER, 1.1), Policy(floors={"ttft_p50": noisy}))
    assert compared.change is Change.INCONCLUSIVE
    assert compared.allowed_by == "noise floor"
    assert compared.floor == pytest.approx(math.expm1(1.96 * 0.2 / math.sqrt(5)))


def test_a_floor_of_three_pairs_is_not_learnt_yet() -> None:
    few = Policy(floors={"ttft_p50": NoiseFloor(log_ratios=(0.2, -0.2, 0.2))})
    compared = compare_metric("ttft_p50", boots(WAVER), boots(OTHER, 1.1), few)
    assert (compared.change, compared.floor) == (Change.REGRESSED, None)


def test_one_wild_pair_does_not_make_a_regression() -> None:
    assert set(_changes(boots((1.0, 1.0, 1.0, 1.0, 2.0))).values()) == _only(Change.INCONCLUSIVE)


def test_pairs_that_disagree_on_the_direction_are_not_believed() -> None:
    # Against a learnt 3 % the mean of +6.7 % is significant, but one of four pairs points the other way:
    # 2 of 16 sign patterns reach it, p = 0.125.
    learnt = Policy(floors={"ttft_p50": NoiseFloor(log_ratios=(0.03, -0.03) * 6)})
    head = [side(200 * math.exp(value)) for value in (0.09, 0.09, 0.09, -0.003)]
    compared = compare_metric("ttft_p50", [side(200)] * 4, head, learnt)
    assert compared.change is Change.INCONCLUSIVE
    assert "do not agree on the direction (permutation test p = 0.12)" in compared.reason


@pytest.mark.parametrize("which", ["base", "head"])
def test_an_invalid_side_is_inconclusive_with_its_reason(which: str) -> None:
    good, bad = boots(WAVER), [*boots(WAVER[1:]), side(reasons=(THROTTLED,))]
    compared = compare_sides(*((bad, good) if which == "base" else (good, bad)), POLICY)
    assert {one.change for one in compared} == _only(Change.INCONCLUSIVE)
    assert f"{which} is not valid: GPU: GPU 0 was throttled" in compared[0].reason


def test_different_work_is_inconclusive_however_fast() -> None:
    head = [replace(one, work=replace(WORK, output_tokens=60)) for one in boots(OTHER, 1.5)]
    compared = compare_sides(boots(WAVER), head, POLICY)
    assert {one.change for one in compared} == _only(Change.INCONCLUSIVE)
    assert "different work: output tokens: 64.0 output tokens a request -> 60.0" in compared[0].reason


def test_work_that_is_meant_to_differ_is_told_but_compared() -> None:
    base = [replace(one, work=replace(WORK, hit_rate=0.9)) for one in boots(WAVER)]
    head = [replace(one, work=replace(WORK, hit_rate=0.0)) for one in boots(OTHER, 1.5)]
    policy = Policy(expected_differences=frozenset({WorkKind.CACHE_HITS}))
    compared = compare_metric("ttft_p50", base, head, policy)
    assert compared.change is Change.REGRESSED
    assert "prefix cache hit rate 90.0% -> 0.0%" in compared.reason


def test_a_gating_metric_without_value_is_inconclusive_not_left_out() -> None:
    head = [Side(values={"ttft_p50": 200.0}, unavailable={"tpot_p50": "no usage"}, work=WORK)]
    compared = {one.metric: one for one in compare_sides([side()], head, POLICY)}
    assert compared["tpot_p50"].change is Change.INCONCLUSIVE
    assert compared["tpot_p50"].reason == "head has no usable tpot_p50: no usage"


def test_an_infinite_value_is_no_value_to_compare() -> None:
    compared = compare_metric("ttft_p95", [side()], [side(math.inf)], POLICY)
    assert compared.change is Change.INCONCLUSIVE
    assert "its value is inf" in compared.reason


def test_a_metric_that_does_not_gate_is_compared_but_never_overall() -> None:
    base = [replace(one, values={**one.values, "ttft_p99": 300.0}) for one in boots(WAVER)]
    head = [replace(one, values={**one.values, "ttft_p99": 600.0}) for one in boots(OTHER)]
    compared = compare_sides(base, head, POLICY)
    assert {one.metric for one in compared if one.change is Change.REGRESSED} == {"ttft_p99"}
    assert overall(compared) is Change.SAME


def test_unequal_numbers_of_boots_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 1"):
        compare_sides([side(), side()], [side()], POLICY)


def test_no_boots_are_refused() -> None:
    with pytest.raises(ValueError, match="got 0 and 0"):
        compare_sides([], [], POLICY)


def _of(*changes: Change) -> list[Comparison]:
    (one,) = [c for c in compare_sides([side()], [side()], POLICY) if c.metric == "ttft_p50"]
    return [replace(one, change=change) for change in changes]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ((Change.SAME, Change.REGRESSED, Change.INCONCLUSIVE), Change.REGRESSED),
        ((Change.SAME, Change.IMPROVED, Change.INCONCLUSIVE), Change.INCONCLUSIVE),
        ((Change.SAME, Change.IMPROVED), Change.IMPROVED),
        ((Change.SAME, Change.SAME), Change.SAME),
        ((), Change.INCONCLUSIVE),
    ],
)
def test_overall_is_the_worst_gating_verdict(changes: tuple[Change, ...], expected: Change) -> None:
    assert overall(_of(*changes)) is expected


def test_boots_of_one_engine_teach_its_noise_two_by_two() -> None:
    ratios = aa_log_ratios([side(100), side(110), side(100), side(90), side(500)])
    assert ratios["ttft_p50"] == pytest.approx([math.log(1.1), math.log(0.9)])


def test_an_invalid_boot_teaches_nothing() -> None:
    ratios = aa_log_ratios([side(100), side(900, reasons=(THROTTLED,)), side(110)])
    assert ratios["ttft_p50"] == pytest.approx([math.log(1.1)])


def test_the_reason_reads_as_one_sentence_with_all_numbers() -> None:
    base, head = [side(120.3)] * 3, [side(132.4), side(132.5), side(132.3)]
    compared = compare_metric("ttft_p50", base, head, POLICY)
    assert compared.reason == (
        "ttft_p50 120.3 -> 132.4 ms: +10.1 % (95 % interval +9.9 % to +10.3 %), allowed 3.0 % (asked),"
        " noise floor not learnt yet, 3 pairs compared value by value: worse, and by more than allowed"
    )
