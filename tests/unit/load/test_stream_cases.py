# SPDX-License-Identifier: Apache-2.0
"""Every stream case, read from bytes at known times: outcome, times and counts worked out by hand."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from vllm_perf.golden.fault import Fault
from vllm_perf.golden.faults import FAULTS
from vllm_perf.load.answer import Answer, BodyEnd, StreamResult
from vllm_perf.load.stream import parse_stream
from vllm_perf.spec.category import Category

MS = 1_000_000
ENDS = {"clean": BodyEnd.CLEAN, "fin": BodyEnd.TRUNCATED, "reset": BodyEnd.RESET, "stall": BodyEnd.TIMEOUT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a case must give: times in ms from the request, ``None`` for "there is none"."""

    outcome: Category = Category.OK
    ttft_ms: int | None = 40
    ttfa_ms: int | None = 40
    e2el_ms: int | None = 50
    tokens: int | None = 2
    source: str | None = "usage"
    chunks: int = 2
    finish: str | None = "stop"
    warning: str | None = None
    detail: str | None = None


def _failed(outcome: Category, detail: str, **more: object) -> Expected:
    times: dict[str, object] = {"ttft_ms": None, "ttfa_ms": None, "e2el_ms": None}
    none = {**times, "tokens": None, "source": None, "chunks": 0, "finish": None}
    return Expected(outcome=outcome, detail=detail, **{**none, **more})  # type: ignore[arg-type]


def _after_one(outcome: Category, detail: str, finish: str | None = None) -> Expected:
    return Expected(
        outcome=outcome, detail=detail, e2el_ms=40, tokens=1, source="estimated", chunks=1, finish=finish
    )


def _after_three(
    outcome: Category, detail: str | None, source: str = "estimated", **more: object
) -> Expected:
    base: dict[str, object] = {"e2el_ms": 60, "tokens": 3, "chunks": 3, "source": source, "finish": None}
    return Expected(outcome=outcome, detail=detail, **{**base, **more})  # type: ignore[arg-type]


LATE_FIRST = Expected(ttft_ms=214, ttfa_ms=214, e2el_ms=224)
REASONED = Expected(ttft_ms=60, ttfa_ms=9000, e2el_ms=9020, tokens=402, chunks=402)
NO_DONE = Expected(e2el_ms=40, tokens=1, source="estimated", chunks=1, warning="no [DONE]")
ESTIMATED = Expected(
    source="estimated", warning="no usage: output tokens are estimated from 2 content chunks"
)

EXPECTED = {
    "H12": LATE_FIRST,
    "H12-no-content": LATE_FIRST,
    "H12-null-content": LATE_FIRST,
    "H12-empty": LATE_FIRST,
    "H13": Expected(),
    "H14": Expected(),
    "H15": Expected(),
    "H15-bare": Expected(),
    "H15-ping": Expected(),
    "H16": Expected(),
    "H17": _after_one(Category.IN_BAND_ERROR, "after 1 content chunk: boom"),
    "H18": _after_one(Category.IN_BAND_ERROR, "after 1 content chunk: boom"),
    "H19": _failed(Category.NULL_EVENT, "null as an event"),
    "H20": _failed(Category.NO_TOKEN, "no token and no error"),
    "H21": NO_DONE,
    "H21-chunked": NO_DONE,
    "H22": _after_one(Category.TRUNCATED_STREAM, "after 1 content chunk"),
    "H22-reset": _after_one(Category.TRUNCATED_STREAM, "after 1 content chunk"),
    "H23": Expected(),
    "H24": REASONED,
    "H24-reasoning_content": REASONED,
    "H25": Expected(finish="tool_calls"),
    "H26": Expected(ttft_ms=100, ttfa_ms=100, e2el_ms=451, tokens=120, chunks=40),
    "H27": Expected(
        outcome=Category.MAX_TOKENS_TOO_SMALL,
        ttft_ms=60,
        ttfa_ms=None,
        e2el_ms=215,
        tokens=32,
        chunks=32,
        finish="length",
        detail="all 32 output tokens went into reasoning",
    ),
    "H28": ESTIMATED,
    "H28-null": ESTIMATED,
    "H29": Expected(),
    "H10": _failed(Category.IN_BAND_ERROR, "upstream overloaded"),
    "H59": Expected(ttft_ms=200, ttfa_ms=200, e2el_ms=220, tokens=3, chunks=3),
    "H60": _failed(Category.NO_TOKEN, "no token", finish="stop"),
    "H89": Expected(ttft_ms=80, ttfa_ms=80, e2el_ms=80, tokens=20, chunks=20, warning="STREAM_BUFFERED"),
    "clean-cut": _after_three(Category.TRUNCATED_STREAM, "no finish_reason, no [DONE]"),
    "no-finish": _after_three(Category.NO_FINISH_REASON, "after 3 content chunks without any finish_reason"),
    "stall": _after_three(Category.ENGINE_STALLED, "fell silent after 3 content chunks"),
    "slow-head": _after_three(
        Category.OK, None, "usage", ttft_ms=200, ttfa_ms=200, e2el_ms=220, finish="stop"
    ),
    "finished-then-cut": _after_three(
        Category.TRUNCATED_STREAM, "closed before the body's end", finish="stop"
    ),
    "done-then-cut": _after_three(
        Category.OK, None, "usage", finish="stop", warning="after [DONE] (truncated)"
    ),
    "done-then-open": _after_three(
        Category.OK, None, "usage", finish="stop", warning="after [DONE] (timeout)"
    ),
    "not-json": _after_one(Category.MALFORMED_STREAM, "not a JSON object: oops", finish="stop"),
    "empty-200": _failed(Category.NO_TOKEN, "nothing more came"),
    "page-200": _failed(Category.MALFORMED_STREAM, "no event stream"),
    "whole-200": _failed(Category.MALFORMED_STREAM, "one JSON document came"),
    "late-usage": _after_three(Category.OK, None, "usage", finish="stop"),
    "usage-on-finish": _after_three(Category.OK, None, "usage", finish="stop"),
    "error-string": _after_one(Category.IN_BAND_ERROR, "after 1 content chunk: boom"),
    "function-call": Expected(finish="function_call"),
}
STREAMS = sorted(
    id
    for id, fault in FAULTS.items()
    if fault.scope == "generation" and fault.status == 200 and fault.head_ms is None
)


def _read(fault: Fault) -> StreamResult:
    pieces = [(round(step.at_ms * MS), step.data) for step in fault.steps]
    end_ms = fault.end_ms or (5000 if fault.end == "stall" else fault.steps[-1].at_ms if fault.steps else 0)
    return parse_stream(Answer(status=200, pieces=pieces, end=ENDS[fault.end], end_ns=round(end_ms * MS)))


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / MS


def _facts(result: StreamResult) -> Expected:
    return Expected(
        outcome=result.outcome,
        ttft_ms=_ms(result.first_token_ns),  # type: ignore[arg-type]
        ttfa_ms=_ms(result.first_answer_ns),  # type: ignore[arg-type]
        e2el_ms=_ms(result.last_token_ns),  # type: ignore[arg-type]
        tokens=result.output_tokens,
        source=result.token_source,
        chunks=len(result.chunk_ns),
        finish=result.finish_reason,
    )


def test_every_stream_case_has_an_expectation_and_there_are_cases() -> None:
    unanswered = {"no-answer", "reset-at-once", "closed-at-once"}
    assert len(EXPECTED) > 40
    assert {*STREAMS, "slow-head"} - unanswered == set(EXPECTED)


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_case(case: str) -> None:
    expected, result = EXPECTED[case], _read(FAULTS[case])
    bare = Expected(**{name: getattr(expected, name) for name in _NUMBERS})
    assert _facts(result) == bare
    assert (expected.detail or "") in (result.detail or "")
    assert (result.detail is None) == (expected.outcome is Category.OK)
    assert any((expected.warning or "") in warning for warning in result.warnings) or not expected.warning
    assert bool(result.warnings) == bool(expected.warning)


_NUMBERS = ("outcome", "ttft_ms", "ttfa_ms", "e2el_ms", "tokens", "source", "chunks", "finish")


def test_crlf_gives_the_very_same_result_as_lf() -> None:
    assert _read(FAULTS["H23"]) == _read(FAULTS["H13"])


@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_the_same_bytes_one_by_one_give_the_same_tokens(case: str) -> None:
    fault = FAULTS[case]
    whole = _read(fault)
    pieces = [(round(s.at_ms * MS), s.data[i : i + 1]) for s in fault.steps for i in range(len(s.data))]
    split = parse_stream(Answer(status=200, pieces=pieces, end=ENDS[fault.end], end_ns=whole.end_ns or 0))
    assert split == whole


def test_gaps_of_three_chunks_are_two() -> None:
    times = _read(FAULTS["H59"]).chunk_ns
    assert [(b - a) / MS for a, b in pairwise(times)] == [10, 10]
