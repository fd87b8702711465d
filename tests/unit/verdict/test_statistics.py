# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of comparing, by hand."""

import math

import numpy as np
import pytest

from vllm_perf.metrics.percentiles import percentile
from vllm_perf.verdict import statistics as stats
from vllm_perf.verdict.statistics import Prior


def test_prompts_are_paired_by_name_not_by_place() -> None:
    base = {str(n): 100.0 for n in range(8)}
    head = {str(n): 100.0 * (n + 1) for n in reversed(range(8))}
    ratios = stats.prompt_log_ratios(base, head)
    assert ratios is not None
    assert np.exp(ratios).tolist() == pytest.approx([1, 2, 3, 4, 5, 6, 7, 8])


def test_fewer_than_eight_common_prompts_are_no_pairing() -> None:
    base = {str(n): 100.0 for n in range(10)}
    head = {str(n): 100.0 for n in range(3, 13)}
    assert stats.prompt_log_ratios(base, head) is None


def test_the_typical_ratio_leaves_the_outer_tenths_out() -> None:
    assert stats.typical(np.array([-100.0, *[1.0] * 4, *[2.0] * 4, 100.0])) == 1.5


def test_error_within_a_pair_is_that_of_its_batches() -> None:
    # 16 log ratios in 4 batches of 4 with means 0, 2, 0, 2: s = 1.1547, over sqrt(4).
    head = np.exp(np.repeat([0.0, 2.0, 0.0, 2.0], 4))
    assert stats.batch_error(np.ones(16), head) == pytest.approx(1.1547 / 2, rel=1e-4)


def test_batches_are_no_smaller_than_what_is_always_under_way() -> None:
    # The same ratios in batches of 8 differ by nothing, and 32 at once of 64 are too few batches.
    head = np.exp(np.tile(np.repeat([0.0, 2.0], 4), 8))
    assert stats.batch_error(np.ones(64), head, 8) == pytest.approx(0.0, abs=1e-12)
    assert stats.batch_error(np.ones(64), head, 32) is None
    assert stats.resampled_error(np.ones(64), head, 0.95, 32) is None


def test_error_within_a_pair_needs_four_batches() -> None:
    assert stats.batch_error(np.ones(15), np.ones(15)) is None
    assert stats.resampled_error(np.ones(15), np.ones(15), 0.95) is None


def test_what_prompts_themselves_differ_by_is_no_error_of_a_tail() -> None:
    base = np.linspace(100.0, 900.0, 200)
    assert stats.resampled_error(base, 1.1 * base, 0.95) == pytest.approx(0.0, abs=1e-12)
    assert stats.resampled_error(base, 1.1 * base, None) == pytest.approx(0.0, abs=1e-12)


def test_error_of_a_tail_is_about_what_repeating_the_pair_shows() -> None:
    rng = np.random.default_rng(4)
    prompts = 100 * np.exp(rng.normal(0, 0.3, 400))

    def boot() -> stats.Floats:
        times: stats.Floats = prompts * np.exp(rng.normal(0, 0.1, 400))
        return times

    def tail() -> float:
        return float(np.percentile(boot(), 95))

    repeated = [math.log(tail() / tail()) for _ in range(200)]
    errors = [stats.resampled_error(boot(), boot(), 0.95) or 0.0 for _ in range(5)]
    assert np.mean(errors) == pytest.approx(np.std(repeated), rel=0.4)


@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.95, None])
@pytest.mark.parametrize("count", [16, 18, 103])
def test_resamples_that_are_only_counted_are_those_written_out(count: int, quantile: float | None) -> None:
    rng = np.random.default_rng(5)
    base, head = (np.exp(rng.normal(0, 0.3, count)) for _ in range(2))
    batches = np.array_split(np.arange(count), count // stats.MIN_BATCH)
    draws = np.random.default_rng(count).integers(0, len(batches), size=(stats.RESAMPLES, len(batches)))
    ratios = []
    for draw in draws:
        chosen = np.concatenate([batches[index] for index in draw])
        before, after = (
            float(side[chosen].mean()) if quantile is None else percentile(side[chosen], quantile)
            for side in (base, head)
        )
        ratios.append(math.log(after / before))
    expected = float(np.std(ratios, ddof=1))
    assert stats.resampled_error(base, head, quantile) == pytest.approx(expected, rel=1e-12)


def test_hodges_lehmann_is_the_median_of_pairwise_means() -> None:
    # Of 1, 2, 10: means 1, 1.5, 5.5, 2, 6, 10: the median is (2 + 5.5) / 2.
    assert stats.hodges_lehmann([1.0, 2.0, 10.0]) == 3.75


def test_hodges_lehmann_shrugs_off_one_wild_pair() -> None:
    assert stats.hodges_lehmann([1.0, 1.0, 1.0, 1.0, 99.0]) == 1.0


@pytest.mark.parametrize(
    ("values", "up", "down"),
    [
        ([1.0, 1.0, 1.0, 1.0, 1.0], 1 / 32, 1.0),
        ([1.0, 2.0, 3.0, -4.0], 7 / 16, 11 / 16),
        ([-1.0, -2.0], 1.0, 1 / 4),
    ],
)
def test_sign_flips_count_the_patterns_at_least_as_extreme(
    values: list[float], up: float, down: float
) -> None:
    # +1 +2 +3 -4 has the mean 2/4; 7 of the 16 sign patterns sum to 2 or more, 11 to 2 or less.
    assert stats.sign_flip_p(values) == pytest.approx((up, down))


def test_many_pairs_are_flipped_at_random_but_always_the_same_way() -> None:
    values = np.random.default_rng(3).normal(0.2, 1.0, 20)
    assert stats.sign_flip_p(values) == stats.sign_flip_p(values)


def test_own_noise_alone_is_the_sample_deviation() -> None:
    sigma, df = stats.pooled_sigma(np.array([1.0, 2.0, 3.0]), None)
    assert (sigma, df) == (1.0, 2.0)


def test_own_and_learnt_noise_are_pooled_by_their_degrees_of_freedom() -> None:
    # (10 x 2^2 + 2 x 1^2) / 12 = 3.5
    sigma, df = stats.pooled_sigma(np.array([1.0, 2.0, 3.0]), Prior(sigma=2.0, df=10.0))
    assert (sigma, df) == pytest.approx((math.sqrt(3.5), 12.0))


def test_a_noisier_day_than_ever_learnt_stands_alone() -> None:
    # F(2, 10) at 95 % is 4.10: a variance of 1 against a learnt 0.24 is more than that.
    sigma, df = stats.pooled_sigma(np.array([1.0, 2.0, 3.0]), Prior(sigma=math.sqrt(0.24), df=10.0))
    assert (sigma, df) == (1.0, 2.0)


def test_an_assumed_noise_is_a_lower_bound() -> None:
    assumed = Prior(sigma=0.5, df=math.inf)
    assert stats.pooled_sigma(np.array([1.0]), assumed) == (0.5, math.inf)
    assert stats.pooled_sigma(np.array([1.0, 3.0]), assumed) == pytest.approx((math.sqrt(2), math.inf))


def test_one_pair_without_any_prior_is_refused() -> None:
    with pytest.raises(ValueError, match="own noise"):
        stats.estimate([0.1], None)


def test_no_pair_is_refused() -> None:
    with pytest.raises(ValueError, match="no pair"):
        stats.estimate([], None)


def test_interval_of_four_pairs_is_the_paired_t_interval() -> None:
    # Mean 2.5, s = 1.29099, t(0.975, 3) = 3.18245: 2.5 -/+ 2.05424.
    bounds = stats.estimate([1.0, 2.0, 3.0, 4.0], None).bound(0.025)
    assert bounds == pytest.approx((0.44576, 4.55424), abs=1e-4)


def test_p_value_is_one_sided_and_about_the_margin() -> None:
    estimate = stats.estimate([1.0, 2.0, 3.0, 4.0], None)
    assert estimate.p_above(2.5) == pytest.approx(0.5)
    assert estimate.p_above(0.44576) == pytest.approx(0.025, abs=1e-5)
    assert estimate.p_below(4.55424) == pytest.approx(0.025, abs=1e-5)


def test_identical_pairs_do_not_divide_by_zero() -> None:
    assert stats.estimate([0.1] * 3, None).p_above(0.0) < 1e-6


def test_holm_tests_the_smallest_strictest_and_stops_at_the_first_failure() -> None:
    levels = stats.holm_levels({"a": 0.004, "b": 0.03, "c": 0.006, "d": 0.0001}, alpha=0.02)
    # d at 0.005, a at 0.02 / 3 = 0.00667, c at 0.01, b at 0.02: fails.
    assert [name for name, (_, rejected) in levels.items() if rejected] == ["d", "a", "c"]
    assert levels["b"] == (0.02, False)


def test_holm_gives_what_comes_after_a_failure_the_level_of_the_failure() -> None:
    levels = stats.holm_levels({"a": 0.006, "b": 0.015}, alpha=0.01)
    assert levels == {"a": (0.005, False), "b": (0.005, False)}
