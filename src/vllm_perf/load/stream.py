# SPDX-License-Identifier: Apache-2.0
"""What a streamed answer says: pure reading of body pieces into tokens, times, counts and an outcome."""

import json
from array import array
from dataclasses import replace
from itertools import pairwise
from typing import Any

from vllm_perf.load.answer import Answer, BodyEnd, Classify, Sending, StreamResult
from vllm_perf.load.chunk import error_text, needs_json, server_times, template_of, usage_of
from vllm_perf.load.outcome import Evidence, excerpt, judge, warnings_of
from vllm_perf.load.sample import RequestSample, ServerTimes
from vllm_perf.load.sse import Event, SseDecoder
from vllm_perf.load.tokens import TokenLedger
from vllm_perf.spec.category import Category

HEAD_LIMIT = 65_536
BUFFERED_GAP_NS = 100_000
BUFFERED_CHUNKS = 8


def parse_stream(
    answer: Answer, *, pinned_output_tokens: int | None = None, classify: Classify | None = None
) -> StreamResult:
    """Read one answer to a streamed request.

    ``classify`` names the cause of an answer that is not 2xx (``vllm_perf.diagnosis``).
    """
    if not 200 <= answer.status < 300:
        return _refused(answer, classify)
    parser = StreamParser()
    for ns, piece in answer.pieces:
        parser.feed(ns, piece)
    result = parser.finish(answer.end, answer.end_ns, pinned_output_tokens=pinned_output_tokens)
    return replace(result, status=answer.status)


def to_sample(sending: Sending, result: StreamResult) -> RequestSample:
    """Join what the client did and what the answer said."""
    return RequestSample(
        id=sending.id,
        prompt_id=sending.prompt_id,
        scheduled_ns=sending.scheduled_ns,
        sent_ns=sending.sent_ns,
        connect_ns=sending.connect_ns,
        first_token_ns=result.first_token_ns,
        first_answer_ns=result.first_answer_ns,
        last_token_ns=result.last_token_ns,
        end_ns=result.end_ns,
        chunk_ns=result.chunk_ns,
        first_chunk_tokens=result.first_chunk_tokens,
        prompt_tokens=result.prompt_tokens,
        cached_tokens=result.cached_tokens,
        output_tokens=result.output_tokens,
        token_source=result.token_source,
        finish_reason=result.finish_reason,
        outcome=result.outcome,
        status=result.status,
        detail=result.detail,
        remedy=result.remedy,
        warnings=result.warnings,
        server=result.server,
        retry_after_s=result.retry_after_s,
    )


def _refused(answer: Answer, classify: Classify | None) -> StreamResult:
    body = b"".join(piece for _, piece in answer.pieces)
    if classify is None:
        outcome = Category.SERVER_ERROR if answer.status >= 500 else Category.BAD_REQUEST
        detail = f"HTTP {answer.status}: {excerpt(body) or 'no body'}"
        return StreamResult(outcome=outcome, status=answer.status, detail=detail, end_ns=answer.end_ns)
    found = classify(answer.status, answer.headers, body)
    wait_s = found.figures.get("retry_after_s")
    return StreamResult(
        outcome=found.category,
        status=answer.status,
        detail=found.evidence,
        remedy=found.remedy,
        end_ns=answer.end_ns,
        retry_after_s=float(wait_s) if isinstance(wait_s, int | float) else None,
    )


class StreamParser:
    """Read one 2xx streamed answer piece by piece; an ordinary chunk costs about a microsecond."""

    def __init__(self) -> None:
        """Start at the beginning of a body."""
        self.done = False
        self._decoder = SseDecoder()
        self._tokens = TokenLedger()
        self._template: tuple[bytes, bytes] | None = None
        self._head = bytearray()
        self._events = 0
        self._server: ServerTimes | None = None
        self._error: str | None = None
        self._malformed: str | None = None
        self._null_events = 0
        self._cut_tail = False

    def feed(self, ns: int, piece: bytes) -> None:
        """Take body bytes that arrived at ``ns``."""
        if not self._events and len(self._head) < HEAD_LIMIT:
            self._head += piece
        elif self._template is not None and self._decoder.idle and _fits(self._template, piece):
            self._tokens.chunk_ns.append(ns)
            return
        for event in self._decoder.feed(ns, piece):
            if self._template is not None and _fits(self._template, b"data: %b\n\n" % event.data):
                self._tokens.chunk_ns.append(event.ns)
            else:
                self._take(event)

    def finish(self, end: BodyEnd, end_ns: int, *, pinned_output_tokens: int | None = None) -> StreamResult:
        """Take the end of the body and say what the whole stream was."""
        for event in self._decoder.finish(end_ns):
            self._take(event, last=True)
        tokens = self._tokens
        tokens.settle()
        seen = self._evidence(end, end_ns)
        outcome, detail = judge(seen, pinned_output_tokens)
        ok = outcome is Category.OK
        chunk_ns, usage = tokens.chunk_ns, tokens.usage
        return StreamResult(
            outcome=outcome,
            detail=detail,
            warnings=(*warnings_of(seen, pinned_output_tokens), *_buffered(chunk_ns)) if ok else (),
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
            server=self._server,
        )

    def _take(self, event: Event, last: bool = False) -> None:
        self._events += 1
        data = event.data.strip()
        if data == b"[DONE]":
            self.done, self._template = True, None
            return
        try:
            value = json.loads(data)
        except ValueError:
            self._not_json(event, last)
            return
        if value is None:
            self._null_events += 1
        elif isinstance(value, dict):
            self._take_object(event, value)
        else:
            self._not_json(event, False)

    def _not_json(self, event: Event, last: bool) -> None:
        text = excerpt(event.data)
        if event.name == b"error":
            self._error = self._error or text
        elif last:
            self._cut_tail = True
        else:
            self._malformed = self._malformed or text

    def _take_object(self, event: Event, value: dict[str, Any]) -> None:
        self._error = self._error or error_text(value, event.name)
        self._server = server_times(value) or self._server
        usage = usage_of(value)
        self._tokens.usage = usage or self._tokens.usage
        choices = value.get("choices")
        if self.done or not isinstance(choices, list):
            return
        known = [choice for choice in choices if isinstance(choice, dict)]
        if known:
            self._tokens.take(event.ns, known, usage)
            self._template = template_of(b"data: %b\n\n" % event.data, value) or self._template

    def _evidence(self, end: BodyEnd, end_ns: int) -> Evidence:
        tokens = self._tokens
        return Evidence(
            end=end,
            head=b"" if self._events else bytes(self._head),
            done=self.done,
            finish=tokens.finish,
            chunks=len(tokens.chunk_ns),
            counted=tokens.counted,
            answered=tokens.first_answer_ns is not None,
            silent_share=_silent_share(tokens.chunk_ns, end_ns),
            error=self._error,
            null_events=self._null_events,
            malformed=self._malformed,
            cut_tail=self._cut_tail,
        )


def _fits(template: tuple[bytes, bytes], piece: bytes) -> bool:
    # One whole ordinary event a piece is what nearly every read brings: it is recognised, not parsed.
    prefix, suffix = template
    if len(piece) <= len(prefix) + len(suffix) or not (piece.startswith(prefix) and piece.endswith(suffix)):
        return False
    return not needs_json(piece[len(prefix) : -len(suffix)])


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
