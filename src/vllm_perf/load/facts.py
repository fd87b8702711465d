# SPDX-License-Identifier: Apache-2.0
"""What the events of one stream have shown so far, whoever took them off the wire."""

from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from vllm_perf.load.answer import BodyEnd, StreamResult
from vllm_perf.load.chunk import error_text, server_times, usage_of
from vllm_perf.load.outcome import Evidence, judge, warnings_of
from vllm_perf.load.sample import ServerTimes
from vllm_perf.load.tokens import TokenLedger
from vllm_perf.spec.category import Category

BUFFERED_GAP_NS = 100_000
BUFFERED_CHUNKS = 8


class StreamFacts:
    """Collect what JSON objects of a stream say; ``finish`` judges it.

    ``done`` is whether ``[DONE]`` came, ``None`` where that cannot be known. ``head`` holds a body's first
    bytes where it had no event at all.
    """

    __slots__ = ("cut_tail", "done", "error", "head", "malformed", "null_events", "server", "tokens")

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.tokens = TokenLedger()
        self.server: ServerTimes | None = None
        self.done: bool | None = False
        self.error: str | None = None
        self.malformed: str | None = None
        self.null_events = 0
        self.cut_tail = False
        self.head = b""

    def take(self, ns: int, value: dict[str, Any], name: bytes = b"") -> bool:
        """Take one event's JSON object, which arrived at ``ns``; return whether it carried choices."""
        self.error = self.error or error_text(value, name)
        self.server = server_times(value) or self.server
        usage = usage_of(value)
        self.tokens.usage = usage or self.tokens.usage
        choices = value.get("choices")
        if self.done or not isinstance(choices, list):
            return False
        known = [choice for choice in choices if isinstance(choice, dict)]
        if known:
            self.tokens.take(ns, known, usage)
        return bool(known)

    def finish(self, end: BodyEnd, end_ns: int, *, pinned_output_tokens: int | None = None) -> StreamResult:
        """Take the end of the body and say what the whole stream was."""
        tokens = self.tokens
        tokens.settle()
        seen = self._evidence(end, end_ns)
        outcome, detail = judge(seen, pinned_output_tokens)
        chunk_ns, usage = tokens.chunk_ns, tokens.usage
        said: Iterable[str] = ()
        if outcome is Category.OK:
            said = (*warnings_of(seen, pinned_output_tokens), *_buffered(chunk_ns))
        return StreamResult(
            outcome=outcome,
            detail=detail,
            warnings=tuple(said),
            end_ns=end_ns,
            chunk_ns=chunk_ns,
            first_token_ns=chunk_ns[0] if chunk_ns else None,
            first_answer_ns=tokens.first_answer_ns,
            last_token_ns=chunk_ns[-1] if chunk_ns else None,
            first_chunk_tokens=tokens.first_chunk_tokens,
            prompt_tokens=usage.prompt_tokens if usage else None,
            cached_tokens=usage.cached_tokens if usage else None,
            output_tokens=tokens.output_tokens,
            token_source=tokens.source,
            finish_reason=tokens.finish,
            server=self.server,
        )

    def _evidence(self, end: BodyEnd, end_ns: int) -> Evidence:
        tokens = self.tokens
        return Evidence(
            end=end,
            head=self.head,
            done=self.done,
            finish=tokens.finish,
            chunks=len(tokens.chunk_ns),
            counted=tokens.counted,
            answered=tokens.first_answer_ns is not None,
            silent_share=_silent_share(tokens.chunk_ns, end_ns),
            error=self.error,
            null_events=self.null_events,
            malformed=self.malformed,
            cut_tail=self.cut_tail,
        )


def _silent_share(chunk_ns: "array[int]", end_ns: int) -> float:
    if not chunk_ns or end_ns <= chunk_ns[0]:
        return 0.0
    return (end_ns - chunk_ns[-1]) / (end_ns - chunk_ns[0])


def _buffered(chunk_ns: "array[int]") -> tuple[str, ...]:
    if len(chunk_ns) < BUFFERED_CHUNKS:
        return ()
    close = sum(b - a < BUFFERED_GAP_NS for a, b in pairwise(chunk_ns))
    if 2 * close < len(chunk_ns) - 1:
        return ()
    return (
        f"{Category.STREAM_BUFFERED}: {close} of {len(chunk_ns) - 1} chunk gaps are under 0.1 ms: something"
        " on the way collects chunks, so first-token time is too long and gaps are too short",
    )
