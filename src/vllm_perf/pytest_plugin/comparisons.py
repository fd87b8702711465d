# SPDX-License-Identifier: Apache-2.0
"""Compare a measured cell with its baseline, once per cell, and explain each metric's change."""

from dataclasses import dataclass, field
from functools import cached_property

from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.spec.history import HistorySpec, load_history_spec
from vllm_perf.verdict.types import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric's change: ``comparison`` is ``None`` where there is no baseline, and the text says why."""

    comparison: Comparison | None
    explanation: str


@dataclass(kw_only=True)
class Comparisons:
    """The history as one session sees it: read once, asked per cell."""

    config: PerfConfig
    suite: Suite
    _done: dict[tuple[str, str], dict[SeriesKey, Compared]] = field(default_factory=dict)
    _records: dict[str, RunRecord] = field(default_factory=dict)

    @cached_property
    def policy(self) -> HistorySpec:
        """Return which parts must match."""
        path = self.config.policy_file
        return load_history_spec(path if path.is_file() else None)

    def of(self, case: tuple[str, str, str], result: CellResult) -> Compared | None:
        """Return a metric's change, or ``None`` where no comparison was asked for."""
        return None
