# SPDX-License-Identifier: Apache-2.0
"""Whether a 2xx streamed request succeeded (docs/metrics.md), and if not, its category and what was seen."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from vllm_perf.diagnosis.redact import redact
from vllm_perf.load.answer import BodyEnd
from vllm_perf.load.chunk import error_text
from vllm_perf.spec.category import Category

EXCERPT = 200
STALL_SHARE = 0.5

Judgement = tuple[Category, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a stream showed which decides its outcome.

    ``head``: the body's first bytes where it held no event at all. ``silent_share``: silence before the end
    as a share of the time since the first token. ``cut_tail``: the last line was no whole JSON. ``done``:
    whether ``[DONE]`` came, ``None`` where the client cannot know.
    """

    end: BodyEnd
    head: bytes = b""
    done: bool | None = False
    finish: str | None = None
    chunks: int = 0
    counted: int | None = None
    answered: bool = False
    silent_share: float = 0.0
    error: str | None = None
    null_events: int = 0
    malformed: str | None = None
    cut_tail: bool = False


def excerpt(text: str | bytes) -> str:
    """Return the first ``EXCERPT`` characters on one line, without anything that looks like a credential."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    line = redact(" ".join(whole.split()))
    return line if len(line) <= EXCERPT else line[:EXCERPT] + "…"


def judge(seen: Evidence, pinned_output_tokens: int | None) -> Judgement:
    """Return the outcome and, for a failure, one sentence of what was seen."""
    for verdict in (_said_error(seen), _cut(seen), _lacks(seen), _wrong_length(seen, pinned_output_tokens)):
        if verdict is not None:
            return verdict
    return Category.OK, None


def warnings_of(seen: Evidence, pinned_output_tokens: int | None) -> Iterator[str]:
    """Yield what a success still has to say."""
    if seen.finish is not None and seen.done is False:
        yield "no [DONE]: the stream ended after finish_reason without it"
    if seen.done and seen.end is not BodyEnd.CLEAN:
        yield f"the body's own end never came after [DONE] ({seen.end})"
    if seen.chunks and not seen.counted:
        yield f"no usage: output tokens are estimated from {_chunks(seen)}"
        if pinned_output_tokens is not None:
            yield "the pinned output length could not be verified"
    if seen.finish == "content_filter":
        yield "the server's content filter ended the answer"


def _said_error(seen: Evidence) -> Judgement | None:
    after = f"after {_chunks(seen)}"
    if seen.error is not None:
        return Category.IN_BAND_ERROR, f"HTTP 200, but an error object {after}: {excerpt(seen.error)}"
    if seen.null_events:
        return Category.NULL_EVENT, (
            f"the server sent JSON null as an event {after}; an application sees"
            " \"'NoneType' object has no attribute 'choices'\""
        )
    if seen.malformed is not None:
        return Category.MALFORMED_STREAM, f"an event is not a JSON object: {excerpt(seen.malformed)}"
    return _document(seen.head) if seen.head.strip() else None


def _document(head: bytes) -> Judgement | None:
    try:
        value = json.loads(head)
    except ValueError:
        if head.lstrip()[:1] in (b"<", b"{", b"["):
            return Category.MALFORMED_STREAM, f"HTTP 200, but no event stream: {excerpt(head)}"
        return None
    if value is None:
        return Category.NULL_EVENT, "a stream was asked for, JSON null came as the whole body"
    error = error_text(value) if isinstance(value, dict) else None
    if error is not None:
        return Category.IN_BAND_ERROR, f"HTTP 200, but the body is an error object: {excerpt(head)}"
    return Category.MALFORMED_STREAM, f"a stream was asked for, one JSON document came: {excerpt(head)}"


def _cut(seen: Evidence) -> Judgement | None:
    if seen.end in (BodyEnd.CLEAN, BodyEnd.LEFT_OPEN) or (seen.done and seen.finish is not None):
        return None
    after = f"after {_chunks(seen)}"
    if seen.end is BodyEnd.CANCELLED:
        return Category.CANCELLED, f"cancelled by the client {after}"
    if seen.end is BodyEnd.TIMEOUT:
        if seen.chunks and seen.silent_share >= STALL_SHARE:
            return Category.ENGINE_STALLED, f"the stream fell silent {after} and the time limit passed"
        return Category.TIMEOUT, f"the time limit passed {after}"
    how = "reset" if seen.end is BodyEnd.RESET else "closed before the body's end"
    return Category.TRUNCATED_STREAM, f"the connection was {how} {after}"


def _lacks(seen: Evidence) -> Judgement | None:
    if not seen.chunks:
        if seen.finish == "length" and seen.counted:
            return Category.MAX_TOKENS_TOO_SMALL, (
                f"{seen.counted} tokens were generated and none was shown before finish_reason 'length'"
            )
        only = "only [DONE]" if seen.done else "nothing more"
        return Category.NO_TOKEN, f"HTTP 200, but no token and no error: {only} came"
    if seen.finish is None:
        if seen.done:
            return Category.NO_FINISH_REASON, f"[DONE] came after {_chunks(seen)} without any finish_reason"
        lacks = "no finish_reason, no [DONE]" if seen.done is False else "no finish_reason"
        return Category.TRUNCATED_STREAM, f"the body ended after {_chunks(seen)}, {lacks}"
    if seen.finish == "error":
        return Category.IN_BAND_ERROR, f"finish_reason is 'error' after {_chunks(seen)}"
    if seen.finish == "abort":
        return Category.CANCELLED, f"the server aborted the request after {_chunks(seen)}"
    return None


def _wrong_length(seen: Evidence, pinned: int | None) -> Judgement | None:
    if pinned is None:
        if seen.finish == "length" and not seen.answered:
            return Category.MAX_TOKENS_TOO_SMALL, (
                f"all {seen.counted or seen.chunks} output tokens went into reasoning, none into the answer"
            )
        return None
    if seen.finish != "length":
        return (
            Category.LENGTH_MISMATCH,
            f"{pinned} output tokens were asked, finish_reason is {seen.finish!r}",
        )
    if seen.counted and seen.counted != pinned:
        return (
            Category.LENGTH_MISMATCH,
            f"{pinned} output tokens were asked, the server counted {seen.counted}",
        )
    return None


def _chunks(seen: Evidence) -> str:
    return f"{seen.chunks} content chunk{'' if seen.chunks == 1 else 's'}"
