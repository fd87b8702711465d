# SPDX-License-Identifier: Apache-2.0
"""H74: outside git, detached, dirty and without a commit are states with a name, never an error."""

from pathlib import Path

import pytest

from tests.unit.history.builders import commit, git
from vllm_perf.history.git import BRANCH_VARIABLES, Git, GitError, describe_suite


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in BRANCH_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    git(tmp_path, "init")
    return tmp_path


def test_h74_outside_git(tmp_path: Path) -> None:
    suite = describe_suite(tmp_path)
    assert (suite.commit, suite.branch, suite.dirty, suite.note) == (None, None, None, "outside git")


def test_h74_on_a_branch(repository: Path) -> None:
    name = commit(repository, "1")
    suite = describe_suite(repository)
    assert (suite.commit, suite.branch, suite.dirty, suite.note) == (name, "main", False, None)
    assert suite.commit_time is not None


def test_h74_a_dirty_tree(repository: Path) -> None:
    commit(repository, "1")
    (repository / "file.txt").write_text("changed")
    suite = describe_suite(repository)
    assert (suite.dirty, suite.note) == (True, "uncommitted changes")


def test_results_beside_the_code_do_not_make_it_dirty(repository: Path) -> None:
    commit(repository, "1")
    (repository / "result.json").write_text("{}")
    assert describe_suite(repository).dirty is False


def test_h74_a_detached_head(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = commit(repository, "1")
    git(repository, "checkout", "--detach")
    assert describe_suite(repository).note == "detached HEAD"
    assert describe_suite(repository).branch is None
    monkeypatch.setenv("GITHUB_REF_NAME", "feature")
    assert (describe_suite(repository).commit, describe_suite(repository).branch) == (name, "feature")


def test_a_repository_without_a_commit(repository: Path) -> None:
    assert describe_suite(repository).note == "a git repository without a commit"


def test_git_that_is_not_installed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_suite(tmp_path).note == "git did not answer: git is not installed"


def test_a_refusal_is_passed_on_in_gits_own_words(repository: Path) -> None:
    with pytest.raises(GitError, match="not a git command"):
        Git(repository).run("frobnicate")


def test_a_ref_cannot_smuggle_in_an_option(repository: Path) -> None:
    commit(repository, "1")
    assert Git(repository).resolve("--all") is None
    assert Git(repository).resolve("HEAD") is not None
