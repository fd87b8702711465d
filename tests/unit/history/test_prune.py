# SPDX-License-Identifier: Apache-2.0
"""Pruning takes what nothing would be compared with any more, and nothing else."""

from dataclasses import replace

from tests.unit.history.builders import H200, at, environment, record, series
from vllm_perf.history.entry import RunEntry, entry_of
from vllm_perf.history.prune import plan_pruning
from vllm_perf.history.record import RunRecord, SeriesStatus
from vllm_perf.spec.history import HistorySpec

TWO = HistorySpec(keep_good=2)


def entries(*records: RunRecord) -> list[RunEntry]:
    return [entry_of(replace(one, created=at(n)), one.run_id) for n, one in enumerate(records)]


def kept(*args: RunRecord, **more: list[str]) -> list[str]:
    return [run.run_id for run in plan_pruning(entries(*args), TWO, **more).keep]


def good(name: str, **more: object) -> RunRecord:
    return record(run_id=name, **more)  # type: ignore[arg-type]


def bad(name: str) -> RunRecord:
    return record(series(status=SeriesStatus.FAILED_BUDGET), run_id=name)


def test_the_last_good_runs_stay() -> None:
    assert kept(good("a"), good("b"), good("c")) == ["b", "c"]


def test_failed_runs_do_not_push_the_good_ones_out() -> None:
    assert kept(good("a"), good("b"), *(bad(f"x{n}") for n in range(5))) == ["a", "b", "x3", "x4"]


def test_an_anchor_stays() -> None:
    assert kept(good("a"), good("b"), good("c"), good("d"), anchored=["a"]) == ["a", "c", "d"]


def test_another_machines_only_baseline_stays() -> None:
    l4 = good("l4", env=environment(hardware=replace(H200, gpu_names=("NVIDIA L4",))))
    assert kept(l4, good("a"), good("b"), good("c")) == ["l4", "b", "c"]


def test_a_series_that_only_an_old_run_has_keeps_it() -> None:
    rare = record(series(engine="rare"), run_id="rare")
    assert kept(rare, good("a"), good("b"), good("c")) == ["rare", "b", "c"]


def test_runs_of_branches_do_not_push_out_the_main_line() -> None:
    main = good("main", commit="a" * 40)
    branches = [good(f"b{n}", commit="b" * 40) for n in range(3)]
    assert kept(main, *branches, mainline=["a" * 40]) == ["main", "b1", "b2"]


def test_runs_of_dirty_trees_do_not_push_out_clean_ones() -> None:
    clean = good("clean", commit="a" * 40, dirty=False)
    assert kept(clean, *(good(f"d{n}", commit="a" * 40, dirty=True) for n in range(3)))[0] == "clean"


def test_other_software_counts_as_the_same_series() -> None:
    old = good("old", env=environment(vllm="0.31.0"))
    assert kept(old, good("a"), good("b")) == ["a", "b"]


def test_what_goes_and_what_stays_is_everything() -> None:
    plan = plan_pruning(entries(good("a"), good("b"), good("c")), TWO)
    assert [run.run_id for run in (*plan.drop, *plan.keep)] == ["a", "b", "c"]
