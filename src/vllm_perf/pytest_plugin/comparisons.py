# SPDX-License-Identifier: Apache-2.0
"""Compare a measured cell with its baseline, once per cell, and explain each metric's change."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from vllm_perf.gate.sides import side_of
from vllm_perf.history.attribution import attribute
from vllm_perf.history.baseline import Baseline, BaselineSet, find_baselines
from vllm_perf.history.floors import floor_hardware, read_floors
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.history.reference import Search, search_for
from vllm_perf.history.store import Store, new_run_id, utc_now
from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.spec.history import HistorySpec, load_history_spec
from vllm_perf.verdict.comparison import compare_sides
from vllm_perf.verdict.noise import NoiseFloor
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Comparison
from vllm_perf.verdict.work import WorkKind

# What other flags may change without the work being another: caches hit, requests preempted.
FLAGS_MAY_CHANGE = frozenset({WorkKind.CACHE_HITS, WorkKind.PREEMPTIONS})
Case = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric's change: ``comparison`` is ``None`` where there is no baseline, and the text says why.

    ``created``: nothing at all was stored before, which is no failure.
    """

    comparison: Comparison | None
    explanation: str
    base_run: str = ""
    differences: tuple[str, ...] = ()
    created: bool = False


@dataclass(kw_only=True)
class Comparisons:
    """The history as one session sees it: read once, compared once per cell."""

    config: PerfConfig
    suite: Suite
    _done: dict[tuple[str, str], Mapping[SeriesKey, Compared]] = field(default_factory=dict)
    _records: dict[str, RunRecord] = field(default_factory=dict)

    @cached_property
    def policy(self) -> HistorySpec:
        """Return which parts must match."""
        path = self.config.policy_file
        return load_history_spec(path if path.is_file() else None)

    @cached_property
    def store(self) -> Store:
        """Return the stored runs."""
        return Store(self.config.history_dir)

    @cached_property
    def search(self) -> Search:
        """Return where baselines are looked for; read once, so that a run is never its own baseline."""
        return search_for(
            self.store,
            self.config.baseline,
            directory=self.config.root,
            suite=self.suite,
            mainline=self.policy.mainline,
        )

    def of(self, case: Case, result: CellResult) -> Compared | None:
        """Return a metric's change, or ``None`` where no comparison was asked for or nothing was measured."""
        if not self.config.compare or result.cell is None:
            return None
        cell = (result.engine, result.workload)
        if cell not in self._done:
            self._done[cell] = self._compare(result)
        return self._done[cell].get(SeriesKey(*case))

    def _compare(self, result: CellResult) -> dict[SeriesKey, Compared]:
        head = self.as_record(result)
        found = find_baselines(self.search.runs, head, lineage=self.search.lineage, policy=self.policy)
        done = {
            key: Compared(comparison=None, explanation=missing.reason, created=found.created)
            for key, missing in found.missing.items()
        }
        for run, keys in _by_run(found).items():
            base = self._load(found.found[keys[0]], run)
            compared = {one.metric: one for one in self._sides(base, head, result)}
            for key in keys:
                comparison = compared.get(key.metric)
                if comparison is not None:
                    done[key] = self._explain(key, comparison, found.found[key], base, head)
        return done

    def as_record(self, result: CellResult) -> RunRecord:
        """Return one cell as a record of its own, to be matched with stored ones."""
        assert result.cell is not None
        return RunRecord(
            run_id=new_run_id(),
            created=utc_now(),
            suite=self.suite,
            cells=(result.cell,),
            series=result.series,
        )

    def _load(self, baseline: Baseline, run: str) -> RunRecord:
        if run not in self._records:
            self._records[run] = self.search.load(self.store, baseline.run)
        return self._records[run]

    def _sides(self, base: RunRecord, head: RunRecord, result: CellResult) -> tuple[Comparison, ...]:
        where = (result.engine, result.workload)
        before = CellResult(
            engine=result.engine,
            workload=result.workload,
            cell=base.by_cell[where],
            series=tuple(one for one in base.series if (one.engine, one.workload) == where),
        )
        assert before.cell is not None
        assert result.cell is not None
        args = before.cell.environment.software.engine_args, result.cell.environment.software.engine_args
        policy = Policy(
            allowed=self.config.allowed_change,
            floors=self._floors(result),
            expected_differences=FLAGS_MAY_CHANGE if args[0] != args[1] else frozenset(),
        )
        return compare_sides([side_of(before)], [side_of(result)], policy)

    def _floors(self, result: CellResult) -> Mapping[str, NoiseFloor]:
        assert result.cell is not None
        hardware = floor_hardware(result.cell.environment, self.policy.identity)
        return read_floors(self.config.history_dir).of(hardware, result.workload)

    def _explain(
        self, key: SeriesKey, comparison: Comparison, baseline: Baseline, base: RunRecord, head: RunRecord
    ) -> Compared:
        commits = f"{(base.suite.commit or 'no commit')[:9]}..{(head.suite.commit or 'no commit')[:9]}"
        lines = [
            f"{key} {comparison.change}: {comparison.reason}",
            f"  what moved: {attribute(key, base, head).sentence()}",
            f"  what differs: {'; '.join(baseline.differences) or 'nothing that is recorded'}",
            f"  baseline: run {baseline.run.short}; commits {commits}",
            f"  again: pytest tests/perf --benchmark-compare --perf-engine {key.engine} "
            f"--perf-workload {key.workload} --perf-baseline {baseline.run.run_id}",
        ]
        return Compared(
            comparison=comparison,
            explanation="\n".join([*lines, *(f"  note: {note}" for note in baseline.notes)]),
            base_run=baseline.run.short,
            differences=baseline.differences,
        )


def _by_run(found: BaselineSet) -> dict[str, list[SeriesKey]]:
    """Return the series by the stored run they are compared with."""
    runs: dict[str, list[SeriesKey]] = defaultdict(list)
    for key, baseline in found.found.items():
        runs[baseline.run.run_id].append(key)
    return runs
