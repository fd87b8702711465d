# SPDX-License-Identifier: Apache-2.0
"""Over many runs a change of level is found between two commits, and drift is seen from an anchor."""

from dataclasses import replace

import pytest

from tests.unit.history.builders import H200, at, environment, record, series
from vllm_perf.history.entry import RunEntry, entry_of
from vllm_perf.history.environment import Environment
from vllm_perf.history.record import SeriesKey, SeriesStatus
from vllm_perf.history.trend import trends
from vllm_perf.spec.history import HistorySpec

KEY = SeriesKey("initial", "chat", "ttft_p50")
WOBBLE = (0.0, 1.0, -1.0, 0.5, -0.5)


def run(
    number: int, value: float, *, env: Environment | None = None, status: SeriesStatus = SeriesStatus.OK
) -> RunEntry:
    one = record(
        series(value=value, status=status),
        run_id=f"r{number}",
        created=at(number),
        env=env,
        commit=f"{number:040x}",
    )
    return entry_of(one, f"r{number}")


def level(start: int, count: int, value: float) -> list[RunEntry]:
    return [run(start + n, value + WOBBLE[n % 5]) for n in range(count)]


def test_a_shift_is_found_between_two_commits() -> None:
    runs = [*level(0, 10, 200.0), *level(10, 10, 240.0)]
    (found,) = trends(runs, HistorySpec(), [KEY])
    (shift,) = found.shifts
    assert (shift.before.run.run_id, shift.first.run.run_id) == ("r9", "r10")
    assert shift.ratio == pytest.approx(1.2, rel=0.01)
    assert shift.worse


def test_a_faster_level_is_better() -> None:
    (found,) = trends([*level(0, 10, 240.0), *level(10, 10, 200.0)], HistorySpec(), [KEY])
    assert [shift.worse for shift in found.shifts] == [False]


def test_a_steady_series_has_no_shift() -> None:
    (found,) = trends(level(0, 30, 200.0), HistorySpec(), [KEY])
    assert not found.shifts


def test_slow_drift_is_seen_from_the_anchor() -> None:
    runs = [run(n, 200.0 * 1.01**n + WOBBLE[n % 5] / 5) for n in range(20)]
    (found,) = trends(runs, HistorySpec(), [KEY], anchors={"release": "r0"}, allowed=0.05)
    assert found.anchor is not None
    assert found.anchor[0] == "release"
    assert found.drift is not None
    assert found.drift.beyond


def test_regressed_runs_are_part_of_the_story_and_invalid_ones_are_not() -> None:
    runs = [
        run(0, 200.0),
        run(1, 300.0, status=SeriesStatus.REGRESSED),
        run(2, 1.0, status=SeriesStatus.INVALID),
    ]
    (found,) = trends(runs, HistorySpec(), [KEY])
    assert [point.value for point in found.points] == [200.0, 300.0]


def test_each_machine_has_a_trend_of_its_own() -> None:
    l4 = environment(hardware=replace(H200, gpu_names=("NVIDIA L4",)))
    runs = [run(0, 200.0), run(1, 900.0, env=l4), run(2, 201.0)]
    found = trends(runs, HistorySpec(), [KEY])
    assert [[point.value for point in one.points] for one in found] == [[900.0], [200.0, 201.0]]


def test_values_without_a_logarithm_are_left_out() -> None:
    (found,) = trends([run(0, 0.0), run(1, float("inf")), run(2, 5.0)], HistorySpec(), [KEY])
    assert [point.value for point in found.points] == [5.0]


def test_more_tokens_a_second_are_no_worse() -> None:
    def one(number: int, value: float) -> RunEntry:
        rate = series(metric="output_throughput", unit="tokens/s", direction="higher", value=value)
        return entry_of(record(rate, run_id=f"r{number}", created=at(number)), f"r{number}")

    runs = [one(n, (100.0 if n < 10 else 120.0) + WOBBLE[n % 5]) for n in range(20)]
    (found,) = trends(runs, HistorySpec(), [SeriesKey("initial", "chat", "output_throughput")])
    assert [shift.worse for shift in found.shifts] == [False]
