# SPDX-License-Identifier: Apache-2.0
"""Exchanges read a little at a time: while they go on, after they ended, and when they are no HTTP."""

from collections.abc import Iterator

import pytest

from tests.unit.load.scripted import HEAD, LAST, tail, tokens
from vllm_perf.clock import KernelClock
from vllm_perf.load.answer import BodyEnd
from vllm_perf.load.exchange import Exchange
from vllm_perf.load.failures import answer_classifier
from vllm_perf.load.framing import FramingError
from vllm_perf.load.plan import PlannedRequest, Target
from vllm_perf.load.reading import Backlog, Context
from vllm_perf.spec.category import Category

URL = "http://127.0.0.1:9/v1/chat/completions"


@pytest.fixture
def backlog() -> Iterator[Backlog]:
    """Offer an empty backlog without kernel stamps."""
    target = Target(base_url="http://127.0.0.1:9/v1", model="m")
    clock = KernelClock(wanted=False)
    yield Backlog(
        Context(
            clock=clock,
            classify=answer_classifier(target, URL),
            target=target,
            url=URL,
            pinned_output_tokens=None,
            request_timeout_s=5.0,
        )
    )
    clock.close()


def exchange(place: int = 0) -> Exchange:
    """Return an exchange that was sent at 0 ns."""
    made = Exchange(PlannedRequest(prompt_id="p", body=b""), place, f"id-{place}")
    made.sent_ns = 0
    return made


def taken(into: Exchange, pieces: list[bytes], start_ns: int = 1) -> bool:
    """Let pieces arrive one nanosecond apart; return what the last one said."""
    complete = False
    for offset, piece in enumerate(pieces):
        complete = into.take(piece, [], start_ns + offset)
    return complete


def test_an_ordinary_stream_is_complete_with_its_last_chunk_and_not_before() -> None:
    one = exchange()
    assert not taken(one, [HEAD, *tokens(3), *tail(3)[:-1]])
    assert one.take(LAST, [], 99)


def test_the_last_chunk_may_be_split_anywhere() -> None:
    for cut in range(1, len(LAST)):
        one = exchange()
        taken(one, [HEAD, *tokens(1), *tail(1)[:-1]])
        assert not one.take(LAST[:cut], [], 98)
        assert one.take(LAST[cut:], [], 99)


def test_a_finished_exchange_becomes_a_sample_with_its_place(backlog: Backlog) -> None:
    one = exchange(7)
    taken(one, [HEAD, *tokens(3), *tail(3)])
    one.ended = True
    backlog.add(one)
    backlog.drain()
    [(place, sample)] = backlog.samples
    # The head comes at 1, the role chunk at 2, tokens at 3, 4 and 5, and four more pieces after them.
    assert (place, list(sample.chunk_ns), sample.end_ns) == (7, [3, 4, 5], 9)


def test_a_long_stream_is_read_while_it_goes_on_and_loses_nothing(backlog: Backlog) -> None:
    one, pieces = exchange(), [HEAD, *tokens(500), *tail(500)]
    taken(one, pieces[:300])
    backlog.add(one)
    backlog.drain()
    assert (one.unread, one.sample, one.queued) == (0, None, False)
    taken(one, pieces[300:], start_ns=301)
    one.ended = True
    backlog.add(one)
    backlog.drain()
    [(_, sample)] = backlog.samples
    assert list(sample.chunk_ns) == list(range(3, 503))
    assert (sample.outcome, sample.output_tokens) == (Category.OK, 500)


def test_the_last_chunk_is_known_after_everything_before_it_was_read(backlog: Backlog) -> None:
    one = exchange()
    taken(one, [HEAD, *tokens(2), *tail(2)[:-1]])
    backlog.add(one)
    backlog.drain()
    assert one.take(LAST, [], 99)


def test_one_step_reads_a_bounded_part(backlog: Backlog) -> None:
    one = exchange()
    taken(one, [HEAD, *tokens(500)])
    backlog.add(one)
    assert backlog.step() == 64
    assert (one.unread, backlog.unread) == (437, 437)


def test_an_exchange_is_in_hand_once_however_often_it_is_added(backlog: Backlog) -> None:
    one = exchange()
    taken(one, [HEAD, *tokens(3), *tail(3)])
    backlog.add(one)
    one.ended = True
    backlog.add(one)
    backlog.drain()
    assert len(backlog.samples) == 1


def test_raw_bytes_are_gone_once_read(backlog: Backlog) -> None:
    one = exchange()
    taken(one, [HEAD, *tokens(3), *tail(3)])
    one.ended = True
    backlog.add(one)
    backlog.drain()
    assert (one.unread, one.parser, one.refusal) == (0, None, [])


def test_what_is_no_http_is_a_malformed_stream_even_when_seen_late(backlog: Backlog) -> None:
    one = exchange()
    taken(one, [HEAD, b"zz\r\nmore and more\r\n"])
    backlog.add(one)
    backlog.drain()
    one.ended, one.end = True, BodyEnd.TRUNCATED
    backlog.add(one)
    backlog.drain()
    assert backlog.samples[0][1].outcome is Category.MALFORMED_STREAM


def test_what_is_no_http_at_all_is_said_at_once() -> None:
    with pytest.raises(FramingError):
        exchange().take(b"SSH-2.0", [], 1)


def test_a_stream_that_never_began_is_a_timeout_or_a_reset(backlog: Backlog) -> None:
    ends = [BodyEnd.TIMEOUT, BodyEnd.RESET, BodyEnd.TRUNCATED, BodyEnd.CANCELLED]
    for place, end in enumerate(ends):
        one = exchange(place)
        one.ended, one.end, one.end_ns = True, end, 5
        backlog.add(one)
    backlog.drain()
    assert [sample.outcome for _, sample in backlog.samples] == [
        Category.TIMEOUT,
        Category.CONNECTION_RESET,
        Category.CONNECTION_RESET,
        Category.CANCELLED,
    ]


def test_warnings_of_the_way_come_before_those_of_the_stream(backlog: Backlog) -> None:
    one = exchange()
    one.warnings = ("reconnected",)
    taken(one, [HEAD, *tokens(1), tail(1)[0], LAST])
    one.ended = True
    backlog.add(one)
    backlog.drain()
    warnings = backlog.samples[0][1].warnings
    assert warnings[0] == "reconnected"
    assert len(warnings) > 1


def test_a_connection_is_used_again_only_after_a_whole_answer() -> None:
    cases: list[tuple[list[bytes], BodyEnd, bool]] = [
        ([HEAD, *tokens(1), *tail(1)], BodyEnd.CLEAN, True),
        ([HEAD, *tokens(1)], BodyEnd.TRUNCATED, False),
        ([b"HTTP/1.1 401 X\r\nContent-Length: 2\r\n\r\n{}"], BodyEnd.CLEAN, True),
        ([b"HTTP/1.1 401 X\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"], BodyEnd.CLEAN, False),
    ]
    for pieces, end, reusable in cases:
        one = exchange()
        taken(one, pieces)
        one.end = end
        assert one.reusable is reusable


def test_pieces_that_were_walked_through_as_they_came_wait_to_be_read_as_well(backlog: Backlog) -> None:
    """A byte alone may be the end, so that it is looked at in place; it must not be forgotten there."""
    one = exchange()
    *body, done, _ = [HEAD, *tokens(2), *tail(2)]
    taken(one, [*body, *(done[at : at + 1] for at in range(len(done)))])
    assert one.unread > 0
    backlog.add(one)
    backlog.drain()
    assert one.unread == 0
    assert one.parser is not None
    assert one.parser.done
