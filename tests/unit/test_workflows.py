# SPDX-License-Identifier: Apache-2.0
"""The workflows: valid, safe by construction, and every script they call run here."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TOOLS = Path(sys.executable).parent
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def run(*argv: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return data


def jobs() -> list[tuple[str, str, dict[str, Any]]]:
    return [(path.name, name, job) for path in WORKFLOWS for name, job in load(path.name)["jobs"].items()]


def runs_on_our_box(job: dict[str, Any]) -> bool:
    return "self-hosted" in job["runs-on"]


def test_the_three_workflows_are_there() -> None:
    assert [path.name for path in WORKFLOWS] == ["checks.yml", "perf-gate.yml", "perf-history.yml"]


def test_actionlint_finds_nothing() -> None:
    done = run(TOOLS / "actionlint", "-config-file", ".github/actionlint.yaml", *WORKFLOWS)
    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_finds_nothing() -> None:
    done = run(TOOLS / "zizmor", "--offline", "--strict-collection", "--no-progress", ".github")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No findings to report" in done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_commit_with_its_version_beside_it(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.fullmatch(line)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_is_permitted_that_a_job_does_not_ask_for(path: Path) -> None:
    assert load(path.name)["permissions"] == {}


def test_no_job_on_our_box_can_write() -> None:
    ours = [job for _, _, job in jobs() if runs_on_our_box(job)]
    assert [job["permissions"] for job in ours] == [{"contents": "read"}] * 2


def test_no_checkout_keeps_credentials() -> None:
    steps = [step for _, _, job in jobs() for step in job["steps"] if "checkout@" in step.get("uses", "")]
    assert len(steps) >= 6
    assert all(step["with"]["persist-credentials"] is False for step in steps)


def test_jobs_on_our_box_wait_in_one_line_for_one_gpu() -> None:
    lines = {str(job["concurrency"]) for _, _, job in jobs() if runs_on_our_box(job)}
    assert len(lines) == 1
    assert "'queue': 'max'" in lines.pop()


def test_the_gate_starts_by_a_label_only_and_never_for_a_fork() -> None:
    gate = load("perf-gate.yml")
    triggers = dict(gate.items())[True]  # type: ignore[index]  # YAML reads the key "on" as true
    assert triggers == {"pull_request": {"types": ["labeled"]}}
    condition = gate["jobs"]["admit"]["if"]
    assert "github.event.label.name == 'perf-gate'" in condition
    assert "head.repo.full_name == github.repository" in condition
    assert gate["jobs"]["measure"]["needs"] == "admit"


def test_the_gate_builds_both_sides_before_it_measures() -> None:
    steps = [str(step.get("run", "")) for step in load("perf-gate.yml")["jobs"]["measure"]["steps"]]
    built = next(at for at, text in enumerate(steps) if "ci-build base" in text and "ci-build head" in text)
    assert built < next(at for at, text in enumerate(steps) if "ci-gate" in text)


def test_results_are_uploaded_before_the_outcome_can_fail_the_job() -> None:
    for name in ("perf-gate.yml", "perf-history.yml"):
        steps = load(name)["jobs"]["measure"]["steps"]
        upload = next(at for at, step in enumerate(steps) if "upload-artifact" in step.get("uses", ""))
        outcome = next(at for at, step in enumerate(steps) if "ci-exit" in step.get("run", ""))
        assert steps[upload]["if"] == "always()"
        assert upload < outcome


def test_no_verdict_is_shown_as_skipped_and_a_broken_lab_is_not() -> None:
    condition = load("perf-gate.yml")["jobs"]["verdict"]["if"]
    assert "needs.measure.outputs.conclusion != 'neutral'" in condition
    assert condition.startswith("!cancelled()")


def test_publishing_does_not_depend_on_the_verdict() -> None:
    assert load("perf-history.yml")["jobs"]["publish"]["if"] == "!cancelled()"


def test_every_script_a_workflow_calls_is_there_and_can_be_run() -> None:
    called = {name for path in WORKFLOWS for name in re.findall(r"scripts/([\w-]+)", path.read_text())}
    ours = {name for name in called if name.startswith("ci-")}
    assert ours == {
        "ci-admit",
        "ci-build",
        "ci-checkout",
        "ci-exit",
        "ci-gate",
        "ci-history-append",
        "ci-history-run",
    }
    assert [name for name in ours if not os.access(ROOT / "scripts" / name, os.X_OK)] == []
