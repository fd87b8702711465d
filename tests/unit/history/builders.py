# SPDX-License-Identifier: Apache-2.0
"""Small, complete records for tests; every argument has a harmless default."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_perf.history.environment import Environment, Hardware, Software, Workload
from vllm_perf.history.git import Suite
from vllm_perf.history.record import Cell, Repetition, RunRecord, Series, SeriesStatus, Work

H200 = Hardware(
    gpu_names=("NVIDIA H200",),
    gpu_memory_mib=(143771,),
    gpu_mig=("off",),
    gpu_power_cap_w=(700,),
    driver="590.44",
    cpu_model="Xeon",
    cpu_count=16,
    memory_gib=128.0,
)


def environment(
    *, hardware: Hardware = H200, vllm: str = "0.32.0", workload: str = "chat", **load: Any
) -> Environment:
    """Return an environment; ``load`` goes into the workload part."""
    return Environment(
        hardware=hardware,
        software=Software(vllm_version=vllm, torch_version="2.13.0", engine_args={"max-model-len": 4096}),
        workload=Workload(workload=workload, model="tiny", prompt_set_hash="abc", **load),
    )


def series(
    *,
    engine: str = "initial",
    workload: str = "chat",
    metric: str = "ttft_p50",
    value: float | None = 200.0,
    status: SeriesStatus = SeriesStatus.OK,
    **more: Any,
) -> Series:
    """Return one series in milliseconds unless told otherwise."""
    more = {"unit": "ms", "direction": "lower", "replicates": (value,), "sent": 3, "ok": 3, **more}
    return Series(engine=engine, workload=workload, metric=metric, value=value, status=status, **more)


def record(
    *all_series: Series,
    run_id: str = "run1",
    created: str = "2026-08-30T10:00:00.000000+00:00",
    env: Environment | None = None,
    commit: str | None = None,
    dirty: bool | None = None,
    **more: Any,
) -> RunRecord:
    """Return a record of ``all_series`` (one TTFT P50 by default), each cell in ``env``."""
    chosen = all_series or (series(),)
    base = env or environment()
    cells = {(one.engine, one.workload): one for one in chosen}
    return RunRecord(
        run_id=run_id,
        created=created,
        suite=Suite(commit=commit, branch="main" if commit else None, dirty=dirty),
        harness_version="0.1.0",
        series=tuple(chosen),
        cells=tuple(
            Cell(
                engine=engine,
                workload=workload,
                environment=replace(base, workload=replace(base.workload, workload=workload)),
                repetitions=(
                    Repetition(
                        sent=3,
                        ok=3,
                        prompt_ids=("p0", "p1", "p2"),
                        work=Work(output_tokens=96, finish_reasons={"length": 3}),
                    ),
                ),
            )
            for engine, workload in cells
        ),
        **more,
    )


def at(minute: int) -> str:
    """Return a time of creation, ``minute`` minutes after a fixed one."""
    return f"2026-08-30T{10 + minute // 60:02d}:{minute % 60:02d}:00.000000+00:00"


def git(directory: Path, *arguments: str) -> str:
    """Run git in ``directory`` as a person without any settings of their own."""

    return subprocess.run(
        [
            "git",
            "-C",
            str(directory),
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@example.org",
            "-c",
            "init.defaultBranch=main",
            "-c",
            "commit.gpgsign=false",
            *arguments,
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def commit(directory: Path, text: str) -> str:
    """Make a commit and return it."""
    (directory / "file.txt").write_text(text)
    git(directory, "add", "file.txt")
    git(directory, "commit", "--message", text)
    return git(directory, "rev-parse", "HEAD")
