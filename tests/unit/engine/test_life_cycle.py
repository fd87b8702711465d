# SPDX-License-Identifier: Apache-2.0
"""Start, readiness and stop of a process tree, with fake engines that are real processes."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from vllm_perf.engine.process import EngineProcess
from vllm_perf.engine.readiness import Died, ForeignServer, TooLate, wait_until_ready
from vllm_perf.engine.state import LiveNote, live_notes, sweep_orphans
from vllm_perf.engine.tree import alive, marked, port_owners

Start = Callable[[str], EngineProcess]


def quiet(_step: str, _elapsed_s: float) -> None:
    """Show nothing."""


def wait(process: EngineProcess, timeout_s: float = 20.0) -> None:
    """Wait as a boot does."""
    wait_until_ready(process, "m", key=None, timeout_s=timeout_s, progress=quiet)


def core_of(process: EngineProcess) -> psutil.Process:
    """Return the fake engine core, once the log names it."""
    deadline = time.monotonic() + 10
    while "core " not in process.log_text():
        assert time.monotonic() < deadline, process.log_text()
        time.sleep(0.01)
    return psutil.Process(int(process.log_text().split("core ")[1].split()[0]))


def test_a_serving_engine_becomes_ready(start: Start) -> None:
    process = start("serve")
    wait(process)
    assert port_owners(process.port) & process.pids


@pytest.mark.parametrize(("mode", "code"), [("exit0", 0), ("exit1", 1)])
def test_h80_an_exit_is_noticed_whatever_its_code(start: Start, mode: str, code: int) -> None:
    with pytest.raises(Died) as caught:
        wait(start(mode))
    assert caught.value.exit_code == code


@pytest.mark.parametrize("mode", ["unready", "silent", "dead-core"])
def test_h80_an_engine_that_never_gets_ready_ends_at_the_deadline(start: Start, mode: str) -> None:
    with pytest.raises(TooLate):
        wait(start(mode), timeout_s=1.5)


def test_a_healthy_server_without_a_token_is_not_ready(start: Start) -> None:
    with pytest.raises(TooLate) as caught:
        wait(start("dead-core"), timeout_s=1.5)
    assert caught.value.last == "waiting for the first token"


def test_a_foreign_server_on_the_port_is_not_taken_for_ours(start: Start) -> None:
    theirs, ours = start("serve"), start("silent")
    wait(theirs)
    ours.port = theirs.port
    with pytest.raises(ForeignServer):
        wait(ours)


def test_stop_ends_the_whole_tree_and_frees_the_port(start: Start) -> None:
    process = start("serve")
    wait(process)
    core = core_of(process)
    process.stop()
    assert not alive(core)
    assert not port_owners(process.port)
    assert not marked(process.token)
    assert not live_notes()


def test_stop_kills_what_ignores_term(start: Start) -> None:
    process = start("stubborn")
    wait(process)
    assert process.popen.pid in process.stop(patience_s=0.3)
    assert not marked(process.token)


def test_h76_stop_finds_a_core_that_outlived_a_killed_server(start: Start) -> None:
    process = start("serve")
    core = core_of(process)
    os.kill(process.popen.pid, signal.SIGKILL)
    process.popen.wait()
    assert alive(core)
    process.stop()
    assert not alive(core)


def test_engines_of_a_dead_session_are_swept_and_named(start: Start) -> None:
    process = start("serve")
    core = core_of(process)
    note = process.note()
    orphaned = LiveNote(
        token=note.token,
        engine=note.engine,
        group=note.group,
        port=note.port,
        owner_pid=_dead_pid(),
        owner_created=1.0,
        log_path=note.log_path,
    )
    orphaned.write()
    said = sweep_orphans()
    assert len(said) == 1
    assert "cleaned up engine 'serve'" in said[0]
    assert not alive(core)


def test_engines_of_a_living_session_are_left_alone(start: Start) -> None:
    process = start("serve")
    core = core_of(process)
    assert sweep_orphans() == ()
    assert alive(core)


def test_an_unreadable_note_is_removed_and_hurts_nobody(state_dir: Path) -> None:
    (state_dir / "live").mkdir(parents=True)
    (state_dir / "live" / "x.json").write_text("{ not json")
    assert sweep_orphans() == ()
    assert not list((state_dir / "live").iterdir())


def test_a_full_log_never_blocks_the_engine(start: Start) -> None:
    process = start("serve")
    wait(process)
    assert process.log_path.read_bytes().startswith(b"INFO fake engine")


def _dead_pid() -> int:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return pid
