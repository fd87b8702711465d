# SPDX-License-Identifier: Apache-2.0
"""The load goes before ordinary processes, puts everything back, and knows how long it had no CPU."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.unit.load.scripted import Scripted, plan, saying, stream
from vllm_perf.load.cpu import LONG_WAIT_NS, NICE, NORMAL, REALTIME, CpuWaits, claimed_cpu
from vllm_perf.load.generator import run_load

DEADLINE_NS = 15_000_000_000
# Ends by itself, even where this process is killed.
SPIN = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"


def _policy(thread: int = 0) -> int:
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK


@pytest.fixture
def other_thread() -> Iterator[int]:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert thread.native_id is not None
    yield thread.native_id
    stop.set()
    thread.join()


@pytest.fixture
def one_crowded_cpu() -> Iterator[None]:
    """Share one CPU with two processes that never sleep."""
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    others = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(2)]
    try:
        for other in others:
            os.sched_setaffinity(other.pid, {cpu})
        os.sched_setaffinity(0, {cpu})
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.wait()


def test_the_claim_says_what_it_got_and_gives_it_back(other_thread: int) -> None:
    before = _policy(), os.getpriority(os.PRIO_PROCESS, 0)
    with claimed_cpu() as scheduling:
        assert (
            (scheduling == REALTIME)
            == (_policy() == os.SCHED_FIFO)
            == (_policy(other_thread) == os.SCHED_FIFO)
        )
        assert (scheduling == NICE) == (os.getpriority(os.PRIO_PROCESS, 0) == -20)
        ask = "import os; print(os.sched_getscheduler(0))"
        child = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
        assert int(child.stdout) == os.SCHED_OTHER
    assert (_policy(), os.getpriority(os.PRIO_PROCESS, 0)) == before
    assert _policy(other_thread) == before[0]


def test_without_the_permission_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    monkeypatch.setattr(os, "setpriority", refuse)
    with claimed_cpu() as scheduling:
        assert scheduling == NORMAL
        assert _policy() == os.SCHED_OTHER


def test_a_permission_that_ends_half_way_leaves_no_thread_raised(
    monkeypatch: pytest.MonkeyPatch, other_thread: int
) -> None:
    asked: list[tuple[int, int]] = []

    def once(thread: int, policy: int, param: os.sched_param) -> None:
        asked.append((thread, policy & ~os.SCHED_RESET_ON_FORK))
        if len(asked) == 2:
            raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", once)
    with claimed_cpu() as scheduling:
        assert scheduling != REALTIME
    assert asked[0][1] == os.SCHED_FIFO
    assert asked[2] == (asked[0][0], os.SCHED_OTHER)


@pytest.mark.usefixtures("one_crowded_cpu")
def test_waits_for_a_crowded_cpu_are_counted() -> None:
    waits = CpuWaits()
    assert waits.known, "this kernel keeps no count of waits"
    started_ns = time.perf_counter_ns()
    while waits.total_ns < 5 * LONG_WAIT_NS and time.perf_counter_ns() < started_ns + DEADLINE_NS:
        burnt_until_ns = time.perf_counter_ns() + 5 * LONG_WAIT_NS
        while time.perf_counter_ns() < burnt_until_ns:
            pass
        waits.look()
    waits.close()
    # Two others share the CPU: of 100 ms they take some 60, in waits of no more than a slice each.
    assert 5 * LONG_WAIT_NS <= waits.total_ns < time.perf_counter_ns() - started_ns
    assert LONG_WAIT_NS < waits.worst_ns <= waits.long_ns <= waits.total_ns


def test_sleep_is_no_wait_for_a_cpu() -> None:
    waits = CpuWaits()
    time.sleep(1.0)
    waits.look()
    waits.close()
    assert waits.total_ns < 500_000_000


def test_a_run_says_how_its_client_was_scheduled() -> None:
    with Scripted(saying(*stream(3))) as server:
        run = run_load(plan(server.base_url))
    assert run.scheduling in (REALTIME, NICE, NORMAL)
    assert run.cpu_wait_ns >= run.long_cpu_wait_ns >= 0
    assert _policy() == os.SCHED_OTHER
