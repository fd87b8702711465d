# SPDX-License-Identifier: Apache-2.0
"""A comparison as text: what each channel can give, then every metric side by side."""

import math
from collections.abc import Iterator, Sequence

from vllm_perf.channel.compare import Comparison
from vllm_perf.channel.difference import Difference
from vllm_perf.channel.facts import lines as fact_lines
from vllm_perf.channel.rounds import invalid_reasons
from vllm_perf.channel.rows import Against, Row, make_rows
from vllm_perf.channel.side import Side
from vllm_perf.diagnosis.redact import redact
from vllm_perf.metrics.measurement import Measurement

SHOWN = (
    "ttft_p50",
    "ttft_p50_adjusted",
    "ttft_p95",
    "ttfa_p50",
    "tpot_p50",
    "itl_p50",
    "itl_p95",
    "e2el_p50",
    "output_throughput",
    "request_throughput",
    "prefix_hit_rate",
    "queue_mean",
    "prefill_mean",
)
NOTHING = "-"


def text(done: Comparison) -> str:
    """Return the whole comparison for a terminal, without any key."""
    keys = [side.target.api_key for side in done.sides if side.target.api_key]
    return redact("\n".join(_lines(done)), keys)


def _lines(done: Comparison) -> Iterator[str]:
    sides = done.sides
    if sides:
        yield from table(_facts(sides))
        yield ""
    if done.rounds:
        rows = make_rows(sides, done.workload, done.unfit)
        count = done.workload.requests
        yield f"{done.workload.name}: {done.rounds} rounds of {count} requests a channel, in turn"
        yield from table(_metrics(sides, [row for row in rows if row.metric in SHOWN]))
        yield from _reasons([row for row in rows if row.metric in SHOWN])
    yield from (f"note: {note}" for note in done.notes)
    for side in sides:
        yield from _remarks(side, done)
    if done.stopped is not None:
        yield f"stopped: {done.stopped}; {done.rounds} of {done.pairs_asked} rounds are whole and shown"
    if done.interrupted:
        yield f"interrupted: {done.rounds} of {done.pairs_asked} rounds are whole and shown"
    if done.failure is not None:
        yield f"{done.failure}"


def _facts(sides: Sequence[Side]) -> list[list[str]]:
    rows = [["", *(side.name for side in sides)], ["model", *(side.target.model for side in sides)]]
    for number, (question, _) in enumerate(fact_lines(sides[0].facts)):
        rows.append([question, *(fact_lines(side.facts)[number][1] for side in sides)])
    rows.append(["prompt cache (a prompt repeated)", *(side.cache.sentence() for side in sides)])
    rows.append(["network round trip (TCP), ms", *(round_trip(side) for side in sides)])
    rows.append(["small GET on an open connection, ms", *(_number(side.network.http_ms) for side in sides)])
    rows.append(["refused (429) / waited, s", *(_refused(side) for side in sides)])
    rows.append(["spent", *(spent(side) for side in sides)])
    return rows


def round_trip(side: Side) -> str:
    """Return the network round trip with its interval, in ms."""
    if side.network.through_proxy:
        return "hidden by the proxy"
    low, high = side.network.rtt_interval_ms
    return f"{_number(side.network.rtt_ms)} {_interval(low, high)}".strip()


def _refused(side: Side) -> str:
    return f"{side.manners.refused} / {side.manners.pacer.waited_s:.1f}"


def spent(side: Side) -> str:
    """Return what a channel cost so far, and its tokens."""
    purse = side.manners.purse
    tokens = f"{purse.prompt_tokens} + {purse.output_tokens} tokens"
    if purse.prices.free:
        return f"nothing ({tokens})"
    guessed = f", {purse.uncounted} requests at their worst case" if purse.uncounted else ""
    return f"{purse.spent:.6f} of {purse.cap or 0:.6f} {purse.prices.currency} ({tokens}{guessed})"


def _metrics(sides: Sequence[Side], rows: Sequence[Row]) -> list[list[str]]:
    base, *others = sides
    header = ["", *(side.name for side in sides)]
    for other in others:
        header += [f"{other.name} - {base.name}", "of it network", "rest"]
    return [header, *(_metric(row) for row in rows)]


def _metric(row: Row) -> list[str]:
    cells = [f"{row.metric}, {row.unit}", *(_value(one) for one in row.values.values())]
    for one in row.against:
        cells += _compared(one, row)
    return cells


def _compared(one: Against, row: Row) -> list[str]:
    if one.reason is not None:
        return ["not comparable", NOTHING, NOTHING]
    return [_difference(one.difference), _difference(one.network), _difference(one.rest)]


def _reasons(rows: Sequence[Row]) -> Iterator[str]:
    """Say once why metrics are not comparable, and which."""
    why: dict[str, list[str]] = {}
    for row in rows:
        for one in row.against:
            if one.reason is not None:
                why.setdefault(one.reason, []).append(row.metric)
    for reason, metrics in why.items():
        yield f"not comparable: {', '.join(metrics)}: {reason}"


def _remarks(side: Side, done: Comparison) -> Iterator[str]:
    yield from (f"{side.name}: {note}" for note in side.facts.notes)
    yield from (f"{side.name}: {reason}" for reason in invalid_reasons(side, done.workload))
    yield from sorted({f"{side.name}: {warning}" for run in side.runs for warning in run.warnings})


def _value(one: Measurement) -> str:
    if one.value is None:
        return NOTHING
    if not math.isfinite(one.value):
        return "never (failed)"
    mark = "~" if one.estimated else ""
    return f"{mark}{_number(one.value)} {_interval(one.low, one.high)}".strip()


def _difference(one: Difference | None) -> str:
    if one is None:
        return NOTHING
    return f"{_number(one.mean, sign=True)} {_interval(one.low, one.high)}".strip()


def _interval(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return ""
    return f"[{_number(low)}..{_number(high)}]"


def _number(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return NOTHING
    if not math.isfinite(value):
        return "inf"
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2 if abs(value) >= 1 else 3
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the rows with every column as wide as its widest cell."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
