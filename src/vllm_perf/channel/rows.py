# SPDX-License-Identifier: Apache-2.0
"""The rows of a comparison: each metric of every channel, the difference, and its network part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vllm_perf.channel.comparable import not_comparable, own_reason
from vllm_perf.channel.difference import Difference, minus, paired
from vllm_perf.channel.side import Side
from vllm_perf.metrics.catalogue import measure_all, value_of
from vllm_perf.metrics.measurement import Measurement, MetricUnavailable
from vllm_perf.metrics.table import BY_NAME, METRICS, Metric
from vllm_perf.spec.workload import WorkloadSpec

# What is timed from sending to an arrival holds one network round trip: the request out, the token back.
ONE_ROUND_TRIP = ("ttft", "ttfa", "e2el")
ADJUSTED = "_adjusted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """One channel against the first: ``difference`` is its value minus the first's, in the metric's unit.

    ``network`` is the part that the round trips explain, ``rest`` what is left; both ``None`` where a round
    trip is not in the metric or could not be measured. ``reason`` says why nothing is compared.
    """

    channel: str
    difference: Difference | None = None
    network: Difference | None = None
    rest: Difference | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One metric: its measurement on every channel, and every other channel against the first.

    ``rounds`` holds each channel's value of every block, so that any two channels can be paired afterwards.
    """

    metric: str
    unit: str
    direction: str
    values: dict[str, Measurement]
    against: tuple[Against, ...]
    rounds: dict[str, list[float | None]]


def make_rows(sides: Sequence[Side], workload: WorkloadSpec, unfit: str | None = None) -> tuple[Row, ...]:
    """Return a row for every metric of the catalogue, and for TTFT one less the network (``_adjusted``).

    ``unfit`` says why nothing may be compared, whatever the metric.
    """
    measured = {side.name: _measured(side, workload) for side in sides}
    rows: list[Row] = []
    for metric in METRICS:
        values = {side.name: measured[side.name][metric.name] for side in sides}
        against = tuple(
            Against(channel=other.name, reason=unfit)
            if unfit
            else _against(metric, sides[0], other, workload)
            for other in sides[1:]
        )
        rounds = {side.name: _rounds(metric, side, values[side.name], workload) for side in sides}
        rows.append(_row(metric.name, metric, values, against, rounds))
        if metric.name.startswith("ttft_p") or metric.name == "ttft_mean":
            adjusted = {side.name: _adjusted(values[side.name], side) for side in sides}
            apart = tuple(map(_without_network, against))
            less = {side.name: _less_trips(rounds[side.name], side) for side in sides}
            rows.append(_row(metric.name + ADJUSTED, metric, adjusted, apart, less))
    return tuple(rows)


def _row(
    name: str,
    metric: Metric,
    values: dict[str, Measurement],
    against: tuple[Against, ...],
    rounds: dict[str, list[float | None]],
) -> Row:
    return Row(
        metric=name,
        unit=metric.unit,
        direction=metric.direction,
        values=values,
        against=against,
        rounds=rounds,
    )


def _rounds(metric: Metric, side: Side, measured: Measurement, workload: WorkloadSpec) -> list[float | None]:
    """Return the blocks' values; none of them where the channel's own value means nothing."""
    if measured.value is None:
        return [None] * len(side.runs)
    return by_block(metric, side, workload)


def _less_trips(rounds: list[float | None], side: Side) -> list[float | None]:
    if side.network.rtt_ms is None:
        return [None] * len(rounds)
    return [None if one is None else one - trip for one, trip in zip(rounds, side.rtts_ms, strict=True)]


def _measured(side: Side, workload: WorkloadSpec) -> dict[str, Measurement]:
    """Measure a channel; a value that means nothing there is taken out, with the reason in its place."""
    found = measure_all(side.runs, workload)
    for name, one in found.items():
        reason = own_reason(BY_NAME[name], side, workload)
        if reason is not None:
            found[name] = _emptied(one, reason)
    return found


def _emptied(one: Measurement, reason: str) -> Measurement:
    return replace(one, value=None, samples=(), low=None, high=None, unavailable=reason)


def _adjusted(one: Measurement, side: Side) -> Measurement:
    """Return a TTFT less the network's round trip."""
    rtt_ms = side.network.rtt_ms
    name = one.metric + ADJUSTED
    if rtt_ms is None:
        empty = _emptied(one, f"{side.name}'s network round trip could not be measured")
        return replace(empty, metric=name)
    if one.value is None:
        return replace(one, metric=name)
    return replace(
        one,
        metric=name,
        value=one.value - rtt_ms,
        samples=tuple(value - rtt_ms for value in one.samples),
        low=None if one.low is None else one.low - rtt_ms,
        high=None if one.high is None else one.high - rtt_ms,
    )


def _against(metric: Metric, base: Side, other: Side, workload: WorkloadSpec) -> Against:
    reason = not_comparable(metric, base, other, workload)
    if reason is not None:
        return Against(channel=other.name, reason=reason)
    ours, theirs = by_block(metric, other, workload), by_block(metric, base, workload)
    difference = paired(minus(ours, theirs))
    if difference is None:
        return Against(channel=other.name, reason=_no_value(metric, (base, other), workload))
    if not metric.name.startswith(ONE_ROUND_TRIP) or None in (base.network.rtt_ms, other.network.rtt_ms):
        return Against(channel=other.name, difference=difference)
    trips = minus(other.rtts_ms, base.rtts_ms)
    rest = [whole - trip for whole, trip in zip(minus(ours, theirs), trips, strict=False)]
    return Against(channel=other.name, difference=difference, network=paired(trips), rest=paired(rest))


def _without_network(against: Against) -> Against:
    """Return the comparison of the adjusted metric: its difference is the rest."""
    if against.reason is None and against.rest is None:
        return Against(channel=against.channel, reason="a network round trip could not be measured")
    return Against(channel=against.channel, difference=against.rest, reason=against.reason)


def by_block(metric: Metric, side: Side, workload: WorkloadSpec) -> list[float | None]:
    """Return a channel's value of each block, ``None`` where a block has none."""
    values: list[float | None] = []
    for run in side.runs:
        try:
            values.append(value_of(metric, run, workload))
        except MetricUnavailable:
            values.append(None)
    return values


def _no_value(metric: Metric, sides: Sequence[Side], workload: WorkloadSpec) -> str:
    for side in sides:
        for run in side.runs:
            try:
                value = value_of(metric, run, workload)
            except MetricUnavailable as error:
                return f"{side.name}: {error}"
            if value == float("inf"):
                return f"{side.name}: requests failed, and the value leans on them"
    return "no block was measured on both"
