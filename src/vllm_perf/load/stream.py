# SPDX-License-Identifier: Apache-2.0
"""What a streamed answer says: pure reading of body pieces into tokens, times, counts and an outcome."""

import json
from array import array
from dataclasses import replace

from vllm_perf.load.answer import Answer, BodyEnd, Classify, Sending, StreamResult
from vllm_perf.load.chunk import needs_json, template_of
from vllm_perf.load.facts import StreamFacts
from vllm_perf.load.outcome import excerpt
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.sse import Event, SseDecoder
from vllm_perf.spec.category import Category

HEAD_LIMIT = 65_536


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
        self._decoder = SseDecoder()
        self._facts = StreamFacts()
        self._template: tuple[bytes, bytes] | None = None
        self._head = bytearray()
        self._events = 0

    @property
    def done(self) -> bool:
        """Tell whether ``[DONE]`` has come."""
        return bool(self._facts.done)

    @property
    def template(self) -> tuple[bytes, bytes] | None:
        """Return what an ordinary event begins and ends with, where the next byte begins an event."""
        return self._template if self._decoder.idle else None

    @property
    def chunk_ns(self) -> "array[int]":
        """Return the arrivals of chunks with payload, to be added to by who recognises such a chunk."""
        return self._facts.tokens.chunk_ns

    def feed(self, ns: int, piece: bytes) -> None:
        """Take body bytes that arrived at ``ns``."""
        if not self._events and len(self._head) < HEAD_LIMIT:
            self._head += piece
        elif self._template is not None and self._decoder.idle and _fits(self._template, piece):
            self._facts.tokens.chunk_ns.append(ns)
            return
        for event in self._decoder.feed(ns, piece):
            if self._template is not None and _fits(self._template, b"data: %b\n\n" % event.data):
                self._facts.tokens.chunk_ns.append(event.ns)
            else:
                self._take(event)

    def finish(self, end: BodyEnd, end_ns: int, *, pinned_output_tokens: int | None = None) -> StreamResult:
        """Take the end of the body and say what the whole stream was."""
        for event in self._decoder.finish(end_ns):
            self._take(event, last=True)
        self._facts.head = b"" if self._events else bytes(self._head)
        return self._facts.finish(end, end_ns, pinned_output_tokens=pinned_output_tokens)

    def _take(self, event: Event, last: bool = False) -> None:
        self._events += 1
        data = event.data.strip()
        if data == b"[DONE]":
            self._facts.done, self._template = True, None
            return
        try:
            value = json.loads(data)
        except ValueError:
            self._not_json(event, last)
            return
        if value is None:
            self._facts.null_events += 1
        elif isinstance(value, dict):
            if self._facts.take(event.ns, value, event.name):
                self._template = template_of(b"data: %b\n\n" % event.data, value) or self._template
        else:
            self._not_json(event, False)

    def _not_json(self, event: Event, last: bool) -> None:
        facts, text = self._facts, excerpt(event.data)
        if event.name == b"error":
            facts.error = facts.error or text
        elif last:
            facts.cut_tail = True
        else:
            facts.malformed = facts.malformed or text


def _fits(template: tuple[bytes, bytes], piece: bytes) -> bool:
    # One whole ordinary event a piece is what nearly every read brings: it is recognised, not parsed.
    prefix, suffix = template
    if len(piece) <= len(prefix) + len(suffix) or not (piece.startswith(prefix) and piece.endswith(suffix)):
        return False
    return not needs_json(piece[len(prefix) : -len(suffix)])
