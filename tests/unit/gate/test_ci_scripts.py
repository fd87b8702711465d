# SPDX-License-Identifier: Apache-2.0
"""What the workflows' steps do, run here: the scripts they call, what they write, what they refuse."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
HEAD, BASE = "a" * 40, "b" * 40


def script(
    name: str, *argv: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("GIT", "GH_", "PERF_"))}
    return subprocess.run(
        [str(ROOT / "scripts" / name), *map(str, argv)],
        cwd=cwd,
        env=clean | (env or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def git(folder: Path, *argv: str) -> str:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *argv], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


# --- exit codes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "exits", "conclusion", "level"),
    [
        ("0", 0, "pass", "notice"),
        ("1", 1, "fail", "error"),
        ("10", 0, "neutral", "warning"),
        ("11", 11, "broken", "error"),
        ("2", 11, "broken", "error"),
        ("130", 11, "broken", "error"),
        ("137", 11, "broken", "error"),
        ("", 11, "broken", "error"),
    ],
)
def test_exit_codes_become_conclusions(
    tmp_path: Path, code: str, exits: int, conclusion: str, level: str
) -> None:
    output = tmp_path / "output"
    done = script("ci-exit", code, cwd=tmp_path, env={"GITHUB_OUTPUT": str(output)})
    assert (done.returncode, output.read_text()) == (exits, f"conclusion={conclusion}\n")
    assert done.stdout.startswith(f"::{level} title=")


def test_a_team_can_let_no_verdict_fail(tmp_path: Path) -> None:
    done = script("ci-exit", "10", cwd=tmp_path, env={"PERF_GATE_INCONCLUSIVE": "fail"})
    assert (done.returncode, "conclusion: fail" in done.stdout) == (1, True)


# --- admission ----------------------------------------------------------------------------------


def pull(sha: str = HEAD, repository: str = "team/serving", state: str = "open") -> dict[str, Any]:
    return {
        "state": state,
        "head": {"sha": sha, "repo": {"full_name": repository}},
        "base": {"sha": BASE, "repo": {"full_name": "team/serving"}},
    }


def admit(
    folder: Path,
    *,
    event_pull: dict[str, Any] | None = None,
    now: dict[str, Any] | None = None,
    label: str = "perf-gate",
    role: str = "maintain",
) -> tuple[int, str, str]:
    event = {
        "label": {"name": label},
        "repository": {"full_name": "team/serving"},
        "sender": {"login": "someone"},
        "pull_request": event_pull or pull(),
    }
    for name, data in (("event", event), ("now", now or pull()), ("role", {"role_name": role})):
        (folder / f"{name}.json").write_text(json.dumps(data))
    output = folder / "output"
    files = ("event.json", "now.json", "role.json")
    done = script("ci-admit", *files, cwd=folder, env={"GITHUB_OUTPUT": str(output)})
    return done.returncode, done.stdout, output.read_text() if output.exists() else ""


def test_a_maintainers_label_on_our_own_branch_is_admitted(tmp_path: Path) -> None:
    code, _, output = admit(tmp_path)
    assert (code, output) == (0, f"base={BASE}\nhead={HEAD}\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"event_pull": pull(repository="stranger/serving")},
            "the head is in stranger/serving when the label",
        ),
        ({"now": pull(repository="stranger/serving")}, "the head is in stranger/serving now"),
        ({"now": pull(sha="c" * 40)}, "the head moved"),
        ({"now": pull(state="closed")}, "the pull request is closed"),
        ({"label": "docs"}, "the label set was not 'perf-gate'"),
        ({"role": "triage"}, "someone has the role 'triage'"),
        ({"role": "read"}, "someone has the role 'read'"),
        ({"event_pull": pull(sha="main"), "now": pull(sha="main")}, "not a full commit SHA"),
    ],
)
def test_everything_else_is_refused_with_the_reason(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    code, said, output = admit(tmp_path, **change)
    assert (code, output) == (1, "")
    assert reason in said


def test_a_deleted_fork_is_refused(tmp_path: Path) -> None:
    gone = pull()
    gone["head"]["repo"] = None
    assert admit(tmp_path, now=gone)[0] == 1


def test_an_answer_that_is_no_json_is_refused(tmp_path: Path) -> None:
    for name in ("event", "now", "role"):
        (tmp_path / f"{name}.json").write_text("<html>bad gateway</html>")
    done = script("ci-admit", "event.json", "now.json", "role.json", cwd=tmp_path)
    assert (done.returncode, "cannot be read" in done.stdout) == (1, True)


# --- checkout -----------------------------------------------------------------------------------


def two_branches(folder: Path) -> tuple[Path, str, str, str]:
    """Return a clone at the head commit, and the commits: fork point, tip of main, head."""
    clone = folder / "head"
    clone.mkdir()
    git(clone, "init", "-q", "-b", "main")
    commits: dict[str, str] = {}
    for name, branch in (("fork", "main"), ("main", "main"), ("head", "topic")):
        if branch == "topic":
            git(clone, "checkout", "-q", "-b", "topic", commits["fork"])
        (clone / name).write_text(name)
        git(clone, "add", ".")
        git(clone, "commit", "-q", "-m", name)
        commits[name] = git(clone, "rev-parse", "HEAD")
    return clone, commits["fork"], commits["main"], commits["head"]


def test_base_is_where_head_branched_off_and_not_the_tip_of_main(tmp_path: Path) -> None:
    clone, fork, main, head = two_branches(tmp_path)
    done = script("ci-checkout", clone, "base", head, main, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "base", "rev-parse", "HEAD") == fork


def test_the_last_jobs_base_gives_way(tmp_path: Path) -> None:
    clone, fork, main, head = two_branches(tmp_path)
    for _ in range(2):
        assert script("ci-checkout", clone, "base", head, main, cwd=tmp_path).returncode == 0
        (tmp_path / "base/left-behind").write_text("from the last job")
    assert script("ci-checkout", clone, "base", head, main, cwd=tmp_path).returncode == 0
    assert not (tmp_path / "base/left-behind").exists()
    assert git(tmp_path / "base", "rev-parse", "HEAD") == fork


def test_a_checkout_at_another_commit_than_admitted_runs_nothing(tmp_path: Path) -> None:
    clone, _, main, _ = two_branches(tmp_path)
    done = script("ci-checkout", clone, "base", HEAD, main, cwd=tmp_path)
    assert (done.returncode, (tmp_path / "base").exists()) == (11, False)
    assert "was admitted; nothing is run" in done.stderr


# --- build --------------------------------------------------------------------------------------


def test_build_installs_and_measures_nothing(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    executable(tmp_path / "side/scripts/common.sh", f'prepare() {{ echo "prepared: $1" > {asked}; }}\n')
    executable(tmp_path / "side/.venv/bin/vllm-perf", "#!/bin/sh\necho vllm-perf 0\n")
    done = script("ci-build", "side", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert asked.read_text() == "prepared: engine\n"


# --- the gate's step ----------------------------------------------------------------------------

FAKE_GATE = """#!/bin/sh
echo "$@" > {seen}
while [ $# -gt 0 ]; do
  if [ "$1" = --markdown ]; then printf '%s' '{summary}' > "$2"; fi
  shift
done
echo '{{}}'
exit {code}
"""


def gate_step(folder: Path, code: int, summary: str, **env: str) -> dict[str, str]:
    (folder / "base").mkdir()
    seen = folder / "seen"
    executable(folder / "head/.venv/bin/vllm-perf", FAKE_GATE.format(seen=seen, summary=summary, code=code))
    files = {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
    done = script("ci-gate", "base", "head", "results", cwd=folder, env=files | env)
    assert done.returncode == 0, done.stderr
    return {name: (folder / name).read_text() for name in ("output", "summary", "seen")}


@pytest.mark.parametrize("code", [0, 1, 10, 11])
def test_the_gates_code_and_summary_reach_the_job_and_the_step_itself_goes_on(
    tmp_path: Path, code: int
) -> None:
    got = gate_step(tmp_path, code, "**same**")
    assert (got["output"], got["summary"]) == (f"code={code}\n", "**same**")


def test_a_gate_that_dies_before_its_summary_says_so(tmp_path: Path) -> None:
    assert "exit code 137 before it could write a summary" in gate_step(tmp_path, 137, "")["summary"]


def test_both_sides_are_measured_with_the_heads_harness(tmp_path: Path) -> None:
    seen = gate_step(tmp_path, 0, "x", PERF_GATE_ENGINE="mine", PERF_GATE_OPTIONS="--max-pairs 4")["seen"]
    assert f"--base mine --base-python {tmp_path}/base/.venv/bin/python" in seen
    assert f"--head mine --head-python {tmp_path}/head/.venv/bin/python" in seen
    assert f"--base-engines {tmp_path}/base/fixtures/engines.toml" in seen
    assert seen.rstrip().endswith("--json --max-pairs 4")


ENGINES = """
[engines.mine]
platform = "golden"
model = "golden"
flags = {{ ttft-ms = {ttft_ms} }}
boot_timeout_s = 20
"""
WORKLOADS = """
[workloads.chat]
prompt = {{ kind = "unique", unique_tokens = 64 }}
arrival = {{ kind = "closed", concurrency = 8 }}
output_tokens = 4
requests = 16
"""
# A busy machine sends late and reads in bursts, which the gate rightly refuses to judge (see conftest.py).
COMMAND = """#!{python}
from vllm_perf import cli
from vllm_perf.metrics import validity_client

validity_client.LATE_SHARE_OF_TTFT = 100.0
validity_client.BURST_SHARE = 1.0
raise SystemExit(cli.main())
"""


def test_a_whole_gate_of_two_checkouts_ends_in_summary_code_and_outcome(tmp_path: Path) -> None:
    for side, ttft_ms in (("base", 20), ("head", 200)):
        for name, text in (("engines", ENGINES.format(ttft_ms=ttft_ms)), ("workloads", WORKLOADS.format())):
            path = tmp_path / side / "fixtures" / f"{name}.toml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    executable(tmp_path / "head/.venv/bin/vllm-perf", COMMAND.format(python=sys.executable))
    output, shown = tmp_path / "output", tmp_path / "summary"
    env = {
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(shown),
        "PERF_GATE_ENGINE": "mine",
        "PERF_GATE_OPTIONS": "--min-pairs 2 --max-pairs 2",
        "PERF_GATE_HISTORY": str(tmp_path / "history"),
        "VLLM_PERF_STATE_DIR": str(tmp_path / "state"),
    }
    done = script("ci-gate", "base", "head", "results", cwd=tmp_path, env=env)
    assert (done.returncode, output.read_text()) == (0, "code=1\n"), done.stderr
    assert shown.read_text().startswith("## ❌ Head is slower than base")
    data = json.loads((tmp_path / "results/gate.json").read_text())
    assert (data["verdict"], data["pairs"]) == ("regressed", 3)
    assert {path.parent.name for path in (tmp_path / "results/logs").rglob("*.log")} == {"base", "head"}
    assert list((tmp_path / "history").glob("noise-floors*"))
    assert script("ci-exit", "1", cwd=tmp_path, env=env).returncode == 1


# --- history ------------------------------------------------------------------------------------

FAKE_PYTEST = """#!/bin/sh
while [ $# -gt 0 ]; do
  if [ "$1" = --perf-history ]; then mkdir -p "$2/gpu"; echo new > "$2/gpu/new.json"; ls "$2/gpu" > {seen}; fi
  shift
done
exit 1
"""


def test_a_run_compares_with_the_history_and_hands_on_only_its_own_records(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    executable(tmp_path / "head/.venv/bin/python", FAKE_PYTEST.format(seen=seen))
    old = tmp_path / "history/records/gpu/old.json"
    old.parent.mkdir(parents=True)
    old.write_text("old")
    output = tmp_path / "output"
    env = {"GITHUB_OUTPUT": str(output)}
    records_folder(tmp_path / "results/records", last="from the last job")
    done = script("ci-history-run", "head", "history", "results", cwd=tmp_path, env=env)
    assert (done.returncode, output.read_text()) == (0, "code=1\n")
    assert seen.read_text().split() == ["new.json", "old.json"]
    records = sorted(path.name for path in (tmp_path / "results/records").rglob("*.json"))
    assert records == ["new.json"]


def records_folder(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / "gpu" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    path = tmp_path / "remote.git"
    subprocess.run(["git", "init", "-q", "--bare", str(path)], check=True)
    return path


def kept(remote: Path) -> list[str]:
    return git(remote, "ls-tree", "-r", "--name-only", "perf-data").splitlines()


def test_the_first_records_make_the_data_branch_and_later_ones_are_added(
    tmp_path: Path, remote: Path
) -> None:
    for name in ("one", "two"):
        records = records_folder(tmp_path / name, **{name: name})
        done = script("ci-history-append", records, remote, "perf-data", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert kept(remote) == ["records/gpu/one.json", "records/gpu/two.json"]


def test_a_record_that_is_there_already_is_never_overwritten(tmp_path: Path, remote: Path) -> None:
    for at, text in enumerate(("first", "second")):
        records = records_folder(tmp_path / str(at), same=text)
        assert script("ci-history-append", records, remote, "perf-data", cwd=tmp_path).returncode == 0
    assert git(remote, "show", "perf-data:records/gpu/same.json") == "first"


def test_a_push_that_loses_the_race_is_tried_again_on_top(tmp_path: Path, remote: Path) -> None:
    mine = records_folder(tmp_path / "mine", mine="mine")
    theirs = records_folder(tmp_path / "theirs", theirs="theirs")
    seed = records_folder(tmp_path / "seed", seed="seed")
    assert script("ci-history-append", seed, remote, "perf-data", cwd=tmp_path).returncode == 0
    # The other runner pushes at the last moment: between our fetch and the remote's taking our push.
    append = ROOT / "scripts" / "ci-history-append"
    executable(
        remote / "hooks/pre-receive",
        f"#!/bin/sh\nrm -f {remote}/hooks/pre-receive\n"
        f'env -i PATH="$PATH" HOME=/ {append} {theirs} {remote} perf-data >&2\nexit 1\n',
    )
    done = script("ci-history-append", mine, remote, "perf-data", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "someone else pushed meanwhile (attempt 1)" in done.stderr
    assert kept(remote) == [f"records/gpu/{name}.json" for name in ("mine", "seed", "theirs")]


def test_an_empty_folder_is_an_error_and_no_silent_success(tmp_path: Path, remote: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = script("ci-history-append", "empty", remote, "perf-data", cwd=tmp_path)
    assert (done.returncode, "holds no record" in done.stderr) == (1, True)
