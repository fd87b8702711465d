# SPDX-License-Identifier: Apache-2.0
"""Comparisons as plain data for ``--json``: strict JSON, every number with its unit beside it."""

import math
from dataclasses import asdict
from typing import Any

from vllm_perf.history.compare import Compared, RunComparison
from vllm_perf.history.record import RunRecord


def comparison_json(comparison: RunComparison, head: RunRecord) -> dict[str, Any]:
    """Return a whole comparison; ``verdict`` is ``null`` where nothing could be compared."""
    return {
        "verdict": comparison.change,
        "head": head.run_id,
        "created": comparison.created,
        "series": [series_json(one) for one in comparison.compared],
        "partnerless": list(comparison.partnerless),
        "warnings": list(comparison.warnings),
    }


def series_json(one: Compared) -> dict[str, Any]:
    """Return one series' comparison with its baseline and what moved."""
    numbers = {name: _finite(value) for name, value in asdict(one.comparison).items()}
    return {
        "engine": one.key.engine,
        "workload": one.key.workload,
        **numbers,
        "baseline": one.baseline.run.run_id,
        "baseline_commit": one.baseline.run.commit,
        "differences": list(one.baseline.differences),
        "notes": list(one.baseline.notes),
        "moved": list(one.attribution.moved),
        "stages_ms": {s.name: [s.base_ms, s.head_ms] for s in one.attribution.stages},
    }


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
