# SPDX-License-Identifier: Apache-2.0
"""Single rules of reading a stream: what is a token, what is counted, what is a success."""

import json
import random
from typing import Any

import pytest

from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.answer import Answer, BodyEnd, Sending, StreamResult
from vllm_perf.load.sample import ServerTimes
from vllm_perf.load.stream import parse_stream, to_sample
from vllm_perf.spec.category import Category

DONE = b"data: [DONE]\n\n"
ROLE = {"role": "assistant", "content": ""}


COMPACT, SPACED = (",", ":"), (", ", ": ")


def _chunk(
    delta: dict[str, Any], finish: str | None = None, style: tuple[str, str] = COMPACT, **more: Any
) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    value = {"id": "c", "choices": [choice], **more}
    return f"data: {json.dumps(value, separators=style)}\n\n".encode()


def _usage(output: int, **more: Any) -> bytes:
    usage = {"prompt_tokens": 5, "completion_tokens": output, "total_tokens": 5 + output}
    return f"data: {json.dumps({'choices': [], 'usage': usage, **more})}\n\n".encode()


def _read(
    *events: bytes, pinned: int | None = None, end: BodyEnd = BodyEnd.CLEAN, end_ns: int = 1000
) -> StreamResult:
    pieces = [(10 * (at + 1), event) for at, event in enumerate(events)]
    answer = Answer(status=200, pieces=pieces, end=end, end_ns=end_ns)
    return parse_stream(answer, pinned_output_tokens=pinned)


def test_a_later_empty_content_is_a_token_that_decoded_to_nothing() -> None:
    events = [_chunk({"content": "" if at % 2 else "x"}) for at in range(9)]
    result = _read(_chunk(ROLE), *events, _chunk({"content": "x"}, "length"), _usage(10), DONE)
    assert list(result.chunk_ns) == [20, 30, 40, 50, 60, 70, 80, 90, 100, 110]


def test_an_empty_content_right_after_the_role_is_the_first_token_if_the_count_says_so() -> None:
    empty, word, stop = _chunk({"content": ""}), _chunk({"content": "x"}), _chunk({}, "stop")
    assert _read(_chunk(ROLE), empty, word, stop, _usage(2), DONE).first_token_ns == 20
    assert _read(_chunk(ROLE), empty, word, stop, _usage(1), DONE).first_token_ns == 30
    assert _read(_chunk(ROLE), empty, word, stop, DONE).first_token_ns == 30


def test_an_empty_first_delta_is_no_token_even_if_the_count_would_fit() -> None:
    # The count holds an end-of-sequence token that no chunk shows.
    events = (_chunk({"content": ""}), _chunk({"content": "x"}), _chunk({}, "stop"), _usage(2), DONE)
    assert _read(*events).first_token_ns == 20


def test_an_empty_finish_chunk_is_the_last_token_only_if_the_count_says_so() -> None:
    # vLLM counts the end-of-sequence token, whose text is empty; DeepSeek's finish chunk is no token.
    word, finish = _chunk({"content": "x"}), _chunk({"content": ""}, "stop")
    assert _read(_chunk(ROLE), word, finish, _usage(2), DONE).last_token_ns == 30
    assert _read(_chunk(ROLE), word, finish, _usage(1), DONE).last_token_ns == 20


def test_a_role_in_every_chunk_makes_no_empty_chunk_a_token() -> None:
    word = _chunk({"role": "assistant", "content": "x"})
    result = _read(_chunk(ROLE), word, _chunk(ROLE), word, _chunk(ROLE, "stop"), _usage(2), DONE)
    assert list(result.chunk_ns) == [20, 40]


def test_continuous_usage_tells_the_tokens_of_the_first_chunk() -> None:
    counts = [{"completion_tokens": n, "prompt_tokens": 5} for n in (0, 4, 8)]
    events = [
        _chunk(d, usage=u)
        for d, u in zip((ROLE, {"content": "abcd"}, {"content": "efgh"}), counts, strict=True)
    ]
    result = _read(*events, _chunk({}, "stop"), _usage(8), DONE)
    assert (result.first_chunk_tokens, result.output_tokens, len(result.chunk_ns)) == (4, 8, 2)


def test_continuous_usage_proves_an_empty_first_token() -> None:
    counts = [{"completion_tokens": n, "prompt_tokens": 5} for n in (0, 1, 2)]
    events = [
        _chunk(d, usage=u) for d, u in zip((ROLE, {"content": ""}, {"content": "x"}), counts, strict=True)
    ]
    result = _read(*events, _chunk({}, "stop"), _usage(2), DONE)
    assert (result.first_token_ns, result.first_chunk_tokens) == (20, 1)


def test_the_final_count_in_every_chunk_is_no_count_of_the_first_one() -> None:
    usage = {"completion_tokens": 3, "prompt_tokens": 5}
    events = [_chunk({"content": "x"}, usage=usage) for _ in range(3)]
    assert _read(*events, _chunk({}, "stop", usage=usage), DONE).first_chunk_tokens == 1


def test_an_answer_in_one_chunk_has_all_its_tokens_in_the_first() -> None:
    assert _read(_chunk({"content": "abc"}, "stop"), _usage(3), DONE).first_chunk_tokens == 3


def test_tokens_known_only_by_their_ids_are_tokens() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": None, "token_ids": [7]}
    event = f"data: {json.dumps({'choices': [choice]})}\n\n".encode()
    assert _read(_chunk(ROLE), event, _chunk({}, "stop"), _usage(1), DONE).first_token_ns == 20


def test_several_ordinary_chunks_in_one_piece_are_as_many_tokens() -> None:
    word = _chunk({"content": "x"})
    assert len(_read(_chunk(ROLE), word, word + word + word, word, _chunk({}, "stop"), DONE).chunk_ns) == 5


def test_a_finish_reason_hidden_between_ordinary_beginning_and_end_is_read() -> None:
    word = _chunk({"content": "x"})
    both = _chunk({"content": "y"}, "stop")[:-2] + b"\n\n" + word
    assert _read(_chunk(ROLE), word, both, _usage(3), DONE).outcome is Category.OK


def test_usage_stays_when_a_later_chunk_has_none() -> None:
    result = _read(_chunk({"content": "x"}), _chunk({}, "stop"), _usage(1), b'data: {"choices":[]}\n\n', DONE)
    assert (result.output_tokens, result.token_source) == (1, "usage")


def test_cached_tokens_and_the_servers_own_times_are_read_from_the_usage_chunk() -> None:
    metrics = {
        "time_to_first_token_ms": 12.5,
        "generation_time_ms": 30.0,
        "queue_time_ms": 1.25,
        "mean_itl_ms": 10.0,
    }
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 8}}
    last = f"data: {json.dumps({'choices': [], 'usage': usage, 'metrics': metrics})}\n\n".encode()
    result = _read(_chunk({"content": "x"}), _chunk({}, "stop"), last, DONE)
    assert (result.prompt_tokens, result.cached_tokens) == (9, 8)
    assert result.server == ServerTimes(
        queue_ns=1_250_000, first_token_ns=12_500_000, inference_ns=42_500_000
    )


def test_a_pinned_length_wants_the_finish_reason_length_and_exactly_that_count() -> None:
    two = (_chunk({"content": "x"}), _chunk({"content": "y"}))
    assert _read(*two, _chunk({}, "length"), _usage(2), DONE, pinned=2).outcome is Category.OK
    assert _read(*two, _chunk({}, "stop"), _usage(2), DONE, pinned=2).outcome is Category.LENGTH_MISMATCH
    assert _read(*two, _chunk({}, "length"), _usage(2), DONE, pinned=3).outcome is Category.LENGTH_MISMATCH


def test_a_pinned_length_without_usage_is_a_success_that_could_not_be_verified() -> None:
    result = _read(_chunk({"content": "x"}), _chunk({}, "length"), DONE, pinned=1)
    assert result.outcome is Category.OK
    assert "the pinned output length could not be verified" in result.warnings


def test_reasoning_that_used_up_a_pinned_length_is_what_was_asked_for() -> None:
    result = _read(_chunk({"reasoning": "x"}), _chunk({}, "length"), _usage(1), DONE, pinned=1)
    assert (result.outcome, result.first_answer_ns) == (Category.OK, None)


def test_tokens_counted_but_never_shown_are_max_tokens_too_small() -> None:
    result = _read(_chunk(ROLE), _chunk({}, "length"), _usage(32), DONE)
    assert (result.outcome, result.first_token_ns) == (Category.MAX_TOKENS_TOO_SMALL, None)


@pytest.mark.parametrize(
    ("finish", "outcome"), [("error", Category.IN_BAND_ERROR), ("abort", Category.CANCELLED)]
)
def test_a_finish_reason_that_means_failure_is_one(finish: str, outcome: Category) -> None:
    assert _read(_chunk({"content": "x"}), _chunk({}, finish), _usage(1), DONE).outcome is outcome


def test_an_error_beside_choices_is_an_error() -> None:
    result = _read(_chunk({"content": "x"}), _chunk({"content": ""}, "stop", error={"message": "boom"}), DONE)
    assert (result.outcome, "boom" in (result.detail or "")) == (Category.IN_BAND_ERROR, True)


def test_an_error_that_is_null_is_none() -> None:
    assert (
        _read(_chunk({"content": "x"}, error=None), _chunk({}, "stop"), _usage(1), DONE).outcome
        is Category.OK
    )


def test_an_event_named_error_is_an_error_whatever_its_data() -> None:
    assert _read(b"event: error\ndata: upstream gone\n\n").outcome is Category.IN_BAND_ERROR


def test_an_error_after_the_finish_reason_still_fails_the_request() -> None:
    late = b'data: {"error":{"message":"boom"}}\n\n'
    result = _read(_chunk({"content": "x"}), _chunk({}, "stop"), _usage(1), DONE, late)
    assert result.outcome is Category.IN_BAND_ERROR


def test_a_stream_that_still_flows_at_the_time_limit_timed_out_and_a_silent_one_stalled() -> None:
    chunks = [_chunk({"content": "x"}) for _ in range(20)]
    assert _read(*chunks, end=BodyEnd.TIMEOUT, end_ns=210).outcome is Category.TIMEOUT
    assert _read(*chunks, end=BodyEnd.TIMEOUT, end_ns=2000).outcome is Category.ENGINE_STALLED


def test_half_a_line_at_the_cut_is_no_malformed_event() -> None:
    result = _read(_chunk({"content": "x"}), b'data: {"choices":[{"ind', end=BodyEnd.TRUNCATED)
    assert result.outcome is Category.TRUNCATED_STREAM


def test_a_credential_in_an_error_never_reaches_the_detail() -> None:
    result = _read(b'data: {"error":{"message":"bad key sk-abcdefgh12345678"}}\n\n')
    assert "abcdefgh" not in (result.detail or "abcdefgh")


def test_an_answer_that_is_not_2xx_takes_its_cause_and_remedy_from_the_diagnosis() -> None:
    def classify(status: int, _headers: object, body: bytes) -> Diagnosis:
        assert (status, body) == (401, b'{"error":"Unauthorized"}')
        return Diagnosis(category=Category.AUTH_WRONG_OR_MISSING_KEY, cause="c", evidence="seen", remedy="do")

    answer = Answer(
        status=401, pieces=[(1, b'{"error":'), (2, b'"Unauthorized"}')], end=BodyEnd.CLEAN, end_ns=3
    )
    result = parse_stream(answer, classify=classify)
    facts = (result.outcome, result.detail, result.remedy, result.status, result.first_token_ns)
    assert facts == (Category.AUTH_WRONG_OR_MISSING_KEY, "seen", "do", 401, None)


TEXTS = ["a", "", 'quote "', "back\\slash", "new\nline", "é", "漢字", "}]}", "data: x", " ", "\r", "[DONE]"]


@pytest.mark.parametrize("style", [COMPACT, SPACED], ids=["compact", "spaced"])
@pytest.mark.parametrize("seed", range(40))
def test_reading_by_pattern_gives_what_reading_every_chunk_as_json_gives(
    seed: int, style: tuple[str, str]
) -> None:
    draw = random.Random(seed)
    fields = ["content", "reasoning", "content", "content"]
    deltas = [{draw.choice(fields): draw.choice(TEXTS)} for _ in range(60)]
    words = [_chunk(delta, style=style) for delta in deltas]
    body = b"".join([_chunk(ROLE), _chunk({"content": "a"}, style=style), *words, _chunk({}, "stop"), DONE])
    cuts = sorted(draw.sample(range(len(body)), 80))
    pieces = [(at, body[a:b]) for at, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(body)], strict=True))]
    result = parse_stream(Answer(status=200, pieces=pieces, end=BodyEnd.CLEAN, end_ns=99))
    assert len(result.chunk_ns) == 61
    assert result.outcome is Category.OK


def test_a_sample_joins_what_the_client_did_and_what_the_answer_said() -> None:
    sending = Sending(id="r", prompt_id="p", scheduled_ns=1, sent_ns=2, connect_ns=3)
    sample = to_sample(sending, _read(_chunk({"content": "x"}), _chunk({}, "stop"), _usage(1), DONE))
    assert (sample.id, sample.scheduled_ns, sample.sent_ns, sample.connect_ns) == ("r", 1, 2, 3)
    assert (sample.first_token_ns, sample.output_tokens, sample.token_source, sample.ok) == (
        10,
        1,
        "usage",
        True,
    )
