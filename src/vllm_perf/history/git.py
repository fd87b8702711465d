# SPDX-License-Identifier: Apache-2.0
"""The few questions put to git; outside a repository, and without git, each has a plain answer."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 30.0
MAX_COMMITS = 50_000
# Where a job runs on a detached HEAD, these say which branch it is for.
BRANCH_VARIABLES = ("GITHUB_HEAD_REF", "GITHUB_REF_NAME", "CI_COMMIT_REF_NAME", "BRANCH_NAME")


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The state of the suite's working tree; ``note`` says what is unusual about it, or why there is none."""

    commit: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    commit_time: str | None = None
    note: str | None = None


class GitError(Exception):
    """Say in git's own words why it could not answer."""


class Git:
    """One working tree, asked through the git command."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def run(self, *arguments: str) -> str:
        """Return the output of one git command, stripped.

        Raises:
            GitError: git is missing, too slow, or refused.
        """
        environ = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
        try:
            done = subprocess.run(
                ["git", "-C", str(self._directory), *arguments],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                env=environ,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise GitError(f"git {arguments[0]} took over {TIMEOUT_S:.0f} s") from error
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise GitError(lines[0] if lines else f"git {arguments[0]} exited {done.returncode}")
        return done.stdout.strip()

    def ask(self, *arguments: str) -> str | None:
        """Return the output of one git command, or ``None`` where git has no answer."""
        try:
            return self.run(*arguments) or None
        except GitError:
            return None

    def resolve(self, ref: str) -> str | None:
        """Return the commit that ``ref`` names; the suffix keeps it from being read as an option."""
        return self.ask("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")

    def ancestors(self, commit: str) -> tuple[str, ...]:
        """Return ``commit`` and what came before it, nearest first."""
        text = self.ask("rev-list", "--topo-order", f"--max-count={MAX_COMMITS}", commit)
        return tuple(text.split()) if text else ()

    def is_shallow(self) -> bool:
        """Tell whether the clone lacks older commits."""
        return self.ask("rev-parse", "--is-shallow-repository") == "true"


def describe_suite(directory: Path) -> Suite:
    """Return commit, branch and cleanness of the tree that ``directory`` is in; never raises."""
    git = Git(directory)
    try:
        git.run("rev-parse", "--is-inside-work-tree")
    except GitError as error:
        outside = "not a git repository" in str(error)
        return Suite(note="outside git" if outside else f"git did not answer: {error}")
    commit = git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:
        return Suite(note="a git repository without a commit")
    branch = git.ask("symbolic-ref", "--short", "--quiet", "HEAD")
    dirty = git.ask("status", "--porcelain", "--untracked-files=no") is not None
    notes = [] if branch else ["detached HEAD"]
    notes += ["uncommitted changes"] if dirty else []
    return Suite(
        commit=commit,
        branch=branch or _branch_of_the_job(),
        dirty=dirty,
        commit_time=git.ask("show", "--no-patch", "--format=%cI", "HEAD"),
        note=", ".join(notes) or None,
    )


def _branch_of_the_job() -> str | None:
    return next((os.environ[name] for name in BRANCH_VARIABLES if os.environ.get(name)), None)
