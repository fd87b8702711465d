# SPDX-License-Identifier: Apache-2.0
"""The load's claim on a CPU: take one at once when a chunk arrives, and know how often it had to wait.

On a small machine a server that spins for work (vLLM's engine core does) can keep a client that is ready to
run from its CPU for hundreds of milliseconds; the kernel joins what arrives meanwhile into one piece with one
stamp, and a first token looks half a second late that was on time.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

REALTIME = "real-time (SCHED_FIFO 1)"
NICE = "nice -20"
NORMAL = "normal"
# A wait this long can join the chunks of two decode steps; shorter ones leave each its own stamp.
LONG_WAIT_NS = 20_000_000
_TASKS = Path("/proc/self/task")


@contextlib.contextmanager
def claimed_cpu() -> Iterator[str]:
    """Run this process before ordinary ones, where that is permitted; yield how.

    The least real-time priority goes first of all ordinary processes; what starts meanwhile does not inherit
    it. Every thread is raised, since one that holds the interpreter's lock would hold up the load as well.
    Without the permission (root, ``CAP_SYS_NICE``, or an ``rtprio`` limit) nothing changes.
    """
    with contextlib.ExitStack() as undo:
        if _raise_threads(undo):
            yield REALTIME
        else:
            yield NICE if _raise_niceness(undo) else NORMAL


def _raise_threads(undo: contextlib.ExitStack) -> bool:
    policy = os.SCHED_FIFO | getattr(os, "SCHED_RESET_ON_FORK", 0)
    try:
        for thread in [int(task.name) for task in _TASKS.iterdir()]:
            with contextlib.suppress(ProcessLookupError):
                before = os.sched_getscheduler(thread), os.sched_getparam(thread)
                os.sched_setscheduler(thread, policy, os.sched_param(1))
                undo.callback(_restore, thread, *before)
    except OSError:
        # All or nothing: callbacks put back what was raised already.
        undo.close()
        return False
    return True


def _restore(thread: int, policy: int, param: os.sched_param) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.sched_setscheduler(thread, policy, param)


def _raise_niceness(undo: contextlib.ExitStack) -> bool:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError:
        return False
    undo.callback(os.setpriority, os.PRIO_PROCESS, 0, before)
    return True


class CpuWaits:
    """How long this thread was ready to run and had no CPU, by the kernel's own count.

    Times in nanoseconds. ``total_ns`` holds all waits, ``long_ns`` those between two looks that together
    passed ``LONG_WAIT_NS``. All stay zero where the kernel keeps no such count (``known`` is false).
    """

    def __init__(self) -> None:
        """Start counting from now."""
        self.total_ns = 0
        self.long_ns = 0
        self.worst_ns = 0
        try:
            self._file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        except OSError:
            self._file = -1
        self.known = self._file >= 0
        self._last_ns = self._waited_ns()

    def look(self) -> None:
        """Add what was waited since the last look."""
        if not self.known:
            return
        now_ns = self._waited_ns()
        wait_ns, self._last_ns = now_ns - self._last_ns, now_ns
        self.total_ns += wait_ns
        if wait_ns > LONG_WAIT_NS:
            self.long_ns += wait_ns
        if wait_ns > self.worst_ns:
            self.worst_ns = wait_ns

    def close(self) -> None:
        """Give the file back; the sums stay."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self.known = -1, False

    def _waited_ns(self) -> int:
        # "time on a CPU", "time waiting for one", "turns"; all since the thread's start.
        return int(os.pread(self._file, 96, 0).split()[1]) if self._file >= 0 else 0
