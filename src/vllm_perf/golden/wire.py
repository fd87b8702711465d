# SPDX-License-Identifier: Apache-2.0
"""One client's connection: requests in, bytes out at once, each write stamped right before its call."""

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl

from vllm_perf.clock import ANCILLARY_BYTES, KernelClock, stamp_socket
from vllm_perf.golden.reactor import Reactor

READ_BYTES = 262_144
HEADER_LIMIT = 65_536
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request; header names are lower case; ``received_ns`` is when its last byte came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    received_ns: int


OnRequest = Callable[["Connection", Request], None]


class Connection:
    """A non-blocking socket, plain or TLS, that reads one request at a time and keeps alive."""

    def __init__(
        self,
        reactor: Reactor,
        sock: socket.socket,
        on_request: OnRequest,
        tls: ssl.SSLContext | None,
        clock: KernelClock,
    ) -> None:
        """Take over an accepted socket; ``clock`` says whether the kernel stamps what comes in."""
        self._reactor, self._sock, self._on_request = reactor, sock, on_request
        self._clock = clock
        self._fd = sock.fileno()
        self._in = bytearray()
        self._out = bytearray()
        self._busy = self._ending = False
        self._tls_in, self._tls_out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._tls_in, self._tls_out, server_side=True) if tls else None
        self._shaken = tls is None
        self.closed = False
        self.on_close: Callable[[], None] | None = None
        self.forget: Callable[[Connection], None] = _ignore
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if clock.works:
                stamp_socket(sock)
        reactor.watch(self._fd, select.EPOLLIN, self._ready)

    def write(self, data: bytes) -> int:
        """Send ``data`` now and return the time right before the write.

        What the socket does not take at once follows when it can (``blocked`` is then true).
        """
        if self._tls is not None and not self.closed:
            self._tls.write(data)
            data = self._tls_out.read()
        return self._send(data)

    @property
    def blocked(self) -> bool:
        """Tell whether bytes are waiting for the socket."""
        return bool(self._out)

    def done(self, *, close: bool = False) -> None:
        """End the current response; go on with the next request, or close after the last byte."""
        self._busy = False
        self.on_close = None
        if close:
            self._say_goodbye()
            self._ending = True
            if not self._out:
                self.close()
        else:
            self._next_request()

    def close(self, *, reset: bool = False) -> None:
        """Close now, by FIN or by RST."""
        if self.closed:
            return
        self.closed = True
        self._reactor.forget(self._fd)
        if reset:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        else:
            # FIN first: close() with unread input would send RST instead.
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
        self._sock.close()
        self.forget(self)
        gone, self.on_close = self.on_close, None
        if gone is not None:
            gone()

    def _say_goodbye(self) -> None:
        # Without TLS's own end a client cannot tell a whole body from a cut one.
        if self._tls is not None and not self.closed:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._send(self._tls_out.read())

    def _send(self, data: bytes) -> int:
        if self._out or self.closed:
            self._out += b"" if self.closed else data
            return time.perf_counter_ns()
        stamp = time.perf_counter_ns()
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return stamp
        if sent != len(data):
            self._out += data[sent:]
            self._reactor.change(self._fd, select.EPOLLIN | select.EPOLLOUT)
        return stamp

    def _ready(self, events: int) -> None:
        if events & select.EPOLLOUT and self._out:
            self._flush()
        if not self.closed and events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            self._read()

    def _flush(self) -> None:
        try:
            sent = self._sock.send(self._out)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        del self._out[:sent]
        if not self._out:
            self._reactor.change(self._fd, select.EPOLLIN)
            if self._ending:
                self.close()

    def _read(self) -> None:
        try:
            data, stamp, _, _ = self._sock.recvmsg(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        # At many simultaneous starts a request waits here for its turn: that wait is this server's, not the
        # client's, and by the kernel's stamp it is not blamed on the client.
        self._clock.check()
        received_ns = self._clock.arrival_ns(stamp, time.perf_counter_ns())
        if not data:
            self.close()
            return
        self._in += data if self._tls is None else self._decrypt(data)
        if not self._busy:
            self._next_request(received_ns)

    def _decrypt(self, data: bytes) -> bytes:
        assert self._tls is not None
        self._tls_in.write(data)
        plain = bytearray()
        try:
            if not self._shaken:
                self._tls.do_handshake()
                self._shaken = True
            while True:
                plain += self._tls.read(READ_BYTES)
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLError):
            # A client that speaks no TLS, or has had enough: its answer is what OpenSSL wants to say.
            self._ending = True
        answer = self._tls_out.read()
        if answer:
            self._send(answer)
        if self._ending:
            self.close()
        return bytes(plain)

    def _next_request(self, received_ns: int | None = None) -> None:
        if self.closed or self._ending:
            return
        head, found, rest = bytes(self._in).partition(b"\r\n\r\n") if self._in else (b"", b"", b"")
        if not found:
            if len(self._in) > HEADER_LIMIT or (self._in and not self._in[:1].isalpha()):
                self._refuse()
            return
        request_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "0")
        parts = request_line.split(" ")
        if len(parts) != 3 or not length.isdigit() or "transfer-encoding" in headers:
            self._refuse()
            return
        if len(rest) < int(length):
            return
        del self._in[: len(head) + 4 + int(length)]
        path, _, query = parts[1].partition("?")
        self._busy = True
        self._on_request(
            self,
            Request(
                method=parts[0],
                path=path,
                query=dict(parse_qsl(query)),
                headers=headers,
                body=rest[: int(length)],
                received_ns=received_ns or time.perf_counter_ns(),
            ),
        )

    def _refuse(self) -> None:
        body = b"Invalid HTTP request received."
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n"
        self.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.done(close=True)


def _ignore(_connection: Connection) -> None:
    pass
