# SPDX-License-Identifier: Apache-2.0
"""The load's own event loop: sockets, epoll, and nothing between an arrival and its time.

asyncio costs a task, a future and a buffer for every read; at 512 streams that is tens of milliseconds.
"""

import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vllm_perf.load.answer import BodyEnd
from vllm_perf.load.cpu import CpuWaits
from vllm_perf.load.exchange import Exchange
from vllm_perf.load.framing import FramingError
from vllm_perf.load.pool import Connection, Pool
from vllm_perf.load.reading import Backlog
from vllm_perf.load.stock import Stock
from vllm_perf.load.supply import Supply

READABLE = select.EPOLLIN
TICK_NS = 10_000_000
LOOK_NS = 20_000_000
PROGRESS_NS = 200_000_000
CALM_NS = 1_000_000
# A body's end comes with [DONE]. Where it does not, nobody waits for it until the time limit.
DONE_GRACE_NS = 250_000_000
# What lies unread is cold when its turn comes: beyond this much, reading no longer waits for idle time.
BACKLOG_PIECES = 2_000
LONG_PIECES = 32
MAX_EVENTS = 512
# Too many requests; overloaded (some channels say 529).
REFUSALS = (429, 529)


Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What one run of the loop works on; ``stop_ns`` is when it stops sending, ``spare`` how many idle
    connections to keep, given those in flight and those that wait for one. With ``stop_when_refused`` the
    first 429 ends the sending."""

    supply: Supply
    stock: Stock
    spare: Callable[[int], int]
    request_timeout_ns: int
    stop_ns: int | None = None
    on_progress: Progress | None = None
    stop_when_refused: bool = False


class LoadLoop:
    """Send what is due, take in what arrives, read it when idle.

    ``idle_ns`` is time not needed for sending and receiving; with ``wall_ns`` it tells a saturated client.
    """

    def __init__(
        self, epoll: select.epoll, pool: Pool, backlog: Backlog, load: Load, waits: CpuWaits
    ) -> None:
        """Bind the parts; ``open`` and ``run`` do the rest."""
        self._epoll = epoll
        self._pool = pool
        self._backlog = backlog
        self._load = load
        self._waits = waits
        self._total = load.supply.left
        self._waiting: deque[tuple[Exchange, bytes]] = deque()
        self._in_flight = 0
        self._ended = 0
        self._behind = False
        self._next_tick_ns = self._next_look_ns = 0
        self._next_progress_ns = 0
        self._refused = False
        self.peak_in_flight = 0
        self.idle_ns = 0
        self.wall_ns = 0

    def run(self) -> None:
        """Send every request and wait for every end; then read what has not been read."""
        load, started_ns = self._load, time.perf_counter_ns()
        self._waits.look()
        while self._going():
            events = self._epoll.poll(0, MAX_EVENTS)
            if events:
                self._take_in(events)
            now_ns = time.perf_counter_ns()
            self._send_due(now_ns)
            if now_ns >= self._next_tick_ns:
                self._tick(now_ns)
            if not events:
                self._use_idle_time(now_ns)
            elif self._behind:
                self._catch_up(len(events))
        self.wall_ns = time.perf_counter_ns() - started_ns
        self._waits.look()
        self._backlog.drain()
        if load.on_progress is not None:
            load.on_progress(self._ended, self._total)

    def _going(self) -> bool:
        if self._in_flight or self._waiting:
            return True
        return not self._stopped(time.perf_counter_ns()) and self._load.supply.next_due_ns() is not None

    def _stopped(self, now_ns: int) -> bool:
        if self._refused:
            return True
        return self._load.stop_ns is not None and now_ns >= self._load.stop_ns

    def _take_in(self, events: list[tuple[int, int]]) -> None:
        connections, clock = self._pool.connections, time.perf_counter_ns
        for fd, mask in events:
            connection = connections.get(fd)
            if connection is None:
                self._pool.advance(fd, clock())
                continue
            if mask != READABLE and not self._may_read(connection, mask):
                continue
            try:
                data, stamp = connection.read()
                read_ns = clock()
            except BlockingIOError:
                continue
            except OSError:
                self._broken(connection, BodyEnd.RESET)
                continue
            exchange = connection.exchange
            if exchange is None or not data:
                self._broken(connection, BodyEnd.TRUNCATED)
                continue
            try:
                if exchange.take(data, stamp, read_ns):
                    self._finish(connection, BodyEnd.CLEAN, read_ns)
            except FramingError as error:
                exchange.failure = self._pool.named(error)
                self._finish(connection, BodyEnd.TRUNCATED, read_ns)

    def _may_read(self, connection: Connection, mask: int) -> bool:
        """Write on where there is room again; return whether there is anything to read as well."""
        if mask & select.EPOLLOUT and connection.writing and connection.wire.flush():
            self._pool.watch_writes(connection, False)
        return bool(mask & ~select.EPOLLOUT)

    def _broken(self, connection: Connection, end: BodyEnd) -> None:
        """Take the end of a connection; where close is the framing, that is how a response ends."""
        exchange = connection.exchange
        if exchange is None:
            self._pool.lose(connection)
            return
        try:
            if end is BodyEnd.TRUNCATED and exchange.closed():
                end = BodyEnd.CLEAN
        except FramingError as error:
            exchange.failure = self._pool.named(error)
        self._finish(connection, end, time.perf_counter_ns())

    def _finish(self, connection: Connection, end: BodyEnd, now_ns: int) -> None:
        exchange, connection.exchange = connection.exchange, None
        if exchange is None:
            return
        exchange.end = end
        if end not in (BodyEnd.CLEAN, BodyEnd.LEFT_OPEN):
            exchange.end_ns = now_ns
        self._in_flight -= 1
        if exchange.reusable and not connection.writing:
            self._pool.release(connection, now_ns)
        else:
            self._pool.lose(connection)
        self._settle(exchange, now_ns)

    def _settle(self, exchange: Exchange, now_ns: int) -> None:
        self._ended += 1
        exchange.ended = True
        if self._load.stop_when_refused and exchange.framing.status in REFUSALS:
            self._refused = True
        self._load.supply.ended(exchange.planned, now_ns)
        self._backlog.add(exchange)

    def _send_due(self, now_ns: int) -> None:
        supply, take = self._load.supply, self._load.stock.take
        stopped = self._stopped(now_ns)
        while not stopped and (due := supply.next_due_ns()) is not None and due <= now_ns:
            exchange, data = take(supply.take(), due)
            connection = None if self._waiting else self._pool.take(now_ns)
            if connection is None:
                self._waiting.append((exchange, data))
            else:
                self._send(connection, exchange, data)
        if self._waiting:
            self._serve_waiting(now_ns)

    def _serve_waiting(self, now_ns: int) -> None:
        """Send what waited for a connection; each opening that failed takes one request with it."""
        waiting, pool = self._waiting, self._pool
        while waiting and (connection := pool.take(now_ns)) is not None:
            exchange, data = waiting.popleft()
            exchange.warnings = ("reconnected" if pool.lost else "connection opened late",)
            self._send(connection, exchange, data)
        while waiting and pool.failing:
            exchange, _ = waiting.popleft()
            exchange.failure, exchange.end_ns = pool.next_failure(), now_ns
            self._settle(exchange, now_ns)
        if waiting:
            pool.ensure(len(waiting), now_ns)

    def _send(self, connection: Connection, exchange: Exchange, data: bytes) -> None:
        connection.exchange = exchange
        exchange.connect_ns, connection.connect_ns = connection.connect_ns, None
        self._in_flight += 1
        if self._in_flight > self.peak_in_flight:
            self.peak_in_flight = self._in_flight
        exchange.sent_ns = time.perf_counter_ns()
        try:
            if not connection.write(data):
                self._pool.watch_writes(connection, True)
        except OSError:
            # The server closed while we wrote; what it said before that is still read.
            connection.writing = True

    def _tick(self, now_ns: int) -> None:
        """Do what need not be done at once: time limits, spare connections, progress."""
        self._next_tick_ns = now_ns + TICK_NS
        self._waits.look()
        if now_ns >= self._next_look_ns:
            self._next_look_ns = now_ns + LOOK_NS
            for connection in list(self._pool.connections.values()):
                if connection.exchange is not None:
                    self._look_at(connection, connection.exchange, now_ns)
            self._behind = self._backlog.unread > BACKLOG_PIECES
        self._pool.expire(now_ns)
        left = 0 if self._stopped(now_ns) else self._load.supply.left
        self._pool.ensure(min(left, self._load.spare(self._in_flight)), now_ns)
        if self._load.on_progress is not None and now_ns >= self._next_progress_ns:
            self._next_progress_ns = now_ns + PROGRESS_NS
            self._load.on_progress(self._ended, self._total)

    def _look_at(self, connection: Connection, exchange: Exchange, now_ns: int) -> None:
        """Give up what takes too long; read a long answer as it comes, and a quiet one to see whether
        ``[DONE]`` was the last of it."""
        if exchange.sent_ns is not None and exchange.sent_ns + self._load.request_timeout_ns <= now_ns:
            self._finish(connection, BodyEnd.TIMEOUT, now_ns)
            return
        unread, last_ns = exchange.unread, exchange.quiet_since_ns
        quiet = last_ns > 0 and now_ns - last_ns > DONE_GRACE_NS
        if unread > LONG_PIECES or (quiet and unread):
            self._backlog.add(exchange)
        elif quiet and exchange.parser is not None and exchange.parser.done:
            self._finish(connection, BodyEnd.LEFT_OPEN, now_ns)

    def _catch_up(self, arrived: int) -> None:
        """Read twice what arrived: memory stays bounded, and the kernel's stamps do not mind the delay."""
        read = 0
        while self._backlog and read < 2 * arrived:
            read += self._backlog.step()

    def _use_idle_time(self, now_ns: int) -> None:
        """Read a little, prepare a little, else sleep until something happens or is due."""
        due_ns = self._load.supply.next_due_ns()
        calm_ns = self._next_tick_ns - now_ns if due_ns is None else min(due_ns, self._next_tick_ns) - now_ns
        if self._backlog and (due_ns is None or due_ns - now_ns > CALM_NS):
            self._backlog.step()
        elif not self._load.stock.full and (due_ns is None or due_ns - now_ns > CALM_NS):
            self._load.stock.prepare()
        elif calm_ns > 0:
            # epoll's own timeout counts in milliseconds, select's in microseconds.
            select.select([self._epoll], [], [], calm_ns / 1e9)
            self._waits.look()
        self.idle_ns += time.perf_counter_ns() - now_ns
