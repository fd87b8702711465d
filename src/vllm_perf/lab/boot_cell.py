# SPDX-License-Identifier: Apache-2.0
"""Describe an engine's boot as a cell of its own: boot time, first request and compile time as series."""

from vllm_perf.engine.engine import Engine
from vllm_perf.history.environment import Hardware
from vllm_perf.history.git import Suite
from vllm_perf.history.record import Series, SeriesStatus
from vllm_perf.lab import describe
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.spec.workload import WorkloadSpec

# metric, unit, fact that holds it
FACTS: tuple[tuple[str, str, str], ...] = (
    ("compile_time", "s", "compile_s"),
    ("graph_capture_time", "s", "graph_capture_s"),
    ("engine_init_time", "s", "engine_init_s"),
)


def boot_cell(engine: Engine, hardware: Hardware, suite: Suite) -> CellResult:
    """Return the boot's series: ``boot_time`` (start to first token, s), ``first_request`` (ms) and what
    the log tells of compiling. These are never mixed with steady TTFT: a first request pays for warm-up.
    """
    workload = WorkloadSpec.model_validate(
        {"name": BOOT, "prompt": {"kind": "text", "text": "a"}, "output_tokens": 1, "requests": 1}
    )
    where = describe.environment(engine, workload, (), hardware, suite)
    values: list[tuple[str, str, float]] = []
    if engine.ready is not None:
        values.append(("boot_time", "s", engine.ready.first_token_s))
        values.append(("first_request", "ms", engine.ready.first_request_ms))
    for metric, unit, fact in FACTS:
        value = engine.facts.get(fact)
        if isinstance(value, int | float):
            values.append((metric, unit, float(value)))
    return CellResult(
        engine=engine.name,
        workload=BOOT,
        cell=describe.cell(engine, BOOT, where, (), {}),
        series=tuple(_series(engine.name, *value) for value in values),
        warnings=engine.warnings,
    )


def _series(engine: str, metric: str, unit: str, value: float) -> Series:
    return Series(
        engine=engine,
        workload=BOOT,
        metric=metric,
        unit=unit,
        direction="lower",
        value=value,
        sent=1,
        ok=1,
        status=SeriesStatus.OK,
        replicates=(value,),
    )
