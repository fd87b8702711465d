# SPDX-License-Identifier: Apache-2.0
"""A small channel with a mind of its own: it refuses fields, limits rates, and keeps its own account."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(slots=True, kw_only=True)
class Ways:
    """How the channel behaves. ``tokens_a_byte``: what it counts for a prompt, per byte of its body.

    ``refuse_at`` holds the numbers (from 1) of the completions that get a 429 with ``retry_after``.
    ``breaks_after``: that many answers, and then only errors.
    ``length`` is how many tokens the model writes when it is not made to write more.
    """

    refuses: tuple[str, ...] = ()
    usage: bool = True
    honours_max_tokens: bool = True
    honours_seed: bool = True
    pins_length: bool = True
    length: int = 3
    tokens_a_byte: float = 0.25
    refuse_at: frozenset[int] = frozenset()
    retry_after: str | None = "7"
    chunk_gap_s: float = 0.001
    in_one_piece: bool = False
    breaks_after: int | None = None


@dataclass(slots=True, kw_only=True)
class Account:
    """What the channel saw and counted; ``completions`` holds every accepted body, in order."""

    completions: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0


class PickyChannel:
    """Serve while the context lasts."""

    def __init__(self, ways: Ways | None = None) -> None:
        self.ways = ways or Ways()
        self.account = Account()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def base_url(self) -> str:
        """Return the base URL of an OpenAI client."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def admit(self, body: dict[str, Any], size: int) -> tuple[int, dict[str, Any]]:
        """Decide on one completion; return its status and either an error or its usage."""
        ways, account = self.ways, self.account
        with self._lock:
            account.asked += 1
            if ways.breaks_after is not None and len(account.completions) >= ways.breaks_after:
                return 500, {"error": {"message": "boom", "type": "InternalServerError"}}
            if account.asked in ways.refuse_at:
                account.refused += 1
                return 429, {"error": {"message": "slow down", "type": "rate_limit", "code": "429"}}
            for name in ways.refuses:
                if name in body:
                    return 400, {"error": {"message": f"unknown field {name}", "type": "invalid_request"}}
            prompt, output = round(size * ways.tokens_a_byte), self._output(body)
            account.completions.append(body)
            account.prompt_tokens += prompt
            account.output_tokens += output
        return 200, {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}

    def _output(self, body: dict[str, Any]) -> int:
        asked = int(body["max_tokens"])
        if not self.ways.honours_max_tokens:
            return 2 * asked
        return asked if self.ways.pins_length and body.get("ignore_eos") else min(asked, self.ways.length)

    def words(self, body: dict[str, Any], usage: dict[str, Any]) -> Iterator[str]:
        """Return the answer's text, one word a token."""
        seed = body.get("seed", 0) if self.ways.honours_seed else time.perf_counter_ns()
        return (f" w{seed}-{number}" for number in range(usage["completion_tokens"]))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        return type("Handler", (_Handler,), {"channel": self})

    def events(self, body: dict[str, Any], usage: dict[str, Any]) -> Iterator[bytes]:
        """Yield the events of one answer."""
        yield _event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for word in self.words(body, usage):
            yield _event({"choices": [{"index": 0, "delta": {"content": word}}]})
        full = usage["completion_tokens"] >= int(body["max_tokens"])
        yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length" if full else "stop"}]})
        if self.ways.usage and "stream_options" in body:
            yield _event({"choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class _Handler(BaseHTTPRequestHandler):
    channel: PickyChannel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        models = {"object": "list", "data": [{"id": "m"}]}
        found = self.path == "/v1/models"
        self._whole(200 if found else 404, models if found else {"detail": "Not Found"})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = json.loads(data)
        status, answer = self.channel.admit(body, len(data))
        if status != 200:
            self._whole(status, answer)
            return
        self._stream(body, answer)

    def _whole(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429 and self.channel.ways.retry_after is not None:
            self.send_header("Retry-After", self.channel.ways.retry_after)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, body: dict[str, Any], usage: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = list(self.channel.events(body, usage))
        if self.channel.ways.in_one_piece:
            self._chunk(b"".join(events))
        else:
            for event in events:
                self._chunk(event)
                time.sleep(self.channel.ways.chunk_gap_s)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
