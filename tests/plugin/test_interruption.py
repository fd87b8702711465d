# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and kill -9: nothing is left running, and what was measured is not measured again."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.plugin.projects import Project, rows

STATE = "VLLM_PERF_STATE_DIR"
# An engine that answers /health and never completes a token: as a boot that hangs.
HANGS = ("ttft-ms = 100,", "ttft-ms = 100, max-num-seqs = 0,")
TWO_WORKLOADS = """
[workloads.short]
prompt = { kind = "unique", unique_tokens = 40 }
arrival = { kind = "closed", concurrency = 8 }
output_tokens = 2
requests = 8

[workloads.endless]
prompt = { kind = "unique", unique_tokens = 40 }
arrival = { kind = "closed", concurrency = 1 }
output_tokens = 2
requests = 2000
"""
DEADLINE_S = 300.0


def of_project(project: Project) -> list[psutil.Process]:
    """Return every living process that was started for a project."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(STATE) == project.env[STATE] and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:
            continue
    return [process for process in found if process.status() != psutil.STATUS_ZOMBIE]


def until(seen: Callable[[], object], what: str) -> None:
    """Wait until something is seen."""
    deadline = time.monotonic() + DEADLINE_S
    while not seen():
        assert time.monotonic() < deadline, f"never seen: {what}"
        time.sleep(0.05)


def live_port(project: Project) -> int:
    """Return the port of the engine that runs, or is about to."""
    live = Path(project.env[STATE], "live")
    until(lambda: [path for path in live.glob("*.json") if path.read_text().endswith("}")], "an engine")
    return int(next(live.glob("*.json")).read_text().split('"port": ')[1].split(",")[0])


def cells(project: Project) -> list[str]:
    """Return the measured cells that a session left."""
    return sorted(path.stem for folder in project.sessions() for path in folder.glob("*.json"))


def start(project: Project, *args: str) -> "subprocess.Popen[str]":
    """Start the suite on a project."""
    return project.start("tests/perf", "--perf-golden", "-k", "ttft_p50 or boot", *args)


def end(process: "subprocess.Popen[str]", number: signal.Signals) -> str:
    """Send a signal, Ctrl-C as a terminal does to everybody, and return all that was said until the end."""
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    text, _ = process.communicate(timeout=DEADLINE_S)
    return text


def assert_nothing_left(project: Project, port: int) -> None:
    """Check that no process and no bound port is left."""
    assert of_project(project) == []
    assert list(Path(project.env[STATE], "live").glob("*.json")) == []
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections linger, that is all
        probe.bind(("127.0.0.1", port))


def wait_for_load(project: Project) -> int:
    """Wait until the short cell is measured and the endless load runs; return the engine's port."""
    until(lambda: "last--short" in cells(project), "the first cell")
    claim = "last--endless.claim"
    until(lambda: any((folder / claim).exists() for folder in project.sessions()), claim)
    return live_port(project)


@pytest.fixture
def endless(project: Project) -> Project:
    """Return a project whose second workload takes minutes."""
    project.write("fixtures/workloads.toml", TWO_WORKLOADS)
    project.write("fixtures/budgets/cpu.toml", 'platform = "cpu"\n[[budgets]]\nmetric = "x"\nmax = 1\n')
    return project


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_hanging_boot_that_is_interrupted_leaves_nothing(project: Project, number: signal.Signals) -> None:
    project.engines(*HANGS)
    process = start(project)
    port = live_port(project)
    text = end(process, number)
    assert process.returncode == 2, text
    assert_nothing_left(project, port)
    assert project.sessions() == []


def test_an_interrupted_load_leaves_nothing_and_is_resumed(endless: Project) -> None:
    process = start(endless, "--benchmark-compare")
    port = wait_for_load(endless)
    text = end(process, signal.SIGINT)
    assert process.returncode == 2, text
    assert_nothing_left(endless, port)
    assert cells(endless) == ["last--boot", "last--short"]
    assert "2 measured cells are kept: --perf-resume continues" in text
    first = endless.records()[0]
    assert first["vllm_perf"]["complete"] is False

    resumed = start(endless, "--benchmark-compare", "--perf-resume")
    live_port(endless)
    text = end(resumed, signal.SIGINT)
    assert "taken over, not measured again: last under boot, last under short" in text
    assert "last under short:" not in text  # no progress of a load: it was not sent again
    again = endless.records()[1]
    name = "ttft_p50[last-short]"
    assert rows(again)[name]["stats"] == rows(first)[name]["stats"]
    assert "baseline created" in text  # and is not compared with itself


def test_other_work_is_not_resumed(endless: Project) -> None:
    process = start(endless)
    wait_for_load(endless)
    end(process, signal.SIGINT)
    endless.change("fixtures/workloads.toml", "requests = 2000", "requests = 2")
    run = endless.run("--perf-resume", "-k", "ttft_p50")
    assert run.code == 0, run.text
    assert "nothing to resume" in run.text
    assert "last under short: 8 of 8 requests" in run.text
    assert cells(endless) == ["last--boot", "last--short"]  # the other session's, for whoever resumes that


def test_a_resumed_session_ends_as_any_other(project: Project) -> None:
    process = project.start("tests/perf", "--perf-golden", "-k", "ttft_p50 or ttft_p95")
    until(lambda: "last--boot" in cells(project), "the boot")
    end(process, signal.SIGINT)
    project.forget_boots()
    run = project.run("--perf-resume", "-k", "ttft_p50 or ttft_p95")
    assert run.code == 0, run.text
    assert "taken over, not measured again: last under boot" in run.text
    assert project.sessions() == []
    assert project.records()[-1]["vllm_perf"]["complete"] is True


def test_workers_resume_as_well(endless: Project) -> None:
    process = start(endless)
    wait_for_load(endless)
    end(process, signal.SIGINT)
    resumed = start(endless, "--perf-resume", "-n", "1")
    port = live_port(endless)
    text = end(resumed, signal.SIGINT)
    assert "taken over, not measured again: last under boot, last under short" in text
    assert_nothing_left(endless, port)


def test_a_killed_session_is_cleaned_up_by_the_next_which_says_so(endless: Project) -> None:
    process = start(endless)
    port = wait_for_load(endless)
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    assert of_project(endless) != []
    endless.change("fixtures/workloads.toml", "requests = 2000", "requests = 2")
    run = endless.run("-k", "ttft_p50 and short")
    assert run.code == 0, run.text
    assert f"cleaned up engine 'last' (port {port}), left behind by session {process.pid}" in run.text
    assert_nothing_left(endless, port)


def test_what_nobody_came_back_for_in_a_week_is_cleared_away(project: Project) -> None:
    old = project.write(".vllm-perf/sessions/old/session.manifest", "{}").parent
    young = project.write(".vllm-perf/sessions/young/session.manifest", "{}").parent
    a_week_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (a_week_ago, a_week_ago))
    assert project.run("-k", "boot").code == 0
    assert project.sessions() == [young]
