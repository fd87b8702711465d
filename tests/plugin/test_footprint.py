# SPDX-License-Identifier: Apache-2.0
"""What the plugin costs, and changes, where no perf test is selected: nothing."""

from pathlib import Path

import pytest

from tests.plugin.projects import Project
from vllm_perf.pytest_plugin.items import looks_like_perf, scope_of

HEAVY = "('numpy', 'scipy', 'aiohttp', 'openai', 'pydantic', 'vllm', 'torch', 'rich', 'psutil', 'uvloop')"
# Runs last of all, so that it sees whatever the session imported.
WITNESS = f"""
import sys

def pytest_unconfigure(config):
    print("imported:", sorted(name for name in {HEAVY} if name in sys.modules))
"""


@pytest.fixture
def stranger(tmp_path: Path) -> Project:
    """Return a project that has nothing to do with us."""
    project = Project(tmp_path / "stranger")
    for path in sorted((project.root / "fixtures").rglob("*.toml")):
        path.unlink()
    for path in sorted((project.root / "tests/perf").glob("*.py")):
        path.unlink()
    project.write("conftest.py", WITNESS)
    project.write(
        "test_own.py", "import pytest\n@pytest.mark.parametrize('u', ['http://a:1'])\ndef test(u): pass\n"
    )
    project.write(
        "pytest.ini", "[pytest]\naddopts = -p no:benchmark -p no:cacheprovider -p no:hypothesispytest\n"
    )
    return project


def test_nothing_heavy_is_imported_without_a_perf_test(project: Project) -> None:
    project.write("conftest.py", WITNESS)
    project.write("tests/unit/test_one.py", "def test_one(): pass")
    run = project.run_apart("-s", "-p", "no:xdist", paths=("tests/unit",))
    assert run.code == 0, run.text
    assert "imported: []" in run.text


def test_a_stranger_is_left_alone(stranger: Project) -> None:
    before = {path for path in stranger.root.rglob("*") if "__pycache__" not in path.parts}
    run = stranger.run_apart("-s", "-p", "no:xdist", paths=(), golden=False)
    after = {path for path in stranger.root.rglob("*") if "__pycache__" not in path.parts}
    assert run.code == 0, run.text
    assert "imported: []" in run.text
    said = [line for line in run.text.splitlines() if not line.startswith("plugins: ")]
    assert not [line for line in said if "vllm-perf" in line]
    assert {path.name for path in after - before} == {path.name for path in stranger.root.glob("junit-*.xml")}


def test_a_strangers_tests_are_scheduled_as_they_were(stranger: Project) -> None:
    run = stranger.run("-n", "1", "--dist", "worksteal", "-v", paths=(), golden=False)
    assert run.code == 0, run.text
    assert "scheduling tests via WorkStealingScheduling" in run.text


def test_a_colon_in_other_peoples_parameters_makes_no_scope() -> None:
    nodeid = "test_own.py::test[http://a:1]"
    assert looks_like_perf(nodeid)
    assert scope_of(nodeid, {"first", "last"}) == nodeid
    assert scope_of("t.py::test[first:chat:ttft_p50]", {"first", "last"}) == "first"
    assert scope_of("t.py::test[ladder:last:chat:ttft_p50]", {"first", "last"}) == "ladder"


def test_other_tests_keep_the_meaning_of_dist() -> None:
    assert scope_of("a/t.py::C::test", (), "loadscope") == "a/t.py::C"
    assert scope_of("a/t.py::C::test", (), "loadfile") == "a/t.py"
    assert scope_of("a/t.py::C::test@gpu", (), "loadgroup") == "gpu"
    assert scope_of("a/t.py::C::test", (), "load") == "a/t.py::C::test"
