# SPDX-License-Identifier: Apache-2.0
"""The one percentile function, by numbers computed by hand."""

import math

import pytest

from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.percentiles import (
    mean,
    needed_requests,
    percentile,
    percentile_interval,
    percentile_of_name,
)


@pytest.mark.parametrize(
    ("quantile", "expected"), [(0.0, 10.0), (0.5, 25.0), (0.75, 32.5), (0.95, 38.5), (1.0, 40.0)]
)
def test_percentile_interpolates_linearly_between_neighbours(quantile: float, expected: float) -> None:
    assert percentile([40.0, 10.0, 30.0, 20.0], quantile) == pytest.approx(expected)


def test_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 0.99) == 7.0


def test_percentile_that_touches_a_failed_request_is_infinite() -> None:
    assert percentile([1.0, 2.0, 3.0, math.inf], 0.9) == math.inf


def test_percentile_below_the_failed_requests_stays_finite() -> None:
    assert percentile([1.0, 2.0, math.inf], 0.5) == 2.0


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(MetricUnavailable, match="no values"):
        percentile([], 0.5)


def test_percentile_of_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not numbers"):
        percentile([1.0, math.nan], 0.5)


@pytest.mark.parametrize("quantile", [-0.1, 50.0])
def test_percentile_takes_a_share_not_a_percentage(quantile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        percentile([1.0], quantile)


@pytest.mark.parametrize(("quantile", "needed"), [(0.5, 7), (0.9, 44), (0.95, 90), (0.99, 459)])
def test_a_percentile_needs_this_many_requests(quantile: float, needed: int) -> None:
    assert needed_requests(quantile) == needed


def test_interval_of_the_median_of_ten_is_the_second_to_the_ninth() -> None:
    # P(Binomial(10, 1/2) <= 1) = 11/1024 = 0.0107 < 0.025 <= P(<= 2) = 56/1024: the 2nd and the 9th.
    assert percentile_interval([float(value) for value in range(1, 11)], 0.5) == (2.0, 9.0)


def test_interval_of_p99_of_twenty_has_no_upper_end() -> None:
    low, high = percentile_interval([float(value) for value in range(1, 21)], 0.99)
    assert (low, high) == (19.0, None)


def test_mean_leaves_failed_requests_to_the_failed_share() -> None:
    assert mean([1.0, 3.0, math.inf]) == 2.0


def test_mean_of_only_failed_requests_is_refused() -> None:
    with pytest.raises(MetricUnavailable):
        mean([math.inf])


@pytest.mark.parametrize(
    ("name", "quantile"), [("ttft_p95", 0.95), ("itl_p50", 0.5), ("ttft_mean", None), ("goodput", None)]
)
def test_quantile_is_read_from_the_metric_name(name: str, quantile: float | None) -> None:
    assert percentile_of_name(name) == quantile
