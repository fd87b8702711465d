# SPDX-License-Identifier: Apache-2.0
"""The kernel's receive timestamps on our clock: switch them on, and watch the offset between the clocks.

``SO_TIMESTAMPNS`` stamps in wall time; everything else here is ``perf_counter_ns`` (``CLOCK_MONOTONIC``).
Both clocks are slewed together, so their offset moves only when somebody sets the wall clock.
"""

import socket
import struct
import time
from collections.abc import Iterable
from typing import Any

# The socket module names it only from Python 3.14 on; the number is Linux's for all but a few platforms.
SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
ANCILLARY_BYTES = 64
MAX_OFFSET_MOVE_NS = 200_000
SWITCH_ON_DEADLINE_S = 0.5
# Looked up once: this is done for every read of a load.
_SOL_SOCKET = socket.SOL_SOCKET
_TIMESPEC_SIZE, _unpack = struct.calcsize("qq"), struct.Struct("qq").unpack
Ancillary = list[tuple[int, int, bytes]]


def wall_offset_ns(tries: int = 5) -> int:
    """Return ``perf_counter_ns`` minus wall time, from the tightest of ``tries`` brackets."""
    brackets = []
    for _ in range(tries):
        before = time.perf_counter_ns()
        wall = time.time_ns()
        after = time.perf_counter_ns()
        brackets.append((after - before, (before + after) // 2 - wall))
    return min(brackets)[1]


def stamp_socket(sock: socket.socket) -> None:
    """Ask the kernel to stamp what arrives on ``sock``."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def kernel_ns(ancillary: Ancillary) -> int | None:
    """Return the wall time in ns at which the kernel took in the bytes read, if it says."""
    for level, kind, data in ancillary:
        if kind == SO_TIMESTAMPNS and level == _SOL_SOCKET and len(data) == _TIMESPEC_SIZE:
            seconds, nanoseconds = _unpack(data)
            return seconds * 1_000_000_000 + nanoseconds  # type: ignore[no-any-return]
    return None


class KernelClock:
    """Turn kernel stamps into ``perf_counter_ns``, as long as the wall clock holds still.

    ``works`` is false where the platform gives no stamps, and from the moment on the offset moved;
    ``warning`` says so.
    """

    def __init__(self, wanted: bool = True) -> None:
        """Switch stamps on for this host; they start only some milliseconds after the first socket asks."""
        self.warning: str | None = None
        self._guard: tuple[socket.socket, ...] = ()
        self.works = wanted and self._switch_on()
        if wanted and not self.works:
            self.warning = "no kernel receive timestamps on this platform: arrival is taken after each read"
        self.offset_ns = wall_offset_ns()

    @property
    def name(self) -> str:
        """Return what ``Run.clock`` says."""
        return "kernel receive timestamps" if self.works else "perf_counter_ns"

    def check(self) -> bool:
        """Compare the offset with the first one; return whether stamps can still be used."""
        if self.works and abs(moved := wall_offset_ns(2) - self.offset_ns) > MAX_OFFSET_MOVE_NS:
            # A pause between the readings looks the same: only a second, tighter look decides.
            moved = wall_offset_ns(25) - self.offset_ns
            if abs(moved) > MAX_OFFSET_MOVE_NS:
                self.works = False
                self.warning = (
                    f"the wall clock moved by {moved / 1e6:.1f} ms during the load: kernel receive timestamps"
                    " were given up, arrival is taken after each read from there on"
                )
        return self.works

    def arrival_ns(self, ancillary: Ancillary, read_ns: int) -> int:
        """Return when bytes arrived: the kernel's stamp where it can be used, else when they were read.

        A stamp later than the read itself is refused: it cannot be.
        """
        if not self.works or not ancillary:
            return read_ns
        wall_ns = kernel_ns(ancillary)
        if wall_ns is None:
            return read_ns
        arrived_ns = wall_ns + self.offset_ns
        return arrived_ns if arrived_ns < read_ns else read_ns

    def arrivals_ns(self, reads: Iterable[tuple[bytes, Ancillary, int]]) -> list[int]:
        """Return ``arrival_ns`` of many reads (bytes, stamp, when read) at once: half the cost."""
        if not self.works:
            return [read_ns for _, _, read_ns in reads]
        arrivals, offset_ns, arrival_ns = [], self.offset_ns, self.arrival_ns
        for _, stamp, read_ns in reads:
            if len(stamp) == 1 and stamp[0][1] == SO_TIMESTAMPNS and len(stamp[0][2]) == _TIMESPEC_SIZE:
                seconds, nanoseconds = _unpack(stamp[0][2])
                arrived_ns = seconds * 1_000_000_000 + nanoseconds + offset_ns
                arrivals.append(arrived_ns if arrived_ns < read_ns else read_ns)
            else:
                arrivals.append(arrival_ns(stamp, read_ns))
        return arrivals

    def close(self) -> None:
        """Give back the sockets that keep stamps switched on."""
        for sock in self._guard:
            sock.close()
        self._guard = ()

    def _switch_on(self) -> bool:
        try:
            self._guard = _loopback_pair()
            sender, receiver = self._guard[0], self._guard[1]
            stamp_socket(receiver)
            deadline = time.monotonic() + SWITCH_ON_DEADLINE_S
            while time.monotonic() < deadline:
                sender.send(b".")
                if kernel_ns(_ancillary(receiver)) is not None:
                    return True
        except OSError:
            return False
        return False


def _ancillary(sock: socket.socket) -> Any:
    return sock.recvmsg(1, ANCILLARY_BYTES)[1]


def _loopback_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname(), timeout=SWITCH_ON_DEADLINE_S)
        receiver, _ = server.accept()
    receiver.settimeout(SWITCH_ON_DEADLINE_S)
    return sender, receiver
