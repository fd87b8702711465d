# SPDX-License-Identifier: Apache-2.0
"""What A/A pairs teach."""

import math

import pytest

from vllm_perf.verdict.noise import KEPT, MAX_WEIGHT, NoiseBook, NoiseFloor


def test_sigma_is_the_root_mean_square_around_zero() -> None:
    assert NoiseFloor(log_ratios=(0.03, -0.04, 0.03, -0.04)).sigma == pytest.approx(
        math.sqrt((9 + 16) / 2) / 100
    )


def test_one_stalled_pair_does_not_set_the_floor() -> None:
    # Median 0.01, 3 x 1.4826 x 0.01 = 0.0445 is what the stalled pair counts for.
    floor = NoiseFloor(log_ratios=(0.01, -0.01, 0.01, -0.01, 2.0))
    assert floor.sigma == pytest.approx(math.sqrt((4 * 0.01**2 + 0.044478**2) / 5), rel=1e-4)


def test_identical_boots_have_a_floor_of_nothing() -> None:
    assert NoiseFloor(log_ratios=(0.0, 0.0, 0.0)).sigma == 0.0


def test_the_floor_of_more_pairs_is_lower() -> None:
    floor = NoiseFloor(log_ratios=(0.02, -0.02))
    assert floor.share(1) == pytest.approx(math.expm1(1.96 * 0.02))
    assert floor.share(4) == pytest.approx(math.expm1(1.96 * 0.01))


def test_a_short_quiet_past_is_believed_by_halves() -> None:
    # 6 learnt pairs against what counts as 6 of steady boots (2 %): the mean of their variances.
    floor = NoiseFloor(log_ratios=(0.01, -0.01) * 3)
    assert floor.cautious_sigma == pytest.approx(math.sqrt((0.01**2 + 2 * 0.02**2) / 2))


def test_a_noisy_past_is_believed_at_once() -> None:
    assert NoiseFloor(log_ratios=(0.08, -0.08) * 2).cautious_sigma == pytest.approx(0.08)


def test_a_floor_of_nothing_learnt_is_refused() -> None:
    with pytest.raises(ValueError, match="no A/A pairs"):
        _ = NoiseFloor(log_ratios=()).sigma


def test_a_long_past_weighs_no_more_than_its_limit() -> None:
    assert NoiseFloor(log_ratios=(0.01,) * 50).weight == MAX_WEIGHT
    assert NoiseFloor(log_ratios=(0.01,) * 5).weight == 5


def test_the_oldest_pairs_are_forgotten() -> None:
    floor = NoiseFloor(log_ratios=(0.5,)).with_pairs([0.01] * KEPT)
    assert floor.log_ratios == (0.01,) * KEPT


def test_a_ratio_that_is_no_number_teaches_nothing() -> None:
    assert NoiseFloor(log_ratios=()).with_pairs([math.inf, math.nan, 0.01]).log_ratios == (0.01,)


def test_floors_are_kept_apart_by_hardware_workload_and_metric() -> None:
    book = NoiseBook().learn("h200", "chat", {"ttft_p50": [0.01]})
    book = book.learn("h200", "chat", {"ttft_p50": [0.02]}).learn("cpu", "chat", {"ttft_p50": [0.9]})
    assert book.of("h200", "chat")["ttft_p50"].log_ratios == (0.01, 0.02)
    assert book.of("h200", "unique") == {}


def test_a_book_survives_its_file() -> None:
    book = NoiseBook().learn("h200", "chat", {"ttft_p50": [0.01, -0.02], "tpot_p50": [0.001]})
    assert NoiseBook.from_json(book.to_json()) == book
