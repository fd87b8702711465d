# SPDX-License-Identifier: Apache-2.0
"""The gate's logic, pair by pair."""

import numpy as np
import pytest

from tests.unit.verdict.making import THROTTLED, boots, side
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.sequential import GatePlan, Next, Pair, decide_gate, order_of_pair
from vllm_perf.verdict.side import Side
from vllm_perf.verdict.types import Change

PLAN = GatePlan(min_pairs=3, max_pairs=5)
POLICY = Policy()
BASE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.001)
HEAD = (1.001, 0.998, 1.003, 1.0, 0.997, 1.002)
SPOILT: Pair = (side(), side(reasons=(THROTTLED,)))


def _pairs(count: int, slower: float = 1.0) -> list[Pair]:
    return list(zip(boots(BASE[:count]), boots(HEAD[:count], slower), strict=True))


def test_boots_go_a_b_b_a() -> None:
    order = [name for index in range(4) for name in order_of_pair(index)]
    assert order == ["base", "head", "head", "base", "base", "head", "head", "base"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_pairs_want_another(count: int) -> None:
    decision = decide_gate(_pairs(count, 2.0), PLAN, POLICY)
    assert (decision.next, decision.missing_pairs) == (Next.MEASURE, 3 - count)


def test_equal_sides_stop_as_soon_as_they_are_the_same() -> None:
    decision = decide_gate(_pairs(3), GatePlan(min_pairs=3, max_pairs=3), POLICY)
    assert (decision.next, decision.change) == (Next.STOP, Change.SAME)


def test_an_undecided_gate_goes_on_until_its_last_pair() -> None:
    loose = list(zip(boots((1.0, 1.05, 0.96, 1.03, 0.98)), boots((1.04, 0.97, 1.06, 1.05, 1.0)), strict=True))
    assert decide_gate(loose[:4], PLAN, POLICY).next is Next.MEASURE
    last = decide_gate(loose, PLAN, POLICY)
    assert (last.next, last.change) == (Next.STOP, Change.INCONCLUSIVE)


def test_a_flag_is_confirmed_by_a_fresh_pair_before_it_turns_red() -> None:
    flagged = decide_gate(_pairs(3, 1.2), PLAN, POLICY)
    assert flagged.next is Next.CONFIRM
    assert set(flagged.flagged) == {"ttft_p50", "ttft_p95", "tpot_p50", "output_throughput"}
    confirmed = decide_gate(_pairs(4, 1.2), PLAN, POLICY)
    assert (confirmed.next, confirmed.change, confirmed.pairs) == (Next.STOP, Change.REGRESSED, 4)


def test_a_fresh_pair_that_points_the_other_way_takes_the_flag_back() -> None:
    decision = decide_gate([*_pairs(3, 1.2), (side(240), side(200))], PLAN, POLICY)
    assert (decision.next, decision.change) == (Next.MEASURE, Change.INCONCLUSIVE)
    ttft = next(one for one in decision.comparisons if one.metric == "ttft_p50")
    assert ttft.change is Change.INCONCLUSIVE


def test_a_flag_on_the_last_pair_may_still_be_confirmed_by_one_more() -> None:
    plan = GatePlan(min_pairs=3, max_pairs=3)
    assert decide_gate(_pairs(3, 1.2), plan, POLICY).next is Next.CONFIRM
    assert decide_gate(_pairs(4, 1.2), plan, POLICY).change is Change.REGRESSED


def test_a_flag_on_the_last_pair_that_is_not_confirmed_ends_inconclusive() -> None:
    plan = GatePlan(min_pairs=3, max_pairs=3)
    decision = decide_gate([*_pairs(3, 1.2), (side(240), side(200))], plan, POLICY)
    assert (decision.next, decision.change) == (Next.STOP, Change.INCONCLUSIVE)
    ttft = next(one for one in decision.comparisons if one.metric == "ttft_p50")
    assert ttft.change is Change.INCONCLUSIVE


def test_better_in_everything_stops_improved_without_confirming() -> None:
    decision = decide_gate(_pairs(3, 1 / 1.3), PLAN, POLICY)
    assert (decision.next, decision.change) == (Next.STOP, Change.IMPROVED)


def test_a_resumed_gate_decides_as_one_that_was_never_stopped() -> None:
    # Pairs beyond the confirming one change nothing: the looks are replayed in order.
    assert decide_gate(_pairs(6, 1.2), PLAN, POLICY).comparisons == (
        decide_gate(_pairs(4, 1.2), PLAN, POLICY).comparisons
    )


def test_a_spoilt_pair_is_not_counted() -> None:
    decision = decide_gate([*_pairs(2), SPOILT], PLAN, POLICY)
    assert (decision.next, decision.pairs, decision.spoiled) == (Next.MEASURE, 2, 1)


def test_too_many_spoilt_pairs_end_inconclusive_with_the_reason() -> None:
    decision = decide_gate([*_pairs(2), *[SPOILT] * 4], PLAN, POLICY)
    assert (decision.next, decision.change) == (Next.STOP, Change.INCONCLUSIVE)
    assert "4 pairs were not valid; the last: GPU: GPU 0 was throttled" in decision.reason


def test_spoilt_pairs_do_not_undo_a_verdict() -> None:
    decision = decide_gate([*_pairs(4, 1.2), *[SPOILT] * 4], PLAN, POLICY)
    assert decision.change is Change.REGRESSED


def test_the_looks_together_spend_everything_and_no_more() -> None:
    plan = GatePlan(min_pairs=3, max_pairs=8)
    shares = [plan.share(pairs) for pairs in range(3, 9)]
    assert shares[0] == 9 / 64
    assert sum(shares) == pytest.approx(1.0)


def test_a_single_look_spends_everything() -> None:
    assert GatePlan(min_pairs=5, max_pairs=5).share(5) == 1.0


@pytest.mark.parametrize(("least", "most"), [(1, 5), (4, 3)])
def test_a_plan_that_cannot_be_followed_is_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match="min_pairs"):
        GatePlan(min_pairs=least, max_pairs=most)


def test_an_early_look_asks_for_more_than_a_last_one() -> None:
    last, early = GatePlan(min_pairs=3, max_pairs=3), GatePlan(min_pairs=3, max_pairs=8)
    assert decide_gate(_pairs(3, 1.05), last, POLICY).flagged
    assert not decide_gate(_pairs(3, 1.05), early, POLICY).flagged


def test_looking_after_every_pair_does_not_raise_more_false_alarms_than_allowed() -> None:
    # 300 gates of an engine against itself, boots 2 % apart, up to 8 pairs and one to confirm. Without the
    # spending (every look at the full level, no fresh pair) 11 of these gates turn red.
    rng = np.random.default_rng(7)
    plan = GatePlan(min_pairs=3, max_pairs=8)
    alarms = 0
    for _ in range(300):
        pairs = list(zip(_noisy(rng), _noisy(rng), strict=True))
        alarms += decide_gate(pairs, plan, Policy(allowed=0.0001)).change is Change.REGRESSED
    assert alarms <= 6


def test_a_ten_percent_slowdown_is_found_in_nearly_every_gate() -> None:
    rng = np.random.default_rng(8)
    plan = GatePlan(min_pairs=3, max_pairs=8)
    found = 0
    for _ in range(100):
        pairs = list(zip(_noisy(rng), _noisy(rng, 1.1), strict=True))
        found += decide_gate(pairs, plan, POLICY).change is Change.REGRESSED
    assert found >= 95


def _noisy(rng: np.random.Generator, slower: float = 1.0) -> list[Side]:
    return boots(np.exp(rng.normal(0, 0.02, 9)).tolist(), slower)
