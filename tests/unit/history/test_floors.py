# SPDX-License-Identifier: Apache-2.0
"""Noise floors are filed by machine and load, learnt once from each run, and used in a comparison."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.history.builders import H200, at, environment
from tests.unit.history.synthetic import Truth, made_up
from tests.unit.history.test_compare import BASE, SLOWER, compared
from vllm_perf.history.compare import Rules
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.floors import FLOORS_NAME, floor_hardware, learn_floors, read_floors
from vllm_perf.history.git import Suite
from vllm_perf.history.learning import learn_from_runs
from vllm_perf.history.store import Store, StoreError
from vllm_perf.spec.history import HistorySpec, IdentitySpec


def test_without_a_file_nothing_is_learnt_yet(tmp_path: Path) -> None:
    assert not read_floors(tmp_path).floors


def test_pairs_add_up(tmp_path: Path) -> None:
    learn_floors(tmp_path, "hw", "chat", {"ttft_p50": [0.01, -0.02]})
    learn_floors(tmp_path, "hw", "chat", {"ttft_p50": [0.03]})
    assert read_floors(tmp_path).floors["hw", "chat", "ttft_p50"].log_ratios == (0.01, -0.02, 0.03)


@pytest.mark.parametrize(
    "text",
    ["{", '{"hardware": "x"}\n', "[]\n", '{"hardware": 1, "workload": 2, "metric": 3, "log_ratios": 4}'],
)
def test_a_damaged_file_is_an_error_not_an_unknown_floor(tmp_path: Path, text: str) -> None:
    (tmp_path / FLOORS_NAME).write_text(text)
    with pytest.raises(StoreError, match="damaged"):
        read_floors(tmp_path)


def test_floors_are_filed_by_the_identity_of_the_machine() -> None:
    policy = IdentitySpec()
    key = floor_hardware(environment(), policy)
    assert key == floor_hardware(environment(vllm="0.33.0", seed=3), policy)
    assert key == floor_hardware(environment(hardware=replace(H200, memory_gib=127.0)), policy)
    assert key != floor_hardware(environment(hardware=replace(H200, driver="1")), policy)


def test_a_learnt_floor_is_shown_and_used(tmp_path: Path) -> None:
    key = floor_hardware(BASE.cells[0].environment, IdentitySpec())
    learn_floors(tmp_path, key, "chat", {"ttft_p50": [0.30, -0.30] * 6})
    head = made_up("head", Truth(seed=2, slower="fp8", ttft=1.4))
    one = compared(head, BASE, rules=Rules(floors=read_floors(tmp_path))).of(SLOWER)
    assert one is not None
    assert one.comparison.allowed_by == "noise floor"
    assert one.comparison.floor == pytest.approx(math.expm1(1.96 * 0.30))
    assert one.comparison.change != "regressed"


def saved(tmp_path: Path, *commits: str, dirty: bool = False) -> Store:
    store = Store(tmp_path)
    for number, commit in enumerate(commits):
        suite = Suite(commit=commit or None, branch="main", dirty=dirty)
        store.save(made_up(f"r{number}", Truth(seed=number), created=at(number), suite=suite))
    return store


def learn(store: Store) -> dict[tuple[str, str], int]:
    def load(entry: RunEntry):  # type: ignore[no-untyped-def]  # noqa: ANN202
        return store.load(entry.file)

    return learn_from_runs(store.directory, store.contents().runs, load, HistorySpec())


def test_runs_of_one_commit_are_pairs(tmp_path: Path) -> None:
    store = saved(tmp_path, "a", "a", "a", "a", "b")
    assert learn(store) == {("initial", "chat"): 2, ("caching", "chat"): 2, ("fp8", "chat"): 2}
    key = floor_hardware(BASE.cells[0].environment, IdentitySpec())
    assert len(read_floors(tmp_path).floors[key, "chat", "ttft_p50"].log_ratios) == 6


def test_a_run_is_learnt_from_once(tmp_path: Path) -> None:
    store = saved(tmp_path, "a", "a")
    assert learn(store)
    assert not learn(store)


@pytest.mark.parametrize(("commits", "dirty"), [(("a", "b"), False), (("", ""), False), (("a", "a"), True)])
def test_what_may_not_be_the_same_thing_teaches_nothing(
    tmp_path: Path, commits: tuple[str, ...], dirty: bool
) -> None:
    assert not learn(saved(tmp_path, *commits, dirty=dirty))


def test_the_file_is_plain_lines_of_strict_json(tmp_path: Path) -> None:
    learn(saved(tmp_path, "a", "a"))
    for line in (tmp_path / FLOORS_NAME).read_text().splitlines():
        assert isinstance(json.loads(line), dict)
