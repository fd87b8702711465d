# SPDX-License-Identifier: Apache-2.0
"""scripts/predeploy on golden engines: DON'T KNOW without a record, then GO, and NO-GO when slower."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.projects import DROPPED, PATIENCE_S, Project
from tests.plugin.servers import golden_process
from vllm_perf.load.plan import Target


@pytest.fixture
def deploy(tmp_path: Path) -> Project:
    """Return a project whose chat is spread out, so that one stall of this machine is not every request's."""
    made = Project(tmp_path / "project")
    made.change(
        "fixtures/workloads.toml", 'kind = "closed", concurrency = 8', 'kind = "constant", rate_per_s = 40'
    )
    made.change("fixtures/workloads.toml", "requests = 8", "requests = 40")
    made.engines("ttft-ms = 100, itl-ms = 15", "ttft-ms = 200, itl-ms = 50")
    return made


def predeploy(project: Project, *words: str) -> tuple[int, str]:
    """Return exit code and output of the command that scripts/predeploy ends in."""
    inherited = {name: value for name, value in os.environ.items() if name not in DROPPED}
    done = subprocess.run(
        [sys.executable, "-m", "vllm_perf.gate.predeploy", *words],
        cwd=project.root,
        env={**inherited, **project.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


def last_words(text: str) -> str:
    """Return what stands between the last two rules: the word and its reasons."""
    return text.rsplit("=" * 78, 2)[1]


def test_an_engine_of_ours_goes_from_dont_know_to_go_to_no_go(deploy: Project) -> None:
    code, text = predeploy(deploy, "--perf-golden")
    assert code == 10, text
    assert "DON'T KNOW  (after " in text
    assert "there is no good record of this machine to compare with; this run is one now" in last_words(text)
    code, text = predeploy(deploy, "--perf-golden")
    assert code == 0, text
    assert last_words(text).startswith("\nGO  (after ")
    assert "every budget holds, and nothing is slower" in last_words(text)
    assert "ttft_p50 2" in last_words(text)
    deploy.engines("itl-ms = 50", "itl-ms = 75")
    code, text = predeploy(deploy, "--perf-golden")
    assert code == 1, text
    assert last_words(text).startswith("\nNO-GO  (after ")
    assert "tpot_p50[last-chat] regressed" in last_words(text)


def test_a_missed_budget_is_no_go_whatever_the_record(deploy: Project) -> None:
    deploy.change("fixtures/budgets/cpu.toml", "max = 250", "max = 50")
    code, text = predeploy(deploy, "--perf-golden")
    assert code == 1, text
    assert "NO-GO" in last_words(text)
    assert "at most 50 is allowed" in last_words(text)


@pytest.fixture
def server() -> Iterator[Target]:
    """Return a server that someone else runs."""
    with golden_process(ttft_ms=200, itl_ms=50) as target:
        yield target


def test_a_server_that_runs_already_goes_the_same_way(deploy: Project, server: Target) -> None:
    words = ("--perf-base-url", server.base_url, "--perf-model", server.model)
    code, text = predeploy(deploy, *words)
    assert code == 10, text
    code, text = predeploy(deploy, *words)
    assert code == 0, text
    assert last_words(text).startswith("\nGO  (after ")
    with golden_process(ttft_ms=300, itl_ms=50) as slower:
        code, text = predeploy(deploy, "--perf-base-url", slower.base_url, "--perf-model", slower.model)
    assert code == 1, text
    assert "ttft_p50[external-chat] regressed" in last_words(text)


def test_a_server_that_is_not_there_is_no_go(deploy: Project) -> None:
    code, text = predeploy(deploy, "--perf-base-url", "http://127.0.0.1:9/v1", "--perf-model", "x")
    assert code == 1, text
    assert "NO-GO" in last_words(text)
    assert "the server at http://127.0.0.1:9/v1" in last_words(text)
