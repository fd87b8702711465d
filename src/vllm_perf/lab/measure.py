# SPDX-License-Identifier: Apache-2.0
"""Measure one engine under one workload: all repetitions, validity, and the record's parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from vllm_perf.engine.engine import Engine
from vllm_perf.engine.telemetry import Telemetry
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.lab import describe
from vllm_perf.lab.machine import Machine
from vllm_perf.lab.result import CellResult
from vllm_perf.load.counting import TokenCounter
from vllm_perf.load.loop import Progress as LoadProgress
from vllm_perf.load.sample import Run
from vllm_perf.load.session import measure
from vllm_perf.metrics.reasons import RunFacts
from vllm_perf.metrics.validity import check_runs
from vllm_perf.spec.client import DEFAULT_CLIENT, Client, Means
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec

Progress = Callable[[str, str, int, int, int], None]
"""Called with engine, workload, repetition, requests done, requests in all."""


class Send(Protocol):
    """Run one repetition of a workload against a server, as ``load.session.measure`` does."""

    def __call__(
        self,
        workload: WorkloadSpec,
        target: Target,
        *,
        counter: TokenCounter,
        on_progress: LoadProgress,
        repetition: int,
    ) -> Run:
        """Return everything that came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What stays the same over a session: the machine, and how to reach and report.

    ``floor_ms`` returns what the client itself adds to TTFT for a workload, or ``None``; ``budget_ms`` the
    tightest TTFT limit asserted on (engine, workload); ``asserted`` the metrics a verdict is wanted on;
    ``client`` what sends the load. ``send`` runs one repetition in another way than ``load.session.measure``;
    ``known`` is what is known of every run beforehand.
    """

    machine: Machine
    hardware: Hardware
    suite: Suite
    progress: Progress
    floor_ms: Callable[[WorkloadSpec], float | None] = lambda _: None
    budget_ms: Callable[[str, str], float | None] = lambda _engine, _workload: None
    asserted: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    send: Send | None = None
    known: RunFacts = field(default_factory=RunFacts)
    client: Client = DEFAULT_CLIENT


def measure_cell(
    bench: Bench,
    engine: Engine,
    workload: WorkloadSpec,
    counter: TokenCounter,
    rate_per_s: float | None = None,
) -> CellResult:
    """Run every repetition of ``workload`` against ``engine`` and describe what came out.

    ``rate_per_s`` is the rate a workload that asks for a share of the capacity is sent at; it is not part
    of what was asked, so that runs of different capacity stay comparable.

    A run that is worth no verdict is described all the same, with the reasons; nothing is thrown away.
    """
    with Telemetry(bench.machine.gpus, own_pids=lambda: _own_pids(engine)) as telemetry:
        runs = [
            _run(bench, engine, _at_rate(workload, rate_per_s), counter, repetition)
            for repetition in range(workload.repetitions)
        ]
    window = telemetry.summary(min(run.started_ns for run in runs), max(run.ended_ns for run in runs))
    floor_ms = bench.floor_ms(workload)
    caching = engine.facts.get("prefix_caching")
    known = replace(
        bench.known,
        floor_ms=floor_ms,
        budget_ms=bench.budget_ms(engine.name, workload.name),
        asserted=bench.asserted.get((engine.name, workload.name), ()),
        prefix_caching=caching if isinstance(caching, bool) else None,
        gpu_problems=tuple(window.problems()),
    )
    invalid = tuple(str(reason) for reason in check_runs(runs, workload, known))
    where = describe.environment(engine, workload, runs, bench.hardware, bench.suite)
    flat = describe.flat(window.to_json())
    series, unavailable = describe.series(engine.name, runs, workload, invalid)
    return CellResult(
        engine=engine.name,
        workload=workload.name,
        cell=describe.cell(engine, workload.name, where, runs, flat),
        series=series,
        unavailable=unavailable,
        invalid=invalid,
        warnings=_warnings(engine, runs),
        floor_ms=floor_ms,
    )


def _at_rate(workload: WorkloadSpec, rate_per_s: float | None) -> WorkloadSpec:
    if rate_per_s is None:
        return workload
    arrival = workload.arrival.model_copy(update={"rate_per_s": rate_per_s})
    return workload.model_copy(update={"arrival": arrival})


def _own_pids(engine: Engine) -> frozenset[int]:
    return engine.process.pids if engine.process is not None else frozenset()


def _run(bench: Bench, engine: Engine, workload: WorkloadSpec, counter: TokenCounter, repetition: int) -> Run:
    def show(done: int, total: int) -> None:
        bench.progress(engine.name, workload.name, repetition, done, total)

    if bench.send is not None:
        return bench.send(workload, engine.target, counter=counter, on_progress=show, repetition=repetition)
    return measure(
        workload,
        engine.target,
        counter=counter,
        on_progress=show,
        repetition=repetition,
        means=Means(client=bench.client),
    )


def _warnings(engine: Engine, runs: Sequence[Run]) -> tuple[str, ...]:
    """Return what is worth a line: the engine's own warnings and the runs', each once."""
    said = [*engine.warnings, *(warning for run in runs for warning in run.warnings)]
    return tuple(dict.fromkeys(said))
