# SPDX-License-Identifier: Apache-2.0
"""When requests start: absolute offsets from the start of the load, drawn once from a seed."""

import math
import random
from itertools import accumulate

from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import ArrivalSpec

SECOND_NS = 1_000_000_000


def schedule(arrival: ArrivalSpec, count: int, seed: int) -> tuple[int, ...] | None:
    """Return ``count`` offsets in ns, the first at 0, or ``None`` for a closed loop.

    Raises:
        SpecError: an open loop without a rate of its own (``rate_share`` needs a capacity first).
    """
    if arrival.kind == "closed":
        return None
    if arrival.rate_per_s is None:
        raise SpecError(f"arrival kind '{arrival.kind}' needs rate_per_s: rate_share is only a share of one")
    if arrival.kind == "ramp":
        return _ramp(arrival.rate_per_s, arrival.end_rate_per_s or arrival.rate_per_s, count)
    gaps = _gaps(arrival, arrival.rate_per_s, count - 1, random.Random(f"{seed}:arrivals"))
    return tuple(round(offset * SECOND_NS) for offset in accumulate(gaps, initial=0.0))[:count]


def closed_offsets(concurrency: int, ramp_s: float) -> tuple[int, ...]:
    """Return when each slot of a closed loop sends its first request, in ns: evenly over ``ramp_s``."""
    step = ramp_s / concurrency
    return tuple(round(slot * step * SECOND_NS) for slot in range(concurrency))


def asked_rate(offsets_ns: tuple[int, ...]) -> float | None:
    """Return the mean rate of a schedule in requests/s; ``None`` where it spans no time.

    Formula: (n - 1) / (last offset - first offset).
    """
    span_ns = max(offsets_ns) - min(offsets_ns) if offsets_ns else 0
    return (len(offsets_ns) - 1) * SECOND_NS / span_ns if span_ns else None


def _gaps(arrival: ArrivalSpec, rate: float, count: int, rng: random.Random) -> list[float]:
    """Draw gaps in seconds with mean 1/rate; gamma's shape is ``burstiness`` (below 1 is burstier)."""
    if arrival.kind == "constant":
        return [1 / rate] * count
    shape = 1.0 if arrival.kind == "poisson" else arrival.burstiness
    return [rng.gammavariate(shape, 1 / (rate * shape)) for _ in range(count)]


def _ramp(start: float, end: float, count: int) -> tuple[int, ...]:
    """Place request k where the integral of the rate reaches k.

    The rate goes linearly from ``start`` to ``end`` over the load: T = 2 n / (start + end), and
    k = start t + (end - start) t² / (2 T), solved for t in the form that is stable for start = end.
    """
    total_s = 2 * count / (start + end)
    slope = (end - start) / total_s
    times = (2 * k / (start + math.sqrt(start * start + 2 * slope * k)) for k in range(count))
    return tuple(round(t * SECOND_NS) for t in times)
