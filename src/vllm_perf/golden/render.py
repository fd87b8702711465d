# SPDX-License-Identifier: Apache-2.0
"""Bytes of answers, shaped like those of vLLM 0.32."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

EVENT_STREAM = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"


def dumps(value: Any) -> bytes:
    """Return JSON without spaces, as vLLM's models write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def head(status: int, content_type: str, more: Mapping[str, str] | None = None) -> bytes:
    """Return a status line and headers, without the empty line that ends them."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", "server: uvicorn"]
    if content_type:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name}: {value}" for name, value in (more or {}).items()]
    return "\r\n".join(lines).encode("latin-1")


def whole(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """Return a complete answer with its length."""
    return head(status, content_type, {"content-length": str(len(body))}) + b"\r\n\r\n" + body


def chunked_head(status: int = 200, content_type: str = EVENT_STREAM) -> bytes:
    """Return the headers of a chunked answer."""
    return head(status, content_type, {"transfer-encoding": "chunked"}) + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(value: Any) -> bytes:
    """Return one server-sent event."""
    return b"data: %b\n\n" % dumps(value)


def error_body(status: int, message: str, kind: str, param: str | None = None) -> bytes:
    """Return vLLM's error envelope (since 0.10.1)."""
    return dumps({"error": {"message": message, "type": kind, "param": param, "code": status}})


def usage(
    prompt: int, output: int, cached: int | None = None, reasoning: int | None = None
) -> dict[str, Any]:
    """Return a usage object."""
    value: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + output,
        "completion_tokens": output,
    }
    if cached is not None:
        value["prompt_tokens_details"] = {"cached_tokens": cached}
    if reasoning:
        value["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    return value


class ChunkShape:
    """Write the stream chunks of one request; chat and text completions differ only here."""

    def __init__(self, request_id: str, model: str, created: int, chat: bool) -> None:
        """Fix what all chunks of the request share."""
        self._chat = chat
        self._base: dict[str, Any] = {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{request_id}",
            "object": "chat.completion.chunk" if chat else "text_completion",
            "created": created,
            "model": model,
        }

    def role(self, counts: dict[str, Any] | None = None) -> bytes:
        """Return the chunk that carries only the role."""
        return self._event(self._choice({"role": "assistant", "content": ""}, None), counts)

    def text(
        self,
        text: str,
        field: str = "content",
        finish: str | None = None,
        counts: dict[str, Any] | None = None,
    ) -> bytes:
        """Return a chunk with generated text; ``counts`` is its usage, with continuous usage."""
        payload: Any = {field: text} if self._chat else text
        return self._event(self._choice(payload, finish), counts)

    def finish(self, reason: str, counts: dict[str, Any] | None = None) -> bytes:
        """Return a chunk with nothing but a finish reason."""
        return self._event(self._choice({} if self._chat else "", reason), counts)

    def usage(self, counts: dict[str, Any], metrics: dict[str, Any] | None = None) -> bytes:
        """Return the chunk that carries only usage, and the server's own times if they are on."""
        value = {**self._base, "choices": [], "usage": counts}
        return event({**value, "metrics": metrics} if metrics is not None else value)

    def _choice(self, payload: Any, finish: str | None) -> dict[str, Any]:
        choice = {"index": 0, "delta" if self._chat else "text": payload, "logprobs": None}
        choice["finish_reason"] = finish
        return choice if finish is None else {**choice, "stop_reason": None}

    def _event(self, choice: dict[str, Any], counts: dict[str, Any] | None) -> bytes:
        value = {**self._base, "choices": [choice]}
        return event({**value, "usage": counts} if counts is not None else value)
