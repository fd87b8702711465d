# SPDX-License-Identifier: Apache-2.0
"""Every series with a number is one row in seconds, whose Median and OPS columns say what the metric says."""

import math
import statistics
from typing import Any

import pytest
import pytest_benchmark.stats
import pytest_benchmark.utils

from tests.unit.history.builders import record, series
from vllm_perf.history.benchmark_rows import benchmark_rows, row_of, row_samples, without_row
from vllm_perf.history.record import Series, SeriesStatus
from vllm_perf.history.row_stats import row_stats

# The package has no types.
parse_compare_fail: Any = pytest_benchmark.utils.parse_compare_fail
Stats: Any = pytest_benchmark.stats.Stats


def rate(value: float, **more: Any) -> Series:
    return series(metric="output_throughput", unit="tokens/s", direction="higher", value=value, **more)


def test_the_median_column_of_a_p50_row_is_the_runs_p50() -> None:
    one = series(value=200.0, samples=((100.0, 300.0), (200.0,)))
    assert row_samples(one) == (0.1, 0.3, 0.2)
    assert row_stats(row_samples(one))["median"] == 0.2


def test_the_median_column_of_a_p95_row_is_the_p95() -> None:
    one = series(metric="ttft_p95", value=290.0, replicates=(290.0,), samples=((100.0, 200.0, 300.0),))
    assert row_samples(one) == (0.29,)


def test_several_repetitions_of_a_p95_are_its_samples() -> None:
    one = series(metric="ttft_p95", value=290.0, replicates=(280.0, None, 290.0, 310.0))
    assert row_samples(one) == pytest.approx((0.28, 0.29, 0.31))


def test_a_failed_request_does_not_make_a_row_infinite() -> None:
    one = series(value=200.0, replicates=(200.0,), samples=((100.0, 200.0, math.inf),), failed=1)
    assert row_samples(one) == (0.2,)


def test_the_ops_column_of_a_throughput_row_is_tokens_a_second() -> None:
    assert row_stats(row_samples(rate(160.0, replicates=(160.0,))))["ops"] == pytest.approx(160.0)


def test_over_repetitions_the_ops_column_is_all_tokens_over_all_time() -> None:
    # 1,600 tokens each, in 10 s and in 16 s: 3,200 tokens in 26 s
    samples = row_samples(rate(130.0, replicates=(160.0, 100.0)))
    assert row_stats(samples)["ops"] == pytest.approx(3200 / 26)


def test_h73_a_throughput_that_doubles_is_no_regression_and_one_that_halves_is() -> None:
    check = parse_compare_fail("median:5%")
    base, doubled, halved = (row_stats(row_samples(rate(v, replicates=(v,)))) for v in (100.0, 200.0, 50.0))
    assert not check.fails(doubled, base)
    assert check.fails(halved, base)


@pytest.mark.parametrize(
    ("unit", "direction", "value", "sample"),
    [
        ("ms", "lower", 250.0, 0.25),
        ("s", "lower", 31.0, 31.0),
        ("tokens/s", "higher", 160.0, 1 / 160),
        ("ratio", "higher", 3.8, 1 / 3.8),
        ("share", "higher", 0.75, 0.25),
        ("share", "lower", 0.25, 0.25),
        ("requests", "lower", 7.0, 7.0),
    ],
)
def test_every_unit_becomes_seconds_of_which_fewer_are_better(
    unit: str, direction: Any, value: float, sample: float
) -> None:
    assert row_samples(
        series(metric="m", unit=unit, direction=direction, value=value, replicates=(value,))
    ) == (sample,)


@pytest.mark.parametrize(
    ("unit", "direction", "value"), [("requests", "lower", 0.0), ("share", "higher", 1.0)]
)
def test_a_zero_that_stays_is_no_regression(unit: str, direction: Any, value: float) -> None:
    one = series(metric="m", unit=unit, direction=direction, value=value, replicates=(value,))
    stats = row_stats(row_samples(one))
    assert not parse_compare_fail("median:5%").fails(stats, stats)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (series(value=None, status=SeriesStatus.FAILED, reasons=("nobody answered",)), "nobody answered"),
        (series(value=math.inf, replicates=(math.inf,)), "inf ms cannot be written as seconds"),
        (rate(0.0, replicates=(0.0,)), "0 tokens/s cannot be written as seconds"),
    ],
)
def test_a_series_without_a_finite_number_has_no_row_and_a_reason(one: Series, why: str) -> None:
    assert row_of(one) is None
    assert without_row([one]) == [f"{one.key}: {why}"]


def test_every_metric_of_every_engine_and_workload_is_a_row_of_its_own() -> None:
    rows = benchmark_rows(
        record(
            *(series(engine=e, workload=w, metric=m) for e in "ab" for w in "xy" for m in ("ttft_p50", "m"))
        )
    )
    assert len({row["fullname"] for row in rows}) == 8
    assert rows[0]["name"] == "ttft_p50[a-x]"
    assert rows[0]["group"] == "x ttft_p50"


def test_the_row_keeps_the_value_and_how_it_ended() -> None:
    row = row_of(series(status=SeriesStatus.FAILED_BUDGET, reasons=("over 100 ms",), high=math.inf))
    assert row is not None
    info = row["extra_info"]
    assert (info["value"], info["unit"], info["status"], info["high"]) == (200.0, "ms", "failed_budget", None)


@pytest.mark.parametrize("count", range(1, 14))
def test_the_statistics_are_what_pytest_benchmark_means_by_them(count: int) -> None:
    samples = [((7 * n * n + 3 * n) % 31) / 10 + (20 if n == 5 else 0) for n in range(count)]
    theirs = Stats()
    for sample in samples:
        theirs.update(sample)
    assert row_stats(samples) == {**theirs.as_dict(), "iterations": 1} | _close(theirs.as_dict(), samples)


def _close(theirs: dict[str, Any], samples: list[float]) -> dict[str, Any]:
    """Quartiles may differ in the last bit: 0.75 a + 0.25 b is not always ((a + b) / 2 + a) / 2."""
    return {
        name: pytest.approx(theirs[name], rel=1e-12, abs=1e-12)
        for name in ("q1", "q3", "iqr", "ops", "total")
    }


def test_statistics_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        row_stats([])


def test_the_hand_computed_quartiles_of_five() -> None:
    # halves without and with the middle: (1, 2) and (1, 2, 3) have medians 1.5 and 2
    assert row_stats([1.0, 2.0, 3.0, 4.0, 5.0])["q1"] == 1.75
    assert statistics.median([1.0, 2.0, 3.0, 4.0, 5.0]) == row_stats([5.0, 4.0, 3.0, 2.0, 1.0])["median"]
