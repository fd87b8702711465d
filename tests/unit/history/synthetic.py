# SPDX-License-Identifier: Apache-2.0
"""Records as a real run leaves them: many requests, several metrics of one sample, known true values."""

import math
import random
import statistics
from dataclasses import dataclass, replace
from typing import Any

from tests.unit.history.builders import environment
from vllm_perf.history.environment import Environment
from vllm_perf.history.git import Suite
from vllm_perf.history.record import Cell, EngineFacts, Repetition, RunRecord, Series, SeriesStatus, Work

REQUESTS, TOKENS = 64, 32
RUNGS: dict[str, tuple[str, dict[str, Any], float]] = {
    "initial": ("initial", {"enable-prefix-caching": False}, 1000.0),
    "caching": ("+ prefix caching", {"enable-prefix-caching": True}, 200.0),
    "fp8": ("+ fp8 KV cache", {"kv-cache-dtype": "fp8"}, 190.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What is true of a made-up run: factors on TTFT and TPOT for one engine, noise, its seed."""

    slower: str = ""
    ttft: float = 1.0
    tpot: float = 1.0
    seed: int = 0
    noise: float = 0.03


def made_up(run_id: str, truth: Truth, *, vllm: str = "0.32.0", created: str = "", **more: Any) -> RunRecord:
    """Return a run of the whole ladder under one workload."""
    where = environment(vllm=vllm)
    parts = [_cell(name, where, truth) for name in RUNGS]
    return RunRecord(
        run_id=run_id,
        created=created or "2026-08-30T10:00:00.000000+00:00",
        suite=more.pop("suite", Suite()),
        harness_version="0.1.0",
        command="pytest tests/perf --benchmark-compare",
        cells=tuple(cell for cell, _ in parts),
        series=tuple(one for _, several in parts for one in several),
        **more,
    )


def _cell(engine: str, where: Environment, truth: Truth) -> tuple[Cell, list[Series]]:
    title, flags, ttft_ms = RUNGS[engine]
    hit = (truth.ttft, truth.tpot) if engine == truth.slower else (1.0, 1.0)
    dice = random.Random(f"{engine}{truth.seed}")
    prompts = tuple(f"p{n:03d}" for n in range(REQUESTS))
    each = [1 + 0.2 * random.Random(name).random() for name in prompts]
    boot = math.exp(dice.gauss(0, truth.noise / 3))
    ttft = tuple(ttft_ms * hit[0] * boot * size * math.exp(dice.gauss(0, truth.noise)) for size in each)
    tpot = tuple(20.0 * hit[1] * boot * math.exp(dice.gauss(0, truth.noise)) for _ in prompts)
    duration_s = math.fsum(a + b * (TOKENS - 1) for a, b in zip(ttft, tpot, strict=True)) / 4 / 1e3
    rate = REQUESTS * TOKENS / duration_s
    cell = Cell(
        engine=engine,
        workload="chat",
        environment=where,
        facts=EngineFacts(title=title, own_flags=flags),
        boot_s=(30.0,),
        repetitions=(
            Repetition(
                sent=REQUESTS,
                ok=REQUESTS,
                duration_s=duration_s,
                prompt_ids=prompts,
                work=Work(
                    prompt_tokens=940 * REQUESTS,
                    output_tokens=TOKENS * REQUESTS,
                    preemptions=0,
                    finish_reasons={"length": REQUESTS},
                ),
            ),
        ),
        stages_ms={
            "queue": 5.0,
            "prefill": statistics.fmean(ttft) - 8.0,
            "decode": statistics.fmean(tpot) * (TOKENS - 1),
        },
    )
    return cell, [
        _time(engine, "ttft_mean", ttft, statistics.fmean(ttft)),
        _time(engine, "ttft_p50", ttft, statistics.median(ttft), gating=True),
        _time(engine, "ttft_p95", ttft, _p95(ttft), gating=True),
        _time(engine, "tpot_p50", tpot, statistics.median(tpot), gating=True),
        _one(engine, "output_throughput", "tokens/s", rate, gating=True, low=rate * 0.98, high=rate * 1.02),
        _one(engine, "prefix_hit_rate", "share", 0.0 if engine == "initial" else 0.95),
        replace(
            _one(engine, "goodput", "requests/s", 1.0),
            value=None,
            status=SeriesStatus.FAILED,
            reasons=("no limits",),
        ),
    ]


def _p95(values: tuple[float, ...]) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * 0.95
    below = math.floor(place)
    return ordered[below] + (place - below) * (ordered[below + 1] - ordered[below])


def _time(engine: str, metric: str, samples: tuple[float, ...], value: float, **more: Any) -> Series:
    return replace(
        _one(engine, metric, "ms", value, low=value * 0.97, high=value * 1.03, **more),
        direction="lower",
        samples=(samples,),
    )


def _one(engine: str, metric: str, unit: str, value: float, **more: Any) -> Series:
    return Series(
        engine=engine,
        workload="chat",
        metric=metric,
        unit=unit,
        direction="higher",
        value=value,
        sent=REQUESTS,
        ok=REQUESTS,
        replicates=(value,),
        **more,
    )
