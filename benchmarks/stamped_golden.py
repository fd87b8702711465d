# SPDX-License-Identifier: Apache-2.0
"""A golden engine whose requests count as received when the kernel took in their last byte.

At 512 simultaneous starts the engine reads its last request tens of milliseconds after it arrived. That wait
is the server's; by the kernel's stamp it is not blamed on the client.
"""

import gc
import json
import signal
import socket
import struct
import sys
import time
import types
from typing import Any

from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.golden import server as golden_server
from vllm_perf.golden.wire import Connection

SO_TIMESTAMPNS = 35
ANCILLARY_BYTES = 64


class StampedSocket:
    """A socket that notes the kernel's stamp of what it read last; all else is the socket's own."""

    def __init__(self, sock: socket.socket) -> None:
        """Wrap ``sock`` and ask for stamps."""
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._sock = sock
        self.send = sock.send
        self.stamp_ns: int | None = None

    def __getattr__(self, name: str) -> Any:
        """Hand everything else on."""
        return getattr(self._sock, name)

    def recv(self, size: int) -> bytes:
        """Read, and keep the stamp on the scale of ``perf_counter_ns``."""
        data, ancillary, _, _ = self._sock.recvmsg(size, ANCILLARY_BYTES)
        self.stamp_ns = None
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", value)
                self.stamp_ns = seconds * 1_000_000_000 + nanoseconds + wall_offset_ns()
        return data


class StampedConnection(Connection):
    """A connection of the golden engine that passes the kernel's stamp on as the time of receipt."""

    def __init__(self, reactor: Any, sock: Any, on_request: Any, tls: Any) -> None:
        """Take over an accepted socket."""
        super().__init__(reactor, StampedSocket(sock), on_request, tls)  # type: ignore[arg-type]

    def _next_request(self, received_ns: int | None = None) -> None:
        stamp_ns = getattr(self._sock, "stamp_ns", None)
        super()._next_request(stamp_ns if received_ns is not None and stamp_ns is not None else received_ns)


def wall_offset_ns() -> int:
    """Return ``perf_counter_ns`` minus wall time."""
    before = time.perf_counter_ns()
    wall = time.time_ns()
    return (before + time.perf_counter_ns()) // 2 - wall


def main() -> None:
    """Serve with the profile given as a JSON argument until a signal; print one JSON line that says where."""
    with socket.socket() as guard:
        # Stamps begin some milliseconds after the first socket of the machine asks for them.
        guard.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        golden_server.Connection = StampedConnection  # type: ignore[misc]
        server = GoldenServer(Profile(**json.loads(sys.argv[1])), ServerOptions(prefix_caching=False))

        def stop(_number: int, _frame: types.FrameType | None) -> None:
            server.stop()

        signal.signal(signal.SIGTERM, stop)
        gc.freeze()
        gc.disable()
        print(json.dumps({"base_url": server.base_url, "model": server.options.model}), flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
