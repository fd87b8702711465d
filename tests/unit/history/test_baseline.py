# SPDX-License-Identifier: Apache-2.0
"""Like is compared with like, and where there is no like, it is said why."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.history.builders import H200, at, commit, environment, git, record, series
from vllm_perf.history.anchors import drop_anchor, set_anchor
from vllm_perf.history.baseline import BaselineSet, Missing, find_baselines
from vllm_perf.history.git import describe_suite
from vllm_perf.history.record import RunRecord, SeriesKey, SeriesStatus
from vllm_perf.history.reference import load_named, search_for
from vllm_perf.history.store import Store, StoreError
from vllm_perf.spec.history import HistorySpec, IdentitySpec

KEY = SeriesKey("initial", "chat", "ttft_p50")


def stored(directory: Path, *records: RunRecord) -> Store:
    store = Store(directory / "history")
    for one in records:
        store.save(one)
    return store


def search(
    store: Store, head: RunRecord, *, ref: str | None = None, policy: HistorySpec | None = None
) -> BaselineSet:
    where = search_for(store, ref, directory=store.directory.parent, suite=head.suite)
    return find_baselines(where.runs, head, lineage=where.lineage, policy=policy or HistorySpec())


def runs_of(commits: Sequence[str]) -> list[RunRecord]:
    return [record(run_id=f"of_{n}", created=at(n), commit=name) for n, name in enumerate(commits)]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init")
    return tmp_path


def test_h69_the_first_run_creates_the_baseline(tmp_path: Path) -> None:
    found = search(stored(tmp_path), record())
    assert found.created
    assert found.missing[KEY].missing is Missing.FIRST_RUN
    assert not found.partnerless


def test_h70_a_machine_that_only_changed_its_clock_is_the_same_machine(tmp_path: Path) -> None:
    head = record(run_id="head", env=environment(hardware=replace(H200, nvml_note="odd", memory_gib=127.9)))
    assert KEY in search(stored(tmp_path, record(run_id="base")), head).found


def test_runs_of_two_clients_are_never_compared(tmp_path: Path) -> None:
    """What the openai SDK adds to a time would otherwise be a regression of the server."""
    base = record(run_id="base")
    head = record(run_id="head", env=environment(client="openai 3.57.0"))
    found = search(stored(tmp_path, base), head)
    assert not found.found
    assert found.missing[KEY].missing is Missing.OTHER_WORKLOAD
    assert "workload.client: socket → openai 3.57.0" in found.missing[KEY].reason
    again = record(run_id="again", env=environment(client="openai 3.57.0"))
    assert search(stored(tmp_path, head), again).found[KEY].run.run_id == "head"


def test_h71_a_renamed_series_is_listed_on_both_sides(tmp_path: Path) -> None:
    head = record(series(engine="first"), run_id="head")
    found = search(stored(tmp_path, record(run_id="base")), head)
    assert not found.found
    assert found.vanished == (KEY,)
    assert found.missing[SeriesKey("first", "chat", "ttft_p50")].missing is Missing.NEW_SERIES
    assert [line.partition(":")[0] for line in found.partnerless] == [
        "ttft_p50[first-chat]",
        "ttft_p50[initial-chat]",
    ]


@pytest.mark.parametrize("status", [s for s in SeriesStatus if s is not SeriesStatus.OK])
def test_h72_a_run_that_did_not_end_well_is_never_the_baseline(tmp_path: Path, status: SeriesStatus) -> None:
    bad = series(value=None if status is SeriesStatus.FAILED else 900.0, status=status)
    store = stored(tmp_path, record(run_id="good", created=at(0)), record(bad, run_id="bad", created=at(1)))
    assert search(store, record(run_id="head", created=at(2))).found[KEY].run.run_id == "good"


def test_where_every_run_failed_there_is_no_baseline_and_it_is_said(tmp_path: Path) -> None:
    bad = record(series(status=SeriesStatus.FAILED_BUDGET), run_id="bad")
    missing = search(stored(tmp_path, bad), record(run_id="head")).missing[KEY]
    assert missing.missing is Missing.NO_GOOD_RUN
    assert missing.reason == "no good run of it: 1 stored, all failed_budget"


def test_h74_two_vllm_versions_at_one_commit_are_distinct_and_compared(tmp_path: Path) -> None:
    base = record(run_id="base", commit="a" * 40, env=environment(vllm="0.32.0"))
    head = record(run_id="head", commit="a" * 40, env=environment(vllm="0.33.0"))
    assert base.cells[0].environment.software_key != head.cells[0].environment.software_key
    found = search(stored(tmp_path, base), head).found[KEY]
    assert found.differences == ("software.vllm_version: 0.32.0 → 0.33.0",)


def test_another_gpu_is_no_baseline_and_what_differs_is_named(tmp_path: Path) -> None:
    l4 = record(run_id="l4", env=environment(hardware=replace(H200, gpu_names=("NVIDIA L4",))))
    missing = search(stored(tmp_path, l4), record(run_id="head")).missing[KEY]
    assert missing.missing is Missing.OTHER_HARDWARE
    assert missing.differences == ("hardware.gpu_names: NVIDIA L4 → NVIDIA H200",)
    assert missing.reason.startswith("no baseline for this hardware: the nearest, run l4 (no commit")


def test_another_prompt_set_is_no_baseline(tmp_path: Path) -> None:
    other = record(run_id="other", env=environment(seed=1))
    missing = search(stored(tmp_path, other), record(run_id="head")).missing[KEY]
    assert missing.missing is Missing.OTHER_WORKLOAD
    assert missing.differences == ("workload.seed: 1 → (none)",)


def test_another_way_of_measuring_is_no_baseline_and_another_release_is_one(tmp_path: Path) -> None:
    other = record(run_id="other", created=at(1), env=environment(protocol=1))
    head = record(run_id="head", env=environment(protocol=2))
    missing = search(stored(tmp_path, other), head).missing[KEY]
    assert missing.differences == ("workload.protocol: 1 → 2",)
    release = replace(record(run_id="release", env=environment(protocol=2)), harness_version="0.0.9")
    assert search(stored(tmp_path, release), head).found[KEY].run.run_id == "release"


def test_of_several_that_do_not_match_the_nearest_is_named(tmp_path: Path) -> None:
    far = record(
        run_id="far", created=at(1), env=environment(hardware=replace(H200, driver="1", cpu_count=2))
    )
    near = record(run_id="near", created=at(0), env=environment(hardware=replace(H200, driver="1")))
    missing = search(stored(tmp_path, far, near), record(run_id="head")).missing[KEY]
    assert missing.differences == ("hardware.driver: 1 → 590.44",)


def test_the_policy_makes_the_driver_the_subject(tmp_path: Path) -> None:
    old = record(run_id="old", env=environment(hardware=replace(H200, driver="1")))
    policy = HistorySpec(identity=IdentitySpec(hardware=("gpu_names",)))
    found = search(stored(tmp_path, old), record(run_id="head"), policy=policy).found[KEY]
    assert found.differences == ("hardware.driver: 1 → 590.44",)


def test_the_policy_makes_the_software_identity(tmp_path: Path) -> None:
    old = record(run_id="old", env=environment(vllm="0.31.0"))
    policy = HistorySpec(identity=IdentitySpec(software=("vllm_version",)))
    missing = search(stored(tmp_path, old), record(run_id="head"), policy=policy).missing[KEY]
    assert missing.missing is Missing.OTHER_SOFTWARE


def test_a_partial_latest_run_leaves_the_older_baseline_in_place(tmp_path: Path) -> None:
    both = record(series(), series(engine="last"), run_id="both", created=at(0))
    part = record(series(engine="last"), run_id="part", created=at(1))
    found = search(stored(tmp_path, both, part), record(series(), series(engine="last"), run_id="head"))
    assert {key.engine: item.run.run_id for key, item in found.found.items()} == {
        "initial": "both",
        "last": "part",
    }


def test_a_record_is_never_its_own_baseline(tmp_path: Path) -> None:
    head = record(run_id="head")
    assert search(stored(tmp_path, head), head).created


def test_outside_git_the_newest_good_run_is_taken_and_it_is_said(tmp_path: Path) -> None:
    store = stored(tmp_path, record(run_id="old", created=at(0)), record(run_id="new", created=at(5)))
    head = replace(record(run_id="head"), suite=describe_suite(tmp_path))
    found = search(store, head).found[KEY]
    assert found.run.run_id == "new"
    assert found.notes == ("chosen by time alone (outside git)",)


def test_the_baseline_is_on_the_merge_bases_ancestry(repository: Path) -> None:
    first, second = commit(repository, "1"), commit(repository, "2")
    git(repository, "checkout", "-b", "feature")
    mine = commit(repository, "3")
    git(repository, "checkout", "main")
    later = commit(repository, "4")
    git(repository, "checkout", "feature")
    store = stored(repository, *runs_of([first, second, mine, later]))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(store, head).found[KEY].run.commit == second


def test_the_nearest_commit_wins_over_the_latest_measurement(repository: Path) -> None:
    first, second = commit(repository, "1"), commit(repository, "2")
    store = stored(
        repository,
        record(run_id="near", created=at(0), commit=second),
        record(run_id="again", created=at(9), commit=first),
    )
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(store, head).found[KEY].run.run_id == "near"


def test_a_second_run_of_one_commit_is_compared_with_the_first(repository: Path) -> None:
    name = commit(repository, "1")
    store = stored(repository, record(run_id="base", commit=name))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(store, head).found[KEY].run.run_id == "base"


def test_a_branch_without_a_measured_past_falls_back_on_itself_and_says_so(repository: Path) -> None:
    commit(repository, "1")
    git(repository, "checkout", "-b", "feature")
    mine = commit(repository, "2")
    store = stored(repository, record(run_id="mine", commit=mine))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    found = search(store, head).found[KEY]
    assert found.notes == (
        "measured on this branch itself: nothing that fits was measured on main before it",
    )


def test_runs_of_another_branch_are_no_baseline(repository: Path) -> None:
    first = commit(repository, "1")
    git(repository, "checkout", "-b", "other")
    other = commit(repository, "2")
    git(repository, "checkout", "main")
    store = stored(repository, record(run_id="other", commit=other))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    missing = search(store, head).missing[KEY]
    assert missing.missing is Missing.OTHER_LINEAGE
    assert missing.reason.startswith(f"1 good runs are stored, none on the past of {first[:9]}")


def test_a_shallow_clone_says_that_it_is_shallow(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, _second = commit(repository, "1"), commit(repository, "2")
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", "--depth=1", f"file://{repository}", ".")
    store = stored(clone, record(run_id="base", commit=first))
    head = replace(record(run_id="head"), suite=describe_suite(clone))
    assert "this clone is shallow" in search(store, head).missing[KEY].reason


def test_a_clean_tree_prefers_a_clean_baseline(repository: Path) -> None:
    name = commit(repository, "1")
    clean = record(run_id="clean", created=at(0), commit=name, dirty=False)
    dirty = record(run_id="dirty", created=at(1), commit=name, dirty=True)
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(stored(repository, clean, dirty), head).found[KEY].run.run_id == "clean"


def test_a_dirty_baseline_is_better_than_none_and_said_to_be(repository: Path) -> None:
    name = commit(repository, "1")
    dirty = record(run_id="dirty", commit=name, dirty=True)
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(stored(repository, dirty), head).found[KEY].notes == (
        "measured on a tree with uncommitted changes",
    )


def test_a_named_ref_is_its_own_commit_or_what_was_measured_before_it(repository: Path) -> None:
    first, second = commit(repository, "1"), commit(repository, "2")
    git(repository, "tag", "v1")
    third = commit(repository, "3")
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    store = stored(repository, *runs_of([first, second, third]))
    assert search(store, head, ref="v1").found[KEY].run.commit == second
    store.remove([store.contents().runs[1].file])
    fallback = search(store, head, ref="v1").found[KEY]
    assert fallback.run.commit == first
    assert fallback.notes[0].startswith("nothing that fits was measured at v1")


def test_an_anchor_stays_where_it_was_set(tmp_path: Path) -> None:
    store = stored(tmp_path, record(run_id="old", created=at(0)), record(run_id="new", created=at(1)))
    set_anchor(store.directory, "release", store.contents().runs[0].file)
    assert search(store, record(run_id="head"), ref="release").found[KEY].run.run_id == "old"


def test_a_file_from_elsewhere_may_be_the_baseline(tmp_path: Path) -> None:
    elsewhere = Store(tmp_path / "elsewhere").save(record(run_id="far"))
    store = stored(tmp_path, record(run_id="near"))
    assert search(store, record(run_id="head"), ref=str(elsewhere)).found[KEY].run.run_id == "far"


def test_a_run_may_be_named_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    store = stored(tmp_path, record(run_id="abcd1234", created=at(0)), record(run_id="ef", created=at(1)))
    assert search(store, record(run_id="head"), ref="abcd").found[KEY].run.run_id == "abcd1234"


def test_even_a_named_baseline_must_match_and_be_good(tmp_path: Path) -> None:
    store = stored(
        tmp_path,
        record(run_id="abcd1", created=at(0), env=environment(hardware=replace(H200, driver="1"))),
        record(series(status=SeriesStatus.INVALID), run_id="abcd2", created=at(1)),
        record(run_id="fine", created=at(2)),
    )
    head = record(run_id="head")
    assert search(store, head, ref="abcd1").missing[KEY].missing is Missing.OTHER_HARDWARE
    assert KEY not in search(store, head, ref="abcd2").found


def test_a_baseline_that_is_nothing_known_is_an_error_that_lists_the_anchors(tmp_path: Path) -> None:
    store = stored(tmp_path, record())
    set_anchor(store.directory, "release", store.contents().runs[0].file)
    with pytest.raises(StoreError, match=r"'relaese' is no file, no anchor \(release\)"):
        search(store, record(run_id="head"), ref="relaese")


def test_an_ambiguous_run_is_an_error(tmp_path: Path) -> None:
    store = stored(tmp_path, record(run_id="abcd1"), record(run_id="abcd2", created=at(1)))
    with pytest.raises(StoreError, match="beginning of 2 runs"):
        search(store, record(run_id="head"), ref="abcd")


def test_an_anchor_that_points_nowhere_is_an_error(tmp_path: Path) -> None:
    store = stored(tmp_path, record())
    file = store.contents().runs[0].file
    set_anchor(store.directory, "release", file)
    store.remove([file])
    with pytest.raises(StoreError, match="gone or cannot be read"):
        search(store, record(run_id="head"), ref="release")


@pytest.mark.parametrize("name", ["", "1st", "a b", "a.b", "ä"])
def test_an_anchor_needs_a_plain_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="a name is a letter"):
        set_anchor(tmp_path, name, "x.json")


def test_an_anchor_may_be_dropped_once(tmp_path: Path) -> None:
    store = stored(tmp_path, record())
    set_anchor(store.directory, "release", store.contents().runs[0].file)
    drop_anchor(store.directory, "release")
    with pytest.raises(StoreError, match="no anchor 'release'"):
        drop_anchor(store.directory, "release")


def test_a_broken_anchor_file_is_an_error_not_a_lost_baseline(tmp_path: Path) -> None:
    store = stored(tmp_path, record())
    (store.directory / "anchors.toml").write_text("release = ")
    with pytest.raises(StoreError, match="cannot be read"):
        search(store, record(run_id="head"), ref="release")


def test_a_series_vanished_long_ago_is_not_listed_for_ever(tmp_path: Path) -> None:
    runs = [record(series(engine="old"), run_id="r0", created=at(0))]
    runs += [record(run_id=f"r{n}", created=at(n)) for n in range(1, 4)]
    policy = HistorySpec(partner_window=3)
    assert not search(stored(tmp_path, *runs), record(run_id="head"), policy=policy).vanished
    policy = HistorySpec(partner_window=4)
    assert search(stored(tmp_path / "b", *runs), record(run_id="head"), policy=policy).vanished


def test_a_metric_that_never_had_a_value_needs_no_partner(tmp_path: Path) -> None:
    none = series(metric="goodput", value=None, status=SeriesStatus.FAILED)
    found = search(
        stored(tmp_path, record(series(), none, run_id="base")), record(series(), none, run_id="head")
    )
    assert not found.partnerless


def test_a_metric_that_lost_its_value_keeps_its_partner(tmp_path: Path) -> None:
    lost = series(value=None, status=SeriesStatus.FAILED)
    assert KEY in search(stored(tmp_path, record(run_id="base")), record(lost, run_id="head")).found


def test_a_run_without_a_commit_is_not_in_any_past(repository: Path) -> None:
    commit(repository, "1")
    store = stored(repository, record(run_id="loose"))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(store, head).missing[KEY].missing is Missing.OTHER_LINEAGE


def test_what_another_machine_measured_has_not_vanished_here(tmp_path: Path) -> None:
    l4 = environment(hardware=replace(H200, gpu_names=("NVIDIA L4",)))
    other = record(series(engine="small"), run_id="l4", env=l4)
    store = stored(tmp_path, other, record(run_id="base", created=at(1)))
    assert not search(store, record(run_id="head")).vanished


def test_what_differs_is_said_even_where_the_past_does_not_fit_either(repository: Path) -> None:
    commit(repository, "1")
    l4 = environment(hardware=replace(H200, gpu_names=("NVIDIA L4",)))
    store = stored(repository, record(run_id="loose", env=l4))
    head = replace(record(run_id="head"), suite=describe_suite(repository))
    assert search(store, head).missing[KEY].missing is Missing.OTHER_HARDWARE


def test_a_baseline_of_a_run_that_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    found = search(stored(tmp_path, record(run_id="base", complete=False)), record(run_id="head")).found[KEY]
    assert "measured by a run that was cut short" in found.notes


def test_an_anchor_file_of_another_shape_is_an_error(tmp_path: Path) -> None:
    store = stored(tmp_path, record())
    (store.directory / "anchors.toml").write_text("[anchors]\nrelease = 3\n")
    with pytest.raises(StoreError, match="expected a table"):
        search(store, record(run_id="head"), ref="release")


def test_an_anchor_cannot_point_at_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such run"):
        set_anchor(tmp_path, "release", "none.json")


def test_a_commit_that_was_never_measured_has_no_record(repository: Path) -> None:
    commit(repository, "1")
    git(repository, "tag", "v1")
    with pytest.raises(StoreError, match="nothing was measured at v1"):
        load_named(stored(repository, record()), "v1", repository)
