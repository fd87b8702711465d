# SPDX-License-Identifier: Apache-2.0
"""Hold one run of the suite against an earlier one of the same machine: three metrics, one word each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vllm_perf.gate.sides import side_of
from vllm_perf.history.baseline import Baseline, BaselineSet, find_baselines
from vllm_perf.history.compare import Rules
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.environment import Environment, Hardware
from vllm_perf.history.floors import read_floors
from vllm_perf.history.record import RunRecord, SeriesKey
from vllm_perf.history.reference import Search, search_for
from vllm_perf.history.store import Store, StoreError
from vllm_perf.lab.result import CellResult
from vllm_perf.spec.history import HistorySpec, IdentitySpec
from vllm_perf.verdict.comparison import compare_metric
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change

# What one boot can be judged by; the tails of one boot are mostly luck.
METRICS = ("ttft_p50", "tpot_p50", "output_throughput")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One metric of one cell; ``change`` is ``None`` where there is nothing to compare with."""

    key: SeriesKey
    change: Change | None
    reason: str


def last_good(history: Path, hardware: Hardware, engines: Sequence[str]) -> RunEntry | None:
    """Return the newest stored run of this machine with a good series of the engines asked for."""
    try:
        runs = Store(history).contents().runs
    except StoreError:
        return None
    return next((run for run in reversed(runs) if _fits(run, hardware, engines)), None)


def newest(history: Path, known: Sequence[str]) -> RunRecord | None:
    """Return the run that was stored since only the files ``known`` were there."""
    store = Store(history)
    fresh = [run for run in store.contents().runs if run.file not in known]
    return store.load(fresh[-1].file) if fresh else None


def judge(history: Path, record: RunRecord, ref: str, allowed: float) -> list[Judged]:
    """Compare every cell of ``record`` with the run that ``ref`` names (a file, an anchor, a run, a commit).

    Raises:
        StoreError: ``ref`` is none of these, or what it names cannot be read.
    """
    store = Store(history)
    search = search_for(store, ref, directory=Path.cwd(), suite=record.suite)
    found = find_baselines(search.runs, record, lineage=search.lineage, policy=HistorySpec())
    keys = [key for key in record.by_key if key.metric in METRICS]
    rules = Rules(policy=Policy(allowed=allowed), floors=read_floors(history))
    return [_judge(key, found, _Stored(store, search, record, rules)) for key in keys]


@dataclass(frozen=True, slots=True)
class _Stored:
    store: Store
    search: Search
    record: RunRecord
    rules: Rules


def _judge(key: SeriesKey, found: BaselineSet, stored: _Stored) -> Judged:
    baseline: Baseline | None = found.found.get(key)
    if baseline is None:
        missing = found.missing.get(key)
        return Judged(key=key, change=None, reason=missing.reason if missing else "no baseline")
    base = stored.search.load(stored.store, baseline.run)
    before, after = _cell(base, key), _cell(stored.record, key)
    policy = stored.rules.between(base, stored.record, key)
    one = compare_metric(key.metric, [side_of(before)], [side_of(after)], policy)
    return Judged(key=key, change=one.change, reason=one.reason)


def _cell(record: RunRecord, key: SeriesKey) -> CellResult:
    where = (key.engine, key.workload)
    series = tuple(one for one in record.series if (one.engine, one.workload) == where)
    return CellResult(engine=key.engine, workload=key.workload, cell=record.by_cell[where], series=series)


def _fits(run: RunEntry, hardware: Hardware, engines: Sequence[str]) -> bool:
    keys = [key for key in run.good_keys() if not engines or key.engine in engines]
    return bool(keys) and _same_machine(run.environment_of(keys[0]), hardware)


def _same_machine(environment: Environment, hardware: Hardware) -> bool:
    fields = IdentitySpec().fields("hardware")
    return all(getattr(environment.hardware, name) == getattr(hardware, name) for name in fields)
