# SPDX-License-Identifier: Apache-2.0
"""The workflows: valid, safe by construction, and every script they call run here."""

import os
import re
import subprocess
import sys
import time
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


def steps_text(workflow: str, job: str, name: str) -> str:
    """Return the shell text of one step."""
    steps = load(workflow)["jobs"][job]["steps"]
    text: str = next(step["run"] for step in steps if step.get("name") == name)
    return text


def shell(text: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a step's text as GitHub does."""
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
    return subprocess.run(
        words, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(("conclusion", "code"), [("pass", 0), ("fail", 1), ("broken", 1), ("", 1)])
def test_the_verdict_step_is_green_for_a_pass_alone(tmp_path: Path, conclusion: str, code: int) -> None:
    text = steps_text("perf-gate.yml", "verdict", "Verdict")
    done = shell(text, tmp_path, CONCLUSION=conclusion)
    assert done.returncode == code
    assert f"the gate ended: {conclusion or 'without a result'}" in done.stdout


@pytest.mark.parametrize(
    ("results", "code"), [("success success", 0), ("success failure", 1), ("success skipped", 1)]
)
def test_the_job_a_branch_rule_asks_for_is_green_only_if_all_are(
    tmp_path: Path, results: str, code: int
) -> None:
    text = steps_text("checks.yml", "checks", "All green?")
    assert shell(text, tmp_path, RESULTS=results).returncode == code


def test_results_of_another_week_are_forgotten_and_newer_ones_kept(tmp_path: Path) -> None:
    text = steps_text("perf-gate.yml", "measure", "Forget results older than a week")
    assert shell(text, tmp_path).returncode == 0  # the first job on a new box
    for name, age_days in (("old", 9), ("new", 1)):
        (tmp_path / "results" / name / "logs").mkdir(parents=True)
        when = time.time() - age_days * 86_400
        os.utime(tmp_path / "results" / name, (when, when))
    assert shell(text, tmp_path).returncode == 0
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["new"]


def test_every_inline_step_is_a_script_or_is_run_here() -> None:
    """What a workflow says in its own shell, beside calling our scripts; each is under test above."""
    inline = {
        str(step.get("name", step["run"]))
        for _, _, job in jobs()
        for step in job["steps"]
        if "run" in step and "scripts/" not in step["run"]
    }
    # Asking GitHub itself cannot be run here; test_ci_scripts judges what it may answer.
    assert inline == {
        "All green?",
        "Verdict",
        "Forget results older than a week",
        "Ask GitHub who set the label and what the head is now",
    }
