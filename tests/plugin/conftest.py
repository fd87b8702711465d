# SPDX-License-Identifier: Apache-2.0
"""What the plugin's tests share: a project, and runs of the whole ladder that several tests look at."""

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.projects import Finished, Project
from tests.plugin.stock import StockProject


def with_one_engine(root: Path) -> Project:
    """Return a project with the last engine alone."""
    made = Project(root)
    made.engines('engines = ["first", "middle", "last"]', 'engines = ["last"]')
    return made


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project of its own for one test, with one engine."""
    return with_one_engine(tmp_path / "project")


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a project that has one good run."""
    made = with_one_engine(tmp_path_factory.mktemp("measured") / "project")
    run = made.run("--benchmark-compare")
    assert run.code == 0, run.text
    return made.root


@pytest.fixture
def measured(measured_once: Path, tmp_path: Path) -> Project:
    """Return a project of its own for one test, with one engine and one good run of it."""
    shutil.copytree(measured_once, tmp_path / "project")
    return with_one_engine(tmp_path / "project")


@pytest.fixture
def stock(tmp_path: Path) -> StockProject:
    """Return a project of its own for one test that has pytest-benchmark alone; it measured 0.2 s."""
    made = StockProject(tmp_path / "stock")
    made.measured(ttft=0.2)
    return made


@pytest.fixture
def ladder(tmp_path: Path) -> Project:
    """Return a project of its own for one test, with the ladder of three engines."""
    return Project(tmp_path / "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoRuns:
    """The ladder measured twice in one project: alone, then on two of xdist's workers."""

    project: Project
    alone: Finished
    alone_boots: list[str]
    benchmark_json: Path
    spread: Finished
    spread_boots: list[str]


@pytest.fixture(scope="session")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> TwoRuns:
    """Measure the ladder for the first time as strictly as can be, then again with ``-n 2``."""
    project = Project(tmp_path_factory.mktemp("two-runs") / "project")
    strict = ("--benchmark-compare", "--benchmark-compare-fail=median:5%", "-W", "error")
    path = project.root / "benchmark.json"
    alone = project.run_apart(*strict, f"--benchmark-json={path}", "--benchmark-autosave")
    alone_boots = project.boots()
    project.forget_boots()
    spread = project.run_apart("--benchmark-compare", "-n", "2", "-v")
    return TwoRuns(
        project=project,
        alone=alone,
        alone_boots=alone_boots,
        benchmark_json=path,
        spread=spread,
        spread_boots=project.boots(),
    )
