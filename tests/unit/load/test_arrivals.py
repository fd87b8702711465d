# SPDX-License-Identifier: Apache-2.0
"""Schedules: absolute, seeded, of the asked rate and shape."""

import statistics
from itertools import pairwise
from typing import Any

import pytest

from vllm_perf.load.arrivals import asked_rate, closed_offsets, schedule
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import ArrivalSpec


def offsets(count: int, seed: int = 1, **fields: Any) -> tuple[int, ...]:
    """Return a schedule."""
    found = schedule(ArrivalSpec.model_validate(fields), count, seed)
    assert found is not None
    return found


def gaps_s(found: tuple[int, ...]) -> list[float]:
    """Return the gaps in seconds."""
    return [(b - a) / 1e9 for a, b in pairwise(found)]


def test_a_closed_loop_has_no_schedule() -> None:
    assert schedule(ArrivalSpec(concurrency=4), 10, 0) is None


def test_a_constant_rate_gives_equal_gaps() -> None:
    assert offsets(4, kind="constant", rate_per_s=8) == (0, 125_000_000, 250_000_000, 375_000_000)


def test_poisson_gaps_have_the_asked_mean_and_a_spread_as_large() -> None:
    gaps = gaps_s(offsets(20_001, kind="poisson", rate_per_s=10))
    assert statistics.mean(gaps) == pytest.approx(0.1, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(("burstiness", "spread"), [(0.25, 0.2), (1.0, 0.1), (4.0, 0.05)])
def test_gamma_gaps_spread_by_one_over_the_root_of_burstiness(burstiness: float, spread: float) -> None:
    gaps = gaps_s(offsets(20_001, kind="gamma", rate_per_s=10, burstiness=burstiness))
    assert statistics.mean(gaps) == pytest.approx(0.1, rel=0.04)
    assert statistics.stdev(gaps) == pytest.approx(spread, rel=0.06)


def test_equal_seeds_give_equal_schedules() -> None:
    assert offsets(50, 3, kind="poisson", rate_per_s=5) == offsets(50, 3, kind="poisson", rate_per_s=5)


def test_other_seeds_give_other_schedules() -> None:
    assert offsets(50, 3, kind="poisson", rate_per_s=5) != offsets(50, 4, kind="poisson", rate_per_s=5)


def test_every_schedule_starts_at_once_and_goes_forward() -> None:
    found = offsets(200, kind="gamma", rate_per_s=5, burstiness=0.3)
    assert found[0] == 0
    assert list(found) == sorted(found)


def test_a_ramp_without_a_slope_is_a_constant_rate() -> None:
    assert offsets(4, kind="ramp", rate_per_s=4, end_rate_per_s=4) == (
        0,
        250_000_000,
        500_000_000,
        750_000_000,
    )


def test_a_ramp_from_2_to_6_places_requests_where_the_integral_says() -> None:
    # 8 requests at a mean of 4/s take 2 s; 2 t + t² = k, so that t = sqrt(1 + k) - 1.
    expected = [round(((1 + k) ** 0.5 - 1) * 1e9) for k in range(8)]
    assert list(offsets(8, kind="ramp", rate_per_s=2, end_rate_per_s=6)) == expected


def test_a_ramp_may_go_down() -> None:
    gaps = gaps_s(offsets(50, kind="ramp", rate_per_s=20, end_rate_per_s=5))
    assert gaps == sorted(gaps)


def test_a_share_of_a_capacity_that_nobody_measured_is_refused() -> None:
    with pytest.raises(SpecError, match="needs rate_per_s"):
        schedule(ArrivalSpec(kind="poisson", rate_share=0.8), 5, 0)


def test_slots_start_evenly_over_the_ramp() -> None:
    assert closed_offsets(4, 2.0) == (0, 500_000_000, 1_000_000_000, 1_500_000_000)


def test_slots_without_a_ramp_start_together() -> None:
    assert closed_offsets(3, 0.0) == (0, 0, 0)


def test_the_asked_rate_is_gaps_over_the_span() -> None:
    assert asked_rate((0, 500_000_000, 1_000_000_000)) == 2.0


def test_one_request_has_no_rate() -> None:
    assert asked_rate((0,)) is None
