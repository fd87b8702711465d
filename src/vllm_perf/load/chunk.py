# SPDX-License-Identifier: Apache-2.0
"""What one JSON chunk of a stream carries: payload, usage, the server's own times, or an error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from vllm_perf.load.sample import ServerTimes

MARKERS = tuple(
    b'"%b":%b"' % (name, blank)
    for blank in (b"", b" ")
    for name in (b"content", b"text", b"reasoning", b"reasoning_content")
)
REASONING = ("reasoning", "reasoning_content")


class Kind(IntEnum):
    """What a choice carries, weakest first; from ``TOKEN`` on it is a generated token.

    ``EMPTY_TEXT`` is a completion's ``"text": ""``, ``EMPTY`` an empty delta string without ``role``: either
    may be a token that decoded to nothing. ``TOKEN`` is known only by its ``token_ids``.
    """

    NOTHING = 0
    EMPTY_TEXT = 1
    EMPTY = 2
    TOKEN = 3
    REASONING = 4
    ANSWER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The server's count of tokens so far."""

    output_tokens: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None


def kind_of(choice: Mapping[str, Any]) -> Kind:
    """Say what one element of ``choices`` carries."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        kind = _kind_of_delta(delta)
    elif isinstance(choice.get("text"), str):
        kind = Kind.ANSWER if choice["text"] else Kind.EMPTY_TEXT
    else:
        kind = Kind.NOTHING
    return max(kind, Kind.TOKEN) if choice.get("token_ids") else kind


def _kind_of_delta(delta: Mapping[str, Any]) -> Kind:
    if delta.get("content") or delta.get("refusal") or _calls_something(delta):
        return Kind.ANSWER
    if any(delta.get(name) for name in REASONING):
        return Kind.REASONING
    if delta.get("role") is None and any(delta.get(name) == "" for name in ("content", *REASONING)):
        return Kind.EMPTY
    return Kind.NOTHING


def _calls_something(delta: Mapping[str, Any]) -> bool:
    calls = [call.get("function") for call in delta.get("tool_calls") or () if isinstance(call, dict)]
    calls.append(delta.get("function_call"))
    return any(isinstance(call, dict) and (call.get("name") or call.get("arguments")) for call in calls)


def usage_of(chunk: Mapping[str, Any]) -> Usage | None:
    """Return the chunk's usage, if it counts output tokens."""
    usage = chunk.get("usage")
    if not isinstance(usage, dict) or (output := _count(usage, "completion_tokens")) is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
    return Usage(output_tokens=output, prompt_tokens=_count(usage, "prompt_tokens"), cached_tokens=cached)


def _count(holder: Mapping[str, Any], name: str) -> int | None:
    value = holder.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def server_times(chunk: Mapping[str, Any]) -> ServerTimes | None:
    """Return vLLM's own times (``--enable-per-request-metrics``), which ride on the usage chunk.

    vLLM counts its ``time_to_first_token_ms`` from scheduling, after the queue, and its
    ``generation_time_ms`` from the first token to the last.
    """
    metrics = chunk.get("metrics")
    if not isinstance(metrics, dict):
        return None
    queue, first = _ms(metrics, "queue_time_ms"), _ms(metrics, "time_to_first_token_ms")
    decode = _ms(metrics, "generation_time_ms")
    both = first + decode if first is not None and decode is not None else None
    return ServerTimes(queue_ns=queue, first_token_ns=first, inference_ns=both)


def _ms(metrics: Mapping[str, Any], name: str) -> int | None:
    value = metrics.get(name)
    return round(value * 1e6) if isinstance(value, int | float) else None


def error_text(chunk: Mapping[str, Any], event_name: bytes = b"") -> str | None:
    """Return what an error object says, nested (``{"error": …}``) or flat, else ``None``."""
    error: Any = chunk.get("error")
    if not error and not chunk.get("choices"):
        flat = chunk.get("object") == "error" or ("message" in chunk and "type" in chunk)
        error = chunk if flat or event_name == b"error" else None
    if not error:
        return None
    if not isinstance(error, dict):
        return str(error)
    known = [f"{name} {error[name]}" for name in ("type", "code") if error.get(name) is not None]
    message = error.get("message") or json.dumps(error)
    return f"{message} ({', '.join(known)})" if known else str(message)


def template_of(raw: bytes, chunk: Mapping[str, Any]) -> tuple[bytes, bytes] | None:
    """Return what stands before and after the text of a plain one-token chunk, or ``None``.

    Any line of the same beginning and end whose middle has neither quote nor backslash is the same JSON with
    another non-empty text, so it need not be parsed: that is what makes reading fast.
    """
    choices = chunk["choices"]
    if len(choices) != 1 or choices[0].get("finish_reason") is not None or chunk.get("usage"):
        return None
    for marker in MARKERS:
        before, found, after = raw.partition(marker)
        text, quote, rest = after.partition(b'"')
        if found and quote and text and not needs_json(text) and marker not in rest:
            return (before + marker, quote + rest) if kind_of(choices[0]) >= Kind.REASONING else None
    return None


def needs_json(text: bytes) -> bool:
    """Tell whether ``text`` cannot be the plain inside of a JSON string."""
    return b'"' in text or b"\\" in text or b"\n" in text or b"\r" in text
