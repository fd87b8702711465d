# SPDX-License-Identifier: Apache-2.0
"""Where a series changed, and whether it crept away."""

import numpy as np
import pytest

from vllm_perf.verdict.changepoints import drift_from_anchor, find, noise_of


def _series(count: int, seed: int, noise: float = 0.02) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(value) for value in 200 * np.exp(rng.normal(0, noise, count))]


def _shifted(values: list[float], at: int, by: float) -> list[float]:
    return [*values[:at], *[value * by for value in values[at:]]]


def test_a_level_shift_is_found_where_it_happened_and_as_large_as_it_was() -> None:
    (point,) = find(_shifted(_series(40, 1), 25, 1.1))
    assert abs(point.index - 25) <= 1
    assert point.ratio == pytest.approx(1.1, abs=0.02)


def test_two_shifts_are_two_points_oldest_first() -> None:
    points = find(_shifted(_shifted(_series(60, 2), 20, 1.15), 40, 1 / 1.15))
    assert [round(point.index, -1) for point in points] == [20, 40]


def test_shifts_are_found_and_noise_is_not() -> None:
    hits = sum(
        any(abs(point.index - 20) <= 2 for point in find(_shifted(_series(40, seed), 20, 1.08)))
        for seed in range(60)
    )
    spurious = sum(bool(find(_series(40, 1000 + seed))) for seed in range(60))
    assert hits >= 58
    assert spurious <= 1


def test_one_outlier_is_no_change() -> None:
    values = _series(40, 3)
    values[20] *= 1.5
    assert find(values) == ()


def test_a_constant_series_has_no_change_and_no_division_by_zero() -> None:
    assert find([200.0] * 30) == ()


def test_a_tiny_wobble_of_a_silent_series_is_no_change() -> None:
    assert find([200.0] * 15 + [200.1] * 15) == ()


def test_a_series_too_short_to_have_two_levels_has_none() -> None:
    assert find([100.0, 200.0, 200.0, 200.0, 200.0]) == ()


def test_only_the_latest_points_are_searched_but_indices_are_those_of_the_whole() -> None:
    (point,) = find(_shifted(_series(400, 4), 380, 1.2))
    assert abs(point.index - 380) <= 1


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_without_logarithm_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="positive, finite"):
        find([1.0, bad])


def test_noise_is_taken_from_differences_so_that_a_shift_is_not_noise() -> None:
    logs = np.log(_shifted(_series(200, 5), 100, 2.0))
    assert noise_of(logs) == pytest.approx(0.02, rel=0.25)


def test_a_slow_slide_is_beyond_the_anchor_although_no_step_is() -> None:
    slide = [200 * 1.002**n for n in range(40)]
    drift = drift_from_anchor(slide, anchor=200.0, allowed=0.03)
    # The last five are at 35 to 39 steps, their median at 37: 1.002^37 = 1.0767.
    assert drift.ratio == pytest.approx(1.0767, abs=1e-4)
    assert drift.beyond


def test_a_series_at_its_anchor_has_not_drifted() -> None:
    drift = drift_from_anchor(_series(40, 6), anchor=200.0, allowed=0.03)
    assert drift.low < 1.0 < drift.high
    assert not drift.beyond


def test_drift_within_its_noise_is_not_beyond() -> None:
    noisy = [value * 1.05 for value in _series(40, 7, noise=0.06)]
    assert not drift_from_anchor(noisy, anchor=200.0, allowed=0.03).beyond


def test_no_points_cannot_drift() -> None:
    with pytest.raises(ValueError, match="no point"):
        drift_from_anchor([], anchor=200.0, allowed=0.03)
