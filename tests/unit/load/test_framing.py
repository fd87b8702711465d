# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 responses, split anywhere: body, end, and whether the connection lives on."""

from itertools import pairwise

import pytest

from vllm_perf.load.framing import Framing, FramingError

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 5\r\n\r\nhello"
STREAM = CHUNKED + b"6\r\nabc\n\nd\r\n3;x=1\r\nxyz\r\n0\r\n\r\n"


def read(*pieces: bytes) -> tuple[Framing, bytes]:
    """Feed pieces and return the reader with all body bytes."""
    framing = Framing()
    body = b"".join(part for piece in pieces for part in framing.feed(piece))
    return framing, body


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_a_chunked_body_is_the_same_however_it_is_split(size: int) -> None:
    cuts = [*range(0, len(STREAM), size), len(STREAM)]
    framing, body = read(*(STREAM[a:b] for a, b in pairwise(cuts)))
    assert (body, framing.complete, framing.status) == (b"abc\n\ndxyz", True, 200)


@pytest.mark.parametrize("cut", range(len(STREAM)))
def test_a_chunked_body_without_its_last_chunk_is_not_complete(cut: int) -> None:
    assert not read(STREAM[:cut])[0].complete


@pytest.mark.parametrize("cut", range(1, len(LENGTH)))
def test_a_body_of_known_length_ends_with_its_last_byte(cut: int) -> None:
    framing = Framing()
    framing.feed(LENGTH[:cut])
    assert not framing.complete
    framing.feed(LENGTH[cut:])
    assert framing.complete
    assert framing.status == 401


def test_one_chunk_a_read_is_handed_out_whole() -> None:
    framing = Framing()
    framing.feed(CHUNKED)
    assert framing.feed(b"5\r\nhello\r\n") == [b"hello"]


def test_a_read_that_only_looks_like_one_chunk_is_taken_apart() -> None:
    framing = Framing()
    framing.feed(CHUNKED)
    assert framing.feed(b"3\r\nabc\r\n2\r\nde\r\n") == [b"abc", b"de"]


def test_chunk_data_that_looks_like_an_end_is_data() -> None:
    framing, body = read(CHUNKED, b"7\r\n\r\n0\r\n\r\n\r\n", b"1\r\na\r\n0\r\n\r\n")
    assert (body, framing.complete) == (b"\r\n0\r\n\r\na", True)


def test_trailers_are_read_past() -> None:
    assert read(CHUNKED + b"0\r\nServer-Timing: a\r\n\r\n")[0].complete


def test_a_body_up_to_the_close_ends_with_it() -> None:
    framing, body = read(b"HTTP/1.1 200 OK\r\n\r\nabc", b"def")
    assert not framing.complete
    assert framing.close()
    assert body == b"abcdef"


def test_a_close_inside_a_chunk_is_no_end() -> None:
    framing, _ = read(CHUNKED, b"5\r\nhel")
    assert not framing.close()


def test_an_informational_head_is_passed_over() -> None:
    assert read(b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH)[0].status == 401


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_some_statuses_have_no_body(status: bytes) -> None:
    assert read(b"HTTP/1.1 " + status + b"\r\n\r\n")[0].complete


def test_an_empty_body_of_known_length_is_complete() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")[0].complete


def test_header_names_are_lower_case_and_values_stripped() -> None:
    assert read(b"HTTP/1.1 200 OK\r\nServer:  uvicorn \r\nContent-Length: 0\r\n\r\n")[0].headers[
        "server"
    ] == ("uvicorn")


@pytest.mark.parametrize(
    ("head", "lives"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
def test_the_connection_lives_on_as_the_head_says(head: bytes, lives: bool) -> None:
    assert read(head)[0].keep_alive is lives


def test_bytes_after_the_end_are_kept_apart() -> None:
    assert read(LENGTH + b"HTTP/1.1")[0].excess == b"HTTP/1.1"


@pytest.mark.parametrize(
    "data",
    [
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"<html>",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"5\r\nhelloXX" + b"y" * 2000,
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    with pytest.raises(FramingError):
        read(data)
