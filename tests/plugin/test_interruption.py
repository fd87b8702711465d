# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, SIGTERM and kill -9: nothing is left running, and what was measured is not measured again."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.plugin.projects import Finished, Project, rows

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
TAKEN = "taken over, not measured again: last under boot, last under short"
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


def left(project: Project, port: int) -> list[str]:
    """Return what is left of a session: processes, notes of engines, a bound port."""
    found = [str(process) for process in of_project(project)]
    found += [path.name for path in Path(project.env[STATE], "live").glob("*.json")]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # closed connections linger, that is all
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            found.append(f"port {port}")
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_hanging_boot_that_is_interrupted_leaves_nothing(project: Project, number: signal.Signals) -> None:
    project.engines(*HANGS)
    process = start(project)
    port = live_port(project)
    text = end(process, number)
    assert process.returncode == 2, text
    assert left(project, port) == []
    assert project.sessions() == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A session over two loads, the second without end: interrupted, resumed, killed, resumed again.

    In between somebody measures something else.
    """

    first: str
    first_code: int | None
    first_cells: list[str]
    first_left: list[str]
    other: Finished
    second: str
    left_by_kill: list[str]
    killed: tuple[int, int]
    third: str
    third_left: list[str]
    records: list[dict[str, Any]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Live through it."""
    project = Project(tmp_path_factory.mktemp("endless") / "project")
    project.engines('engines = ["first", "middle", "last"]', 'engines = ["last"]')
    project.write("fixtures/workloads.toml", TWO_WORKLOADS)

    process = start(project, "--benchmark-compare")
    until(lambda: "last--short" in cells(project), "the first cell")
    until(lambda: list((project.root / ".vllm-perf").rglob("last--endless.claim")), "the second load")
    port = live_port(project)
    first = end(process, signal.SIGINT)
    first_cells, first_left, first_code = cells(project), left(project, port), process.returncode

    project.change("fixtures/workloads.toml", "requests = 2000", "requests = 2")
    other = project.run("--perf-resume", "-k", "ttft_p50")
    project.change("fixtures/workloads.toml", "requests = 2\n", "requests = 2000\n")

    process = start(project, "--benchmark-compare", "--perf-resume")
    port = live_port(project)
    process.kill()
    second, _ = process.communicate(timeout=DEADLINE_S)
    left_by_kill = left(project, port)
    killed = (port, process.pid)

    process = start(project, "--perf-resume", "-n", "1")
    until(lambda: live_port(project) != port, "the next engine")
    port = live_port(project)
    third = end(process, signal.SIGINT)
    return Story(
        first=first,
        first_code=first_code,
        first_cells=first_cells,
        first_left=first_left,
        other=other,
        second=second,
        left_by_kill=left_by_kill,
        killed=killed,
        third=third,
        third_left=left(project, port),
        records=project.records(),
    )


def test_an_interrupted_load_leaves_nothing_running(story: Story) -> None:
    assert story.first_code == 2, story.first
    assert story.first_left == []


def test_what_was_measured_before_the_interruption_is_kept(story: Story) -> None:
    assert story.first_cells == ["last--boot", "last--short"]
    assert "2 measured cells are kept: --perf-resume continues" in story.first
    assert story.records[0]["vllm_perf"]["complete"] is False


def test_other_work_takes_nothing_over(story: Story) -> None:
    assert story.other.code == 0, story.other.text
    assert "nothing to resume" in story.other.text
    assert "last under short: 8 of 8 requests" in story.other.text


def test_the_same_work_takes_the_cells_over_and_does_not_measure_them_again(story: Story) -> None:
    assert TAKEN in story.second
    assert "last under short:" not in story.second  # the progress of a load


def test_a_resumed_session_is_not_compared_with_its_own_beginning(story: Story) -> None:
    key = "ttft_p50[last-short]"
    resumed = [record for record in story.records if not record["vllm_perf"]["complete"]][-1]
    assert rows(resumed)[key]["stats"] == rows(story.records[0])[key]["stats"]
    assert "nothing was stored before" not in story.third


def test_a_killed_session_leaves_its_engine_until_the_next_which_cleans_up_and_says_so(story: Story) -> None:
    assert story.left_by_kill != []
    port, pid = story.killed
    assert f"cleaned up engine 'last' (port {port}), left behind by session {pid}" in story.third


def test_xdists_workers_resume_as_well_and_leave_nothing(story: Story) -> None:
    assert TAKEN in story.third
    assert "last under short:" not in story.third
    assert story.third_left == []


def test_a_resumed_session_ends_as_any_other(project: Project) -> None:
    process = start(project)
    until(lambda: "last--boot" in cells(project), "the boot")
    end(process, signal.SIGINT)
    run = project.run("--perf-resume", "-k", "ttft_p50 or boot")
    assert run.code == 0, run.text
    assert "taken over, not measured again: last under boot" in run.text
    assert project.sessions() == []
    assert project.records()[-1]["vllm_perf"]["complete"] is True


def test_what_nobody_came_back_for_in_a_week_is_cleared_away(project: Project) -> None:
    old = project.write(".vllm-perf/sessions/old/session.manifest", "{}").parent
    young = project.write(".vllm-perf/sessions/young/session.manifest", "{}").parent
    a_week_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (a_week_ago, a_week_ago))
    assert project.run("-k", "boot").code == 0
    assert project.sessions() == [young]
