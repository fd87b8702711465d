# SPDX-License-Identifier: Apache-2.0
"""A gateway that gives every request one answer, and may repeat the key that it was sent."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """One answer to everything; in ``body`` the word KEY stands for the key that came with the request."""

    status: int
    body: str
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@contextlib.contextmanager
def running(gateway: Gateway) -> Iterator[str]:
    """Serve it on 127.0.0.1; yield its base URL, which ends in /v1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            data = gateway.body.replace("KEY", key).encode()
            self.send_response(gateway.status)
            for name, value in gateway.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _answer

        def log_message(self, *_: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
