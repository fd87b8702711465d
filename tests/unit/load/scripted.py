# SPDX-License-Identifier: Apache-2.0
"""A server that does what a test tells it to, byte by byte, and remembers what it was asked."""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.spec.workload import ArrivalSpec

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CLOSING = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
LAST = b"0\r\n\r\n"
UNAUTHORIZED = b'HTTP/1.1 401 Unauthorized\r\nContent-Length: 24\r\n\r\n{"error":"Unauthorized"}'


def event(data: dict[str, Any] | bytes) -> bytes:
    """Return one server-sent event as one HTTP chunk."""
    text = data if isinstance(data, bytes) else json.dumps(data, separators=(",", ":")).encode()
    whole = b"data: " + text + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(whole), whole)


def delta(fields: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """Return a chat chunk."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def usage(tokens: int) -> dict[str, Any]:
    """Return the usage chunk."""
    counts = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    return {"id": "c", "choices": [], "usage": counts}


def tokens(count: int) -> list[bytes]:
    """Return the chunks of a stream up to its last token."""
    words = [event(delta({"content": f"t{number}"})) for number in range(count)]
    return [event(delta({"role": "assistant", "content": ""})), *words]


def tail(count: int) -> list[bytes]:
    """Return the end of a stream of ``count`` tokens."""
    return [event(delta({}, "length")), event(usage(count)), event(b"[DONE]"), LAST]


def stream(count: int = 2, head: bytes = HEAD) -> list[bytes]:
    """Return a whole, ordinary answer, one write a piece."""
    return [head, *tokens(count), *tail(count)]


@dataclass
class Asked:
    """One request as it arrived; ``connection`` numbers connections from 0."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


Play = Callable[[socket.socket, Asked], bool]
"""Answer one request; return whether the connection stays open."""


def saying(*pieces: bytes, close: bool = False) -> Play:
    """Return a play that writes ``pieces``."""

    def play(sock: socket.socket, asked: Asked) -> bool:
        for piece in pieces:
            sock.sendall(piece)
        return not close

    return play


@dataclass
class Scripted:
    """Listen on loopback; each connection has a thread that reads requests and lets ``play`` answer.

    ``gate`` is set when the test ends: a play that waits for it waits for ever.
    """

    play: Play
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    gate: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _open: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> "Scripted":
        """Listen."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.create_server((self.host, 0), family=family, backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything and wait for every thread."""
        self.gate.set()
        for sock in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in list(self._threads):
            thread.join(10)

    @property
    def base_url(self) -> str:
        """Return the base URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/v1"

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(sock)
            self._start(self._serve, sock, self.connections)
            self.connections += 1

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, ValueError):
            wire = self.tls.wrap_socket(sock, server_side=True) if self.tls else sock
            if wire is not sock:
                self._open.append(wire)
            for asked in read_requests(wire, number):
                self.asked.append(asked)
                if not self.play(wire, asked):
                    break
            wire.close()
        sock.close()


def read_requests(sock: socket.socket, number: int) -> Iterator[Asked]:
    """Yield the requests of one connection."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            more = sock.recv(65_536)
            if not more:
                return
            data += more
        head, _, data = data.partition(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, _, v in (one.partition(":") for one in lines)}
        length = int(headers.get("content-length", "0"))
        while len(data) < length:
            data += sock.recv(65_536)
        body, data = data[:length], data[length:]
        yield Asked(connection=number, line=line, headers=headers, body=body)


def plan(base_url: str, count: int = 1, **changes: Any) -> LoadPlan:
    """Return a plan of ``count`` small chat requests; ``target`` fields and plan fields may be changed."""
    fields = {"api_key", "ca_file", "proxy"}
    target = Target(base_url=base_url, model="m", **{k: v for k, v in changes.items() if k in fields})
    requests: Sequence[PlannedRequest] = changes.get("requests") or [
        PlannedRequest(prompt_id=f"p{number:05d}", body=b'{"n":%d}' % number) for number in range(count)
    ]
    return LoadPlan(
        workload="w",
        endpoint=changes.get("endpoint", "chat"),
        target=target,
        requests=tuple(requests),
        arrival=changes.get("arrival", ArrivalSpec(concurrency=changes.get("concurrency", 1))),
        pinned_output_tokens=changes.get("pinned"),
        request_timeout_s=changes.get("timeout_s", 10.0),
        duration_s=changes.get("duration_s"),
    )
