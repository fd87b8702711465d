# SPDX-License-Identifier: Apache-2.0
"""Which part of a request's time moved between the two sides of a gate."""

import statistics
from collections.abc import Sequence

from vllm_perf.gate.boot import Pair, sent
from vllm_perf.gate.spoiled import spoiled
from vllm_perf.history.attribution import AFTER_FIRST_TOKEN, OUTSIDE, Attribution, Stage
from vllm_perf.lab.result import CellResult


def moved(pairs: Sequence[Pair], workload: str, metric: str) -> Attribution:
    """Return the stages behind a metric, means over the boots that count.

    Up to the first token: queue and prefill as the server tells them, and what is left of the mean TTFT
    (the API server, the network, the client). After it: decode.
    """
    kept = [pair for pair in sent(pairs, workload) if not spoiled(pair, workload)]
    both = [cells for pair in kept if (cells := pair.cells(workload)) is not None]
    base = _means([_stages(cells[0]) for cells in both])
    head = _means([_stages(cells[1]) for cells in both])
    names = [name for name in base if name in head and _belongs(name, metric)]
    if not names:
        return Attribution(unknown="the server's /metrics tell no stage times")
    stages = [Stage(name=name, base_ms=base[name], head_ms=head[name]) for name in names]
    return Attribution(stages=tuple(sorted(stages, key=lambda stage: -abs(stage.delta_ms))))


def _stages(cell: CellResult) -> dict[str, float]:
    stages = dict(cell.cell.stages_ms) if cell.cell is not None else {}
    ttft = cell.find("ttft_mean")
    if ttft is not None and ttft.value is not None and {"queue", "prefill"} <= stages.keys():
        stages[OUTSIDE] = ttft.value - stages["queue"] - stages["prefill"]
    return stages


def _means(boots: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each stage that every boot tells."""
    if not boots:
        return {}
    names = [name for name in boots[0] if all(name in boot for boot in boots)]
    return {name: statistics.fmean(boot[name] for boot in boots) for name in names}


def _belongs(stage: str, metric: str) -> bool:
    if metric.startswith("output_throughput"):
        return True
    return (stage == "decode") == metric.startswith(AFTER_FIRST_TOKEN)
