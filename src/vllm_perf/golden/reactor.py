# SPDX-License-Identifier: Apache-2.0
"""One thread that waits on sockets and on points in time, to some tens of microseconds.

asyncio rounds timers up to a millisecond and uvloop puts writes off to the end of its turn; a server that
is to be the truth for others may do neither.
"""

import contextlib
import heapq
import itertools
import os
import select
import time
from collections import deque
from collections.abc import Callable

SELECT_LIMIT = 1024
MOST_LANES = 16

OnEvent = Callable[[int], None]
OnTime = Callable[[], None]


class Reactor:
    """Call back on readiness of file descriptors and at times of ``perf_counter_ns``."""

    def __init__(self) -> None:
        """Open the poll; ``run`` does the work."""
        self._epoll = select.epoll()
        self._handlers: dict[int, OnEvent] = {}
        self._timers: list[tuple[int, int, OnTime]] = []
        self._lanes: dict[int, deque[tuple[int, OnTime]]] = {}
        self._order = itertools.count()
        self._running = True
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        self.watch(self._wake_in, select.EPOLLIN, self._woken)

    def watch(self, fd: int, events: int, handler: OnEvent) -> None:
        """Call ``handler`` with the ready events of ``fd``."""
        self._handlers[fd] = handler
        self._epoll.register(fd, events)

    def change(self, fd: int, events: int) -> None:
        """Wait for other events of a watched ``fd``."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching ``fd``."""
        if self._handlers.pop(fd, None) is not None:
            with contextlib.suppress(OSError):
                self._epoll.unregister(fd)

    def call_later(self, due_ns: int, gap_ns: int, callback: OnTime) -> None:
        """Like ``call_at`` for who calls every ``gap_ns``: as long as times only grow, no heap is needed."""
        lane = self._lanes.get(gap_ns)
        if lane is None and len(self._lanes) < MOST_LANES:
            lane = self._lanes[gap_ns] = deque()
        if lane is None or (lane and lane[-1][0] > due_ns):
            self.call_at(due_ns, callback)
        else:
            lane.append((due_ns, callback))

    def call_at(self, due_ns: int, callback: OnTime) -> None:
        """Call ``callback`` at ``due_ns`` or as soon after as possible."""
        heapq.heappush(self._timers, (due_ns, next(self._order), callback))

    def run(self) -> None:
        """Work until ``stop``."""
        while self._running:
            self._fire_due()
            for fd, events in self._wait():
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler(events)

    def close(self) -> None:
        """Free the poll, after ``run``."""
        self._epoll.close()
        os.close(self._wake_in)
        os.close(self._wake_out)

    def stop(self) -> None:
        """End ``run`` soon; may be called from another thread."""
        self._running = False
        with contextlib.suppress(OSError):
            os.write(self._wake_out, b"x")

    def _woken(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)

    def _fire_due(self) -> None:
        now, timers = time.perf_counter_ns(), self._timers
        for lane in self._lanes.values():
            while lane and lane[0][0] <= now:
                lane.popleft()[1]()
        while timers and timers[0][0] <= now:
            heapq.heappop(timers)[2]()

    def _wait(self) -> list[tuple[int, int]]:
        heads = [lane[0][0] for lane in self._lanes.values() if lane]
        if self._timers:
            heads.append(self._timers[0][0])
        if not heads:
            return self._epoll.poll()
        left_ns = min(heads) - time.perf_counter_ns()
        if left_ns > 0:
            # epoll.poll rounds up to a whole millisecond, select does not.
            if self._epoll.fileno() >= SELECT_LIMIT:
                return self._epoll.poll(left_ns / 1e9)
            select.select([self._epoll], [], [], left_ns / 1e9)
        return self._epoll.poll(0)
