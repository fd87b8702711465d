# SPDX-License-Identifier: Apache-2.0
"""Turn one cell of a stored run into a side of a comparison: one boot, with its values prompt by prompt."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from vllm_perf.history.record import Cell, RunRecord, Series, SeriesStatus
from vllm_perf.verdict.side import PAIRED, Side, Work
from vllm_perf.verdict.statistics import quantile_t

UNUSABLE = (SeriesStatus.INVALID, SeriesStatus.FAILED)


def side_of(record: RunRecord, engine: str, workload: str) -> Side:
    """Return what ``record`` measured of one engine under one workload.

    Raises:
        KeyError: it has no such cell.
    """
    series = [one for one in record.series if (one.engine, one.workload) == (engine, workload)]
    return side_of_cell(record.by_cell[engine, workload], series)


def side_of_cell(cell: Cell, series: Iterable[Series]) -> Side:
    """Return what a cell measured, given its series; what is invalid or failed has no value here."""
    known = {one.metric: one for one in series}
    usable = [one for one in known.values() if one.status not in UNUSABLE and one.value is not None]
    return Side(
        values={one.metric: one.value for one in usable if one.value is not None},
        unavailable={
            name: "; ".join(one.reasons) or str(one.status)
            for name, one in known.items()
            if one.status in UNUSABLE or one.value is None
        },
        by_prompt={time: by_prompt(known.get(f"{time}_p50"), cell) for time in PAIRED},
        spread={one.metric: spread for one in usable if (spread := _spread(one)) is not None},
        work=work_of(cell, known.get("prefix_hit_rate")),
        at_once=cell.environment.workload.concurrency or 1,
        repetitions=max(len(cell.repetitions), 1),
    )


def by_prompt(series: Series | None, cell: Cell) -> dict[str, float]:
    """Return each prompt's time, the geometric mean over repetitions, in the order of sending.

    A repetition whose values cannot be told apart by prompt (fewer values than prompts) is left out, and
    so is a failed request.
    """
    logs: dict[str, list[float]] = {}
    if series is None:
        return {}
    for repetition, values in zip(cell.repetitions, series.samples, strict=False):
        if len(values) != len(repetition.prompt_ids):
            continue
        for prompt, value in zip(repetition.prompt_ids, values, strict=True):
            if 0 < value < math.inf:
                logs.setdefault(prompt, []).append(math.log(value))
    return {prompt: math.exp(math.fsum(values) / len(values)) for prompt, values in logs.items()}


def work_of(cell: Cell, hit_rate: Series | None) -> Work:
    """Return the work done in all repetitions of a cell, tokens a request that succeeded."""
    repetitions = cell.repetitions
    done = sum(one.ok for one in repetitions)
    finish = sum((Counter(one.work.finish_reasons) for one in repetitions), Counter[str]())
    return Work(
        sent=sum(one.sent for one in repetitions),
        failed=sum(one.failed for one in repetitions),
        prompt_tokens=_each(_total(one.work.prompt_tokens for one in repetitions), done),
        output_tokens=_each(_total(one.work.output_tokens for one in repetitions), done),
        finish={reason: count / done for reason, count in sorted(finish.items())} if done else {},
        hit_rate=hit_rate.value if hit_rate is not None and hit_rate.status not in UNUSABLE else None,
        preemptions=_total(one.work.preemptions for one in repetitions),
        prompt_set_hash=cell.environment.workload.prompt_set_hash,
    )


def _total(values: Iterable[int | None]) -> float | None:
    known: Sequence[int | None] = list(values)
    return None if not known or None in known else math.fsum(value for value in known if value is not None)


def _each(total: float | None, count: int) -> float | None:
    return total / count if total is not None and count else None


def _spread(series: Series) -> float | None:
    """Return the standard error of ln(value) that the series' 95 % interval stands for."""
    low, high = series.low, series.high
    if low is None or high is None or not 0 < low <= high < math.inf:
        return None
    repetitions = len(series.replicates)
    df = repetitions - 1 if repetitions > 1 else math.inf
    return math.log(high / low) / 2 / quantile_t(0.975, df)
