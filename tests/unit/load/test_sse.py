# SPDX-License-Identifier: Apache-2.0
"""Events out of bytes: line endings, comments, fields, and splits anywhere."""

import random

import pytest

from vllm_perf.load.sse import SseDecoder

BODY = (
    b"\xef\xbb\xbf: ping\n\nretry: 3000\n\nid: 7\nevent: note\ndata: one\n\n"
    b"data:two\ndata: three\n\n:\n\ndata: [DONE]\n\n"
)
EVENTS = [(b"note", b"one"), (b"", b"two\nthree"), (b"", b"[DONE]")]


def _events(pieces: list[bytes]) -> list[tuple[bytes, bytes]]:
    decoder = SseDecoder()
    found = [event for ns, piece in enumerate(pieces) for event in decoder.feed(ns, piece)]
    return [(event.name, event.data) for event in [*found, *decoder.finish(len(pieces))]]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_every_single_byte_split_gives_the_same_events(newline: bytes) -> None:
    body = BODY.replace(b"\n", newline)
    assert _events([body]) == EVENTS
    assert _events([body[i : i + 1] for i in range(len(body))]) == EVENTS


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("seed", range(50))
def test_any_random_split_gives_the_same_events(newline: bytes, seed: int) -> None:
    body = BODY.replace(b"\n", newline)
    cuts = sorted(random.Random(seed).sample(range(len(body) + 1), 9))
    assert _events([body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]) == EVENTS


def test_an_event_is_stamped_when_its_data_line_is_complete_not_when_the_blank_line_comes() -> None:
    decoder = SseDecoder()
    assert decoder.feed(100, b"data: A") == []
    assert decoder.feed(200, b"\n") == []
    assert [event.ns for event in decoder.feed(300, b"\ndata: B\n\n")] == [200, 300]


def test_a_carriage_return_alone_completes_a_line() -> None:
    decoder = SseDecoder()
    decoder.feed(100, b"data: A\r")
    assert [(event.ns, event.data) for event in decoder.feed(200, b"\n\r\n")] == [(100, b"A")]


def test_several_whole_events_in_one_piece_share_its_time() -> None:
    assert [tuple(e)[:2] for e in SseDecoder().feed(5, b"data: A\n\ndata: B\n\n")] == [(5, b"A"), (5, b"B")]


def test_the_end_of_the_body_ends_the_last_event() -> None:
    assert _events([b"data: A\n\n", b"data: [DONE]"]) == [(b"", b"A"), (b"", b"[DONE]")]


def test_an_event_without_data_is_no_event() -> None:
    assert _events([b"retry: 3000\n\nevent: x\n\ndata:\n\ndata: A\n\n"]) == [(b"", b"A")]


@pytest.mark.parametrize("cut", range(4))
def test_a_byte_order_mark_is_no_part_of_the_first_line(cut: int) -> None:
    body = b"\xef\xbb\xbfdata: A\n\n"
    assert _events([body[:cut], body[cut:]]) == [(b"", b"A")]
