# SPDX-License-Identifier: Apache-2.0
"""An HTTP answer as it arrived, and what reading it gives: the two ends of the stream reader."""

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.sample import ServerTimes, TokenSource
from vllm_perf.spec.category import Category

Classify = Callable[[int, Mapping[str, str], bytes], Diagnosis]


class BodyEnd(StrEnum):
    """How a response body ended.

    ``CLEAN``: as HTTP framing says (last chunk, full length, or close where close is the framing).
    ``TRUNCATED``: closed before that. ``RESET``: TCP reset. ``TIMEOUT``: our own deadline.
    ``CANCELLED``: given up by us. ``LEFT_OPEN``: ``[DONE]`` came, then nothing, and no end either.
    """

    CLEAN = "clean"
    TRUNCATED = "truncated"
    RESET = "reset"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LEFT_OPEN = "left open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer: ``pieces`` are (``perf_counter_ns`` of arrival, body bytes) without chunked framing.

    ``end_ns`` is when the end of the body, or its failure, was seen; header names are lower case.
    """

    status: int
    pieces: Iterable[tuple[int, bytes]]
    end: BodyEnd
    end_ns: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamResult:
    """The part of a ``RequestSample`` that the answer alone decides; same names, same units."""

    outcome: Category
    status: int | None = None
    detail: str | None = None
    remedy: str | None = None
    warnings: tuple[str, ...] = ()
    end_ns: int | None = None
    chunk_ns: "array[int]" = field(default_factory=lambda: array("q"))
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    first_chunk_tokens: int = 1
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    token_source: TokenSource | None = None
    finish_reason: str | None = None
    server: ServerTimes | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The part of a ``RequestSample`` that the client knows before the answer."""

    id: str
    prompt_id: str
    scheduled_ns: int
    sent_ns: int | None = None
    connect_ns: int | None = None
