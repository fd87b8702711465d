# SPDX-License-Identifier: Apache-2.0
"""The golden engine as a server: in a thread of this process, or in the foreground."""

import contextlib
import select
import socket
import ssl
import threading
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from vllm_perf.clock import KernelClock
from vllm_perf.golden.counters import Counters
from vllm_perf.golden.engine import Engine
from vllm_perf.golden.profile import Noise, Profile, ServerOptions
from vllm_perf.golden.reactor import Reactor
from vllm_perf.golden.records import Record, Records
from vllm_perf.golden.routes import Router
from vllm_perf.golden.wire import Connection

BACKLOG = 4096


class GoldenServer:
    """Listen from construction on; serve while the context lasts, or in ``serve_forever``."""

    def __init__(
        self, profile: Profile | None = None, options: ServerOptions | None = None, noise: Noise | None = None
    ) -> None:
        """Bind the port.

        Raises:
            OSError: the address cannot be bound.
        """
        self.options = options or ServerOptions()
        self._tls = _tls_context(self.options)
        self._clock = KernelClock(wanted=self.options.kernel_stamps)
        self._reactor = Reactor()
        self._engine = Engine(self._reactor, self.options, noise or Noise())
        self._router = Router(self._engine, profile or Profile())
        self._listener = _listen(self.options)
        self._connections: set[Connection] = set()
        self._thread: threading.Thread | None = None
        self.port: int = self._listener.getsockname()[1]
        self._reactor.watch(self._listener.fileno(), select.EPOLLIN, self._accept)

    def __enter__(self) -> Self:
        """Serve in a thread."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, close every connection and free the port."""
        self.stop()

    def start(self) -> None:
        """Serve in a thread until ``stop``."""
        self._thread = threading.Thread(target=self.serve_forever, name="golden-engine", daemon=True)
        self._thread.start()

    def serve_forever(self) -> None:
        """Serve until ``stop``."""
        try:
            self._reactor.run()
        finally:
            self._listener.close()
            self._clock.close()
            for connection in list(self._connections):
                connection.close()
            self._reactor.close()

    def stop(self) -> None:
        """End ``serve_forever``, from any thread or a signal handler; wait for the thread of ``start``."""
        self._reactor.stop()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    @property
    def clock(self) -> str:
        """Return where the times of receipt come from: the kernel's stamps, or after each read."""
        return self._clock.name

    @property
    def root_url(self) -> str:
        """Return the server's URL without a path."""
        scheme = "https" if self._tls is not None else "http"
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return f"{scheme}://{host}:{self.port}"

    @property
    def base_url(self) -> str:
        """Return the base URL of an OpenAI client."""
        return f"{self.root_url}/v1"

    def base_url_for(self, **wishes: Any) -> str:
        """Return a base URL under which every request has these fields of ``Profile``."""
        items = ",".join(f"{name}={value}" for name, value in wishes.items())
        return f"{self.root_url}/golden/{quote(items, safe='=,')}/v1"

    @property
    def records(self) -> Records:
        """Return what was really sent, and when."""
        return self._engine.records

    @property
    def counters(self) -> Counters:
        """Return the counters that ``/metrics`` shows."""
        return self._engine.counters

    @property
    def requests_seen(self) -> int:
        """Return how many requests came, of any kind."""
        return self._router.number

    def record(self, request_id: str) -> Record:
        """Return the record of one ``X-Request-Id``.

        Raises:
            KeyError: there was no such request.
        """
        record = self._engine.records.get(request_id)
        if record is None:
            raise KeyError(f"the golden engine saw no request '{request_id}'")
        return record

    def _accept(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                connection = Connection(self._reactor, sock, self._router.handle, self._tls, self._clock)
                self._connections.add(connection)
                connection.forget = self._connections.discard


def _listen(options: ServerOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((options.host, options.port))
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _tls_context(options: ServerOptions) -> ssl.SSLContext | None:
    if options.cert_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert_file, options.key_file)
    return context
