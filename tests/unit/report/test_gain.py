# SPDX-License-Identifier: Apache-2.0
"""A gain above 1 is better, whichever way the metric counts, and its interval holds both sides' doubt."""

import math

import pytest

from tests.unit.history.builders import series
from vllm_perf.history.record import Series, SeriesStatus
from vllm_perf.report.gain import Gain, gain


def rate(value: float | None, low: float | None = None, high: float | None = None) -> Series:
    return series(
        metric="output_throughput", unit="tokens/s", direction="higher", value=value, low=low, high=high
    )


def test_more_tokens_a_second_are_a_gain() -> None:
    assert gain(rate(160.0), rate(40.0)) == Gain(value=4.0)


def test_less_time_is_a_gain() -> None:
    assert gain(series(value=250.0), series(value=1000.0)) == Gain(value=4.0)


def test_the_interval_joins_both_sides_and_the_boots() -> None:
    found = gain(rate(160.0, 152.0, 168.0), rate(40.0, 36.0, 44.0))
    assert found is not None
    # up: the head's upper end, the base's lower one, and 1.96 sqrt(2) 3 % for two boots
    up = math.sqrt(math.log(168 / 160) ** 2 + math.log(40 / 36) ** 2 + (1.96 * math.sqrt(2) * 0.03) ** 2)
    down = math.sqrt(math.log(160 / 152) ** 2 + math.log(44 / 40) ** 2 + (1.96 * math.sqrt(2) * 0.03) ** 2)
    assert found.high == pytest.approx(4.0 * math.exp(up))
    assert found.low == pytest.approx(4.0 * math.exp(-down))


@pytest.mark.parametrize("end", [None, math.inf, 0.0])
def test_without_an_end_there_is_no_interval(end: float | None) -> None:
    assert gain(rate(160.0, 152.0, end), rate(40.0, 36.0, 44.0)) == Gain(value=4.0)


@pytest.mark.parametrize("other", [None, math.inf, 0.0])
def test_without_two_positive_values_there_is_no_gain(other: float | None) -> None:
    bad = series(value=other, status=SeriesStatus.FAILED)
    assert gain(series(value=250.0), bad) is None
    assert gain(bad, series(value=250.0)) is None
    assert gain(None, series()) is None
