# SPDX-License-Identifier: Apache-2.0
"""Measure how long it takes to load a history and find every baseline in it.

    python benchmarks/history_speed.py [--runs 1000] [--engines 5] [--workloads 2] [--metrics 12]

Prints seconds; asserts nothing, because a busy machine is not a defect. The numbers in docs/history.md are
from this script. Four cases: the index is lost (once), the index is there (every run), the history was
checked out anew with its index (other file times), a run was added since.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.environment import Environment, Hardware, Software, Workload
from vllm_perf.history.git import Suite
from vllm_perf.history.index import INDEX_NAME
from vllm_perf.history.lineage import Lineage, Tier
from vllm_perf.history.record import Cell, Repetition, RunRecord, Series
from vllm_perf.history.store import Store
from vllm_perf.spec.history import HistorySpec

T = TypeVar("T")
REQUESTS, REPETITIONS = 32, 3


def main() -> None:
    """Fill a directory with made-up runs and time what a session does with it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    for name, number in (("runs", 1000), ("engines", 5), ("workloads", 2), ("metrics", 12)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        shape = (options.engines, options.workloads, options.metrics)
        *stored, head = made_up_runs(options.runs + 1, shape)
        saving_s = sum(timed(lambda one=one: store.save(one))[0] for one in stored)  # type: ignore[misc]
        size = sum(path.stat().st_size for path in store.directory.glob("*.json"))
        print(f"{options.runs} runs of {len(head.series)} series, {size / 1e6 / options.runs:.2f} MB each")
        print(f"save            {saving_s / options.runs * 1e3:8.1f} ms a run (two fsyncs included)")
        report("index lost", store, head)
        print(f"index           {(store.directory / INDEX_NAME).stat().st_size / 1e6:8.2f} MB")
        report("index there", store, head)
        for path in store.directory.glob("*.json"):
            os.utime(path, ns=(1, 1))
        report("fresh checkout", store, head)
        store.save(replace(head, run_id="late", created="2026-12-31T00:00:00+00:00"))
        report("one run added", store, head)


def report(case: str, store: Store, head: RunRecord) -> None:
    """Load, find every baseline, load the run they are in; print the seconds."""
    loading_s, contents = timed(store.contents)
    lineage = Lineage(tiers=(Tier(ranks=None),), past="any commit")
    finding_s, found = timed(
        lambda: find_baselines(contents.runs, head, lineage=lineage, policy=HistorySpec())
    )
    file = next(iter(found.found.values())).run.file
    reading_s, _record = timed(lambda: store.load(file))
    print(
        f"{case:<15} {loading_s + finding_s + reading_s:8.3f} s  (load {loading_s:.3f}, "
        f"find {len(found.found)} baselines {finding_s:.3f}, read the baseline {reading_s:.3f})"
    )


def timed(act: Callable[[], T]) -> tuple[float, T]:
    """Return how long ``act`` took in seconds, and what it returned."""
    start_ns = time.perf_counter_ns()
    result = act()
    return (time.perf_counter_ns() - start_ns) / 1e9, result


def made_up_runs(count: int, shape: tuple[int, int, int]) -> Iterator[RunRecord]:
    """Yield runs that differ as real ones do: in commit, versions and every number."""
    dice = random.Random(0)
    engines, workloads, metrics = shape
    for number in range(count):
        suite = Suite(commit=f"{number:040x}", branch="main", dirty=False)
        cells = [
            one_cell(f"engine{e}", f"workload{w}", suite) for e in range(engines) for w in range(workloads)
        ]
        yield RunRecord(
            run_id=f"{number:012x}",
            created=(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)).isoformat(),
            suite=suite,
            cells=tuple(cells),
            series=tuple(one_series(cell, f"metric{m}", dice) for cell in cells for m in range(metrics)),
        )


def one_cell(engine: str, workload: str, suite: Suite) -> Cell:
    """Return one engine under one workload, with the software of its commit."""
    where = Environment(
        hardware=Hardware(gpu_names=("GPU",), gpu_memory_mib=(81559,), driver="590.44", cpu_count=16),
        software=Software(
            vllm_version="0.33.0", suite_commit=suite.commit, engine_args={f"flag{n}": n for n in range(12)}
        ),
        workload=Workload(workload=workload, model="model", prompt_set_hash=workload),
    )
    prompts = tuple(f"{workload}-{n:04d}" for n in range(REQUESTS))
    repetition = Repetition(sent=REQUESTS, ok=REQUESTS, prompt_ids=prompts)
    return Cell(engine=engine, workload=workload, environment=where, repetitions=(repetition,) * REPETITIONS)


def one_series(cell: Cell, metric: str, dice: random.Random) -> Series:
    """Return one metric with every request's value."""
    samples = tuple(
        tuple(200.0 * dice.lognormvariate(0, 0.1) for _ in range(REQUESTS)) for _ in range(REPETITIONS)
    )
    replicates = tuple(sorted(one)[REQUESTS // 2] for one in samples)
    return Series(
        engine=cell.engine,
        workload=cell.workload,
        metric=metric,
        unit="ms",
        direction="lower",
        value=sorted(replicates)[1],
        sent=REQUESTS * REPETITIONS,
        ok=REQUESTS * REPETITIONS,
        replicates=replicates,
        samples=samples,
    )


if __name__ == "__main__":
    main()
