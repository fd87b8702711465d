# SPDX-License-Identifier: Apache-2.0
"""Compare what a session measures with its baselines, and explain each metric's change."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.compare import Rules, RunComparison, compare_run
from vllm_perf.history.explain import explain
from vllm_perf.history.floors import read_floors
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.history.reference import Search, search_for
from vllm_perf.history.store import Store, new_run_id, utc_now
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.spec.history import HistorySpec, load_history_spec
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Comparison

Case = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One metric's change: ``comparison`` is ``None`` where there is no baseline, and the text says why.

    ``created``: nothing at all was stored before, which is no failure.
    """

    comparison: Comparison | None
    explanation: str
    created: bool = False


@dataclass(kw_only=True)
class Comparisons:
    """The history as one session sees it: read once, before anything of this session is in it."""

    config: PerfConfig
    suite: Suite
    say: Callable[[str], None] | None = None
    _done: dict[tuple[str, str], tuple[RunRecord, RunComparison]] = field(default_factory=dict)

    @cached_property
    def policy(self) -> HistorySpec:
        """Return which parts must match."""
        path = self.config.policy_file
        return load_history_spec(path if path.is_file() else None)

    @cached_property
    def search(self) -> Search:
        """Return where baselines are looked for.

        Raises:
            StoreError: ``--perf-baseline`` names nothing that is stored, or the store cannot be read.
        """
        found = search_for(
            Store(self.config.history_dir, say=self.say),
            self.config.baseline,
            directory=self.config.root,
            suite=self.suite,
            mainline=self.policy.mainline,
        )
        return replace(
            found, runs=tuple(run for run in found.runs if run.run_id not in self.config.resumed_runs)
        )

    def of(self, case: Case, result: CellResult) -> Told | None:
        """Return a metric's change, or ``None`` where no comparison was asked for or nothing was measured."""
        if not self.config.compare or result.cell is None:
            return None
        where = (result.engine, result.workload)
        if where not in self._done:
            record = self._as_record([result])
            self._done[where] = (record, self.compare(record))
        record, comparison = self._done[where]
        key = SeriesKey(*case)
        found = comparison.of(key)
        if found is None:
            reason = next(
                (line for line in comparison.partnerless if line.startswith(f"{key}:")), f"{key}: no baseline"
            )
            return Told(comparison=None, explanation=reason, created=comparison.created)
        run = found.baseline.run
        words = again(key, run.run_id, self.config)
        explanation = explain(found, comparison.bases[run.file], record, words)
        return Told(comparison=found.comparison, explanation=explanation)

    def compare(self, record: RunRecord) -> RunComparison:
        """Compare a whole record with its baselines."""
        store = Store(self.config.history_dir)
        baselines = find_baselines(self.search.runs, record, lineage=self.search.lineage, policy=self.policy)
        rules = Rules(
            policy=Policy(allowed=self.config.allowed_change),
            floors=read_floors(self.config.history_dir),
            history=self.policy,
        )
        return compare_run(
            record, baselines, lambda run: self.search.load(store, run), rules, self.search.warnings
        )

    def _as_record(self, results: Sequence[CellResult]) -> RunRecord:
        return RunRecord(
            run_id=new_run_id(),
            created=utc_now(),
            suite=self.suite,
            cells=tuple(result.cell for result in results if result.cell is not None),
            series=tuple(one for result in results for one in result.series),
        )


def again(key: SeriesKey, run_id: str, config: PerfConfig) -> list[str]:
    """Return the command that measures one cell again and compares it with the same run."""
    words = ["pytest", "tests/perf", "--benchmark-compare"]
    if config.channel:
        words += ["--perf-channel", config.channel]
        words += ["--perf-spend-cap", f"{config.spend_cap:g}"] if config.spend_cap is not None else []
    elif config.base_url and config.model:
        words += ["--perf-base-url", config.base_url, "--perf-model", config.model]
        words += ["--perf-api-key-env", config.api_key_env] if config.api_key_env else []
    else:
        words += ["--perf-golden"] if config.golden else []
        words += ["--perf-ladder", config.ladder] if config.ladder else []
        words += ["--perf-engine", key.engine]
    words += ["--perf-profile", config.profile] if config.profile != "full" else []
    if key.workload != BOOT:
        words += ["--perf-workload", key.workload]
    if config.history_dir != config.work_dir / "history":
        words += ["--perf-history", str(config.history_dir)]
    return [*words, "--perf-baseline", run_id]
