# SPDX-License-Identifier: Apache-2.0
"""Runs as the history keeps them: an imaginary engine's with realistic noise, or the golden one's."""

from array import array

import numpy as np

from benchmarks.noise_model import CONCURRENCY, OUTPUT_TOKENS
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.gpu import GpuSet
from vllm_perf.golden import GoldenServer, Noise, Profile
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord
from vllm_perf.lab import describe
from vllm_perf.lab.machine import Machine
from vllm_perf.lab.measure import Bench, measure_cell
from vllm_perf.load.counting import counter_for
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.comparison import GOLDEN_MARK
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.side import Side

MS = 1_000_000
ENGINE = EngineSpec(name="engine", model="golden")
SIMULATED = WorkloadSpec.model_validate(
    {
        "name": "simulated",
        "prompt": {"kind": "unique", "unique_tokens": 512},
        "arrival": {"kind": "closed", "concurrency": CONCURRENCY},
        "output_tokens": OUTPUT_TOKENS,
        "requests": 100,
    }
)
# As the suite's own chat, three repetitions of 32, with shorter prompts and more at once.
MEASURED = WorkloadSpec.model_validate(
    {
        "name": "chat",
        "prompt": {"kind": "shared_prefix", "shared_tokens": 64, "unique_tokens": 8},
        "arrival": {"kind": "closed", "concurrency": 16},
        "output_tokens": 16,
        "requests": 32,
        "repetitions": 3,
        "warmup_requests": 1,
    }
)
BENCH = Bench(
    machine=Machine(kind="cpu", gpus=GpuSet(reason="the golden engine uses none"), reason=""),
    hardware=Hardware(cpu_model="golden"),
    suite=Suite(),
    progress=lambda *_: None,
)
# Else it would be taken for a real server that someone else runs, and compared as one.
GOLDEN = f"0{GOLDEN_MARK}"
# What a boot, and a request within it, vary by.
GOLDEN_NOISE = {"boot_sigma": 0.005, "request_sigma": 0.03, "autocorrelation": 0.5}


def simulated(side: Side, number: int) -> RunRecord:
    """Return the record of one boot of ``noise_model``: a sample a request, with its chunks."""
    nobody = Target(base_url="http://127.0.0.1:9/v1", model="golden")
    engine, runs = Engine(spec=ENGINE, target=nobody, vllm_version=GOLDEN), [run_of(side)]
    where = describe.environment(engine, SIMULATED, runs, BENCH.hardware, BENCH.suite)
    series, _ = describe.series(ENGINE.name, runs, SIMULATED, ())
    cell = describe.cell(engine, SIMULATED.name, where, runs, {})
    return RunRecord(run_id=f"run{number:05}", created=_when(number), cells=(cell,), series=series)


def measured(profile: Profile, number: int) -> RunRecord:
    """Boot the golden engine with noise of its own, measure it as the suite measures an engine."""
    with GoldenServer(profile, noise=Noise(boot=number, **GOLDEN_NOISE)) as server:
        target = Target(base_url=server.base_url, model="golden", name=ENGINE.name)
        engine = Engine(spec=ENGINE, target=target, vllm_version=GOLDEN)
        found = measure_cell(BENCH, engine, MEASURED, counter_for(target))
    assert found.cell is not None
    return RunRecord(
        run_id=f"run{number:05}", created=_when(number), cells=(found.cell,), series=found.series
    )


def _when(number: int) -> str:
    return f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}.000000Z"


def run_of(side: Side) -> Run:
    """Lay a boot's request times out as a closed loop would: each slot sends when its last answer ended."""
    free_ns = [0] * CONCURRENCY
    samples: list[RequestSample] = []
    tpot = side.by_prompt["tpot"]
    for name, ttft_ms in side.by_prompt["ttft"].items():
        slot = int(np.argmin(free_ns))
        samples.append(_request(name, free_ns[slot], ttft_ms, tpot[name]))
        free_ns[slot] = samples[-1].end_ns or 0
    return Run(
        workload=SIMULATED.name,
        target="simulated",
        samples=tuple(samples),
        started_ns=0,
        ended_ns=max(free_ns),
        peak_in_flight=CONCURRENCY,
        asked_concurrency=CONCURRENCY,
        pinned_output_tokens=OUTPUT_TOKENS,
    )


def _request(name: str, sent_ns: int, ttft_ms: float, tpot_ms: float) -> RequestSample:
    first = sent_ns + int(ttft_ms * MS)
    chunks = array("q", (first + int(index * tpot_ms * MS) for index in range(OUTPUT_TOKENS)))
    return RequestSample(
        id=name,
        prompt_id=name,
        scheduled_ns=sent_ns,
        sent_ns=sent_ns,
        first_token_ns=chunks[0],
        first_answer_ns=chunks[0],
        last_token_ns=chunks[-1],
        end_ns=chunks[-1],
        chunk_ns=chunks,
        prompt_tokens=512,
        output_tokens=OUTPUT_TOKENS,
        token_source="usage",
        finish_reason="length",
    )
