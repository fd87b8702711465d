# SPDX-License-Identifier: Apache-2.0
"""Turn a measured cell into one side of a comparison."""

import math
import statistics
from collections.abc import Iterator

from vllm_perf.history.record import Cell, Repetition, Series
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.side import PAIRED, Side, Work
from vllm_perf.verdict.statistics import quantile_t

HIT_RATE = "prefix_hit_rate"


def side_of(result: CellResult) -> Side:
    """Return what one boot measured on one workload, ready to be compared.

    Raises:
        ValueError: the cell holds nothing (the boot failed).
    """
    if result.cell is None:
        raise ValueError(f"{result.engine}, {result.workload}: nothing was measured")
    repetitions = result.cell.repetitions
    return Side(
        values={one.metric: one.value for one in result.series if one.value is not None},
        unavailable={
            one.metric: "; ".join(one.reasons) or "no value" for one in result.series if one.value is None
        },
        by_prompt={time: _by_prompt(result, time, repetitions) for time in PAIRED},
        spread={
            one.metric: spread
            for one in result.series
            if (spread := _spread(one, len(repetitions))) is not None
        },
        work=_work(result, result.cell),
    )


def _by_prompt(result: CellResult, time: str, repetitions: tuple[Repetition, ...]) -> dict[str, float]:
    """Return each prompt's time in ms, the geometric mean over repetitions; failed requests left out."""
    series = result.find(f"{time}_p50")
    if series is None:
        return {}
    logs: dict[str, list[float]] = {}
    for prompts, values in zip((one.prompt_ids for one in repetitions), series.samples, strict=False):
        if len(prompts) != len(values):
            continue  # a request had no such time, so values and prompts cannot be told apart any more
        for prompt, value in zip(prompts, values, strict=True):
            if 0 < value < math.inf:
                logs.setdefault(prompt, []).append(math.log(value))
    return {prompt: math.exp(statistics.fmean(values)) for prompt, values in logs.items()}


def _spread(series: Series, repetitions: int) -> float | None:
    """Return the standard error of ln(value) that the series' 95 % interval stands for."""
    low, high = series.low, series.high
    if series.value is None or low is None or high is None or not 0 < low <= high < math.inf:
        return None
    df = repetitions - 1 if repetitions > 1 else math.inf
    return math.log(high / low) / 2 / quantile_t(0.975, df)


def _work(result: CellResult, cell: Cell) -> Work:
    works = [repetition.work for repetition in cell.repetitions]
    ok = sum(repetition.ok for repetition in cell.repetitions)
    finish = sorted({reason for work in works for reason in work.finish_reasons})
    hit_rate = result.find(HIT_RATE)
    preemptions = _total(work.preemptions for work in works)
    return Work(
        sent=sum(repetition.sent for repetition in cell.repetitions),
        failed=sum(repetition.failed for repetition in cell.repetitions),
        prompt_tokens=_per(_total(work.prompt_tokens for work in works), ok),
        output_tokens=_per(_total(work.output_tokens for work in works), ok),
        finish={reason: sum(work.finish_reasons.get(reason, 0) for work in works) / ok for reason in finish}
        if ok
        else {},
        hit_rate=None if hit_rate is None else hit_rate.value,
        preemptions=None if preemptions is None else float(preemptions),
        prompt_set_hash=cell.environment.workload.prompt_set_hash,
    )


def _total(values: Iterator[int | None]) -> int | None:
    counted = list(values)
    known = [value for value in counted if value is not None]
    return sum(known) if known and len(known) == len(counted) else None


def _per(total: int | None, requests: int) -> float | None:
    return None if total is None or not requests else total / requests
