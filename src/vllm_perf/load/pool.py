# SPDX-License-Identifier: Apache-2.0
"""Open connections: enough before the load starts, replaced as the server closes them, never reopened to
repeat a request."""

import select
import ssl
import time
from collections.abc import Callable

from vllm_perf.load.exchange import Exchange
from vllm_perf.load.failures import ConnectTimeout, Failure
from vllm_perf.load.framing import FramingError
from vllm_perf.load.opening import Opening, Route
from vllm_perf.load.wire import Wire

CONNECT_TIMEOUT_NS = 10_000_000_000
OPENING_AT_ONCE = 64
OPEN_POLL_S = 0.01
# uvicorn, and so vLLM, closes an idle connection after 5 s: one that old is not trusted with a request.
IDLE_LIMIT_NS = 4_000_000_000
GIVE_UP_AFTER = 32
GIVE_UP_AFTER_TIMEOUTS = 2


class Connection:
    """One open connection and what it carries. ``connect_ns`` is taken by its first request."""

    __slots__ = ("connect_ns", "exchange", "fd", "idle_since_ns", "read", "used", "wire", "write", "writing")

    def __init__(self, wire: Wire, connect_ns: int, now_ns: int) -> None:
        """Start idle."""
        self.wire = wire
        self.read = wire.read
        self.write = wire.write
        self.fd = wire.sock.fileno()
        self.connect_ns: int | None = connect_ns
        self.exchange: Exchange | None = None
        self.idle_since_ns = now_ns
        self.used = False
        self.writing = False


class Pool:
    """All connections of one load.

    ``failures`` are what failed openings raised, for the loop to hand on. ``hopeless`` is set once so many
    in a row have failed that trying further would only take time.
    """

    def __init__(
        self,
        route: Route,
        epoll: select.epoll,
        connect_timeout_ns: int,
        name: Callable[[BaseException], Failure],
    ) -> None:
        """Start empty; ``name`` finds the category of an error."""
        self.connections: dict[int, Connection] = {}
        self.failures: list[BaseException] = []
        self.hopeless: BaseException | None = None
        self.lost = 0
        self._name = name
        self._names: dict[tuple[type, str], Failure] = {}
        self._route = route
        self._epoll = epoll
        self._timeout_ns = min(CONNECT_TIMEOUT_NS, connect_timeout_ns)
        self._idle: list[Connection] = []
        self._opening: dict[int, tuple[Opening, int, int]] = {}
        self._place = 0
        self._in_a_row = 0

    @property
    def opening(self) -> int:
        """Return how many connections are on their way."""
        return len(self._opening)

    @property
    def idle(self) -> int:
        """Return how many connections wait for a request."""
        return len(self._idle)

    def open(self, count: int) -> None:
        """Open ``count`` connections before a load starts; the first failure ends the attempt.

        What could not be opened is tried again by the request that needs it.
        """
        while len(self._idle) < count and not self.failures:
            self.ensure(count, time.perf_counter_ns())
            for fd, _ in self._epoll.poll(OPEN_POLL_S):
                self.advance(fd, time.perf_counter_ns())
            self.expire(time.perf_counter_ns())
        self.failures.clear()

    @property
    def failing(self) -> bool:
        """Tell whether a request that waits for a connection has to be given up."""
        return bool(self.failures) or self.hopeless is not None

    def next_failure(self) -> Failure:
        """Return why that is; each failed opening is handed out once, hopelessness again and again."""
        error = self.failures.pop() if self.failures else self.hopeless
        return self.named(error or ConnectTimeout("no connection could be opened"))

    def named(self, error: BaseException) -> Failure:
        """Return the category of ``error``; each kind is looked into once, as that may try the way again."""
        key = (type(error), str(error))
        if key not in self._names:
            self._names[key] = self._name(error)
        return self._names[key]

    def ensure(self, idle: int, now_ns: int) -> None:
        """Open connections until ``idle`` of them wait or are on their way."""
        missing = idle - len(self._idle) - len(self._opening)
        room = OPENING_AT_ONCE - len(self._opening)
        for _ in range(min(missing, room)):
            if self.hopeless is not None or not self._open(now_ns, self._place):
                return

    def take(self, now_ns: int) -> Connection | None:
        """Return an idle connection that can be trusted, the last used first."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.used or now_ns - connection.idle_since_ns < IDLE_LIMIT_NS:
                connection.used = True
                return connection
            self.discard(connection)
        return None

    def release(self, connection: Connection, now_ns: int) -> None:
        """Take a connection back for the next request."""
        connection.idle_since_ns = now_ns
        self._idle.append(connection)

    def lose(self, connection: Connection) -> None:
        """Close a connection that the server ended, or that a failure left unusable."""
        self.lost += 1
        self.discard(connection)

    def discard(self, connection: Connection) -> None:
        """Close a connection for good; closing takes it out of epoll."""
        if self.connections.pop(connection.fd, None) is not None:
            if connection in self._idle:
                self._idle.remove(connection)
            connection.wire.sock.close()

    def watch_writes(self, connection: Connection, on: bool) -> None:
        """Wait for room to write, or no longer."""
        connection.writing = on
        self._epoll.modify(connection.fd, select.EPOLLIN | (select.EPOLLOUT if on else 0))

    def advance(self, fd: int, now_ns: int) -> None:
        """Go on with a connection on its way whose events have come."""
        if fd not in self._opening:
            return
        opening, started_ns, place = self._opening[fd]
        try:
            done = opening.step()
        except (OSError, FramingError, ssl.SSLError) as error:
            self._failed(fd, error, now_ns)
            return
        if not done:
            self._epoll.modify(fd, opening.mask)
            return
        del self._opening[fd]
        self._place, self._in_a_row = place, 0
        if opening.wire is not None:
            self._epoll.modify(fd, select.EPOLLIN)
            self.connections[fd] = connection = Connection(opening.wire, now_ns - started_ns, now_ns)
            self._idle.insert(0, connection)

    def expire(self, now_ns: int) -> None:
        """Give up on connections that take too long."""
        late = [fd for fd, entry in self._opening.items() if now_ns - entry[1] > self._timeout_ns]
        for fd in late:
            seconds = self._timeout_ns / 1e9
            self._failed(fd, ConnectTimeout(f"connection not open within {seconds:g} s"), now_ns)

    def close(self) -> None:
        """Close everything."""
        for opening, _, _ in self._opening.values():
            opening.close()
        for connection in self.connections.values():
            connection.wire.sock.close()
        self._opening.clear()
        self.connections.clear()
        self._idle.clear()

    def _open(self, now_ns: int, place: int) -> bool:
        try:
            opening = Opening(self._route, self._route.places[place])
        except OSError as error:
            self._next_place(place, error, now_ns)
            return False
        fd = opening.sock.fileno()
        self._opening[fd] = (opening, now_ns, place)
        self._epoll.register(fd, opening.mask)
        return True

    def _failed(self, fd: int, error: BaseException, now_ns: int) -> None:
        opening, _, place = self._opening.pop(fd)
        opening.close()
        self._next_place(place, error, now_ns)

    def _next_place(self, place: int, error: BaseException, now_ns: int) -> None:
        """Try the name's next address (localhost is ::1 and 127.0.0.1); after the last one it has failed."""
        if place + 1 < len(self._route.places):
            self._open(now_ns, place + 1)
            return
        self.failures.append(error)
        self._in_a_row += 1
        patience = GIVE_UP_AFTER_TIMEOUTS if isinstance(error, TimeoutError) else GIVE_UP_AFTER
        if self._in_a_row >= patience and not self.connections:
            self.hopeless = error
