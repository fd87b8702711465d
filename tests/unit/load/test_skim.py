# SPDX-License-Identifier: Apache-2.0
"""What is recognised by its raw bytes is what would have been read from it, and nothing else is."""

from collections.abc import Iterator

import pytest

from tests.unit.load.scripted import HEAD, LAST, delta, event, tail, tokens
from vllm_perf.clock import KernelClock
from vllm_perf.load.chunk import template_of
from vllm_perf.load.exchange import Exchange
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.skim import Skimmer
from vllm_perf.load.stream import StreamParser


def _event(text: str) -> bytes:
    return event(delta({"content": text}))


@pytest.fixture
def skimmer() -> Skimmer:
    chunk = delta({"content": "word"})
    raw = _event("word").partition(b"\r\n")[2].removesuffix(b"\r\n")
    template = template_of(raw, chunk)
    assert template is not None
    return Skimmer(template)


@pytest.fixture
def clock() -> Iterator[KernelClock]:
    found = KernelClock(wanted=False)
    yield found
    found.close()


@pytest.mark.parametrize("text", ["a", "word", "x" * 100, "x" * 5000, "<b>", "data: x"])
def test_a_chunk_with_another_text_is_ordinary(text: str, skimmer: Skimmer) -> None:
    assert skimmer.count(_event(text)) == 1


def test_chunks_merged_into_one_read_are_counted(skimmer: Skimmer) -> None:
    assert skimmer.count(_event("a") + _event("longer") + _event("word")) == 3


ODD = {
    "no text": _event(""),
    "a quote": _event('a"b'),
    "a line break": _event("a\nb"),
    "another size in front": b"1" + _event("word"),
    "no size in front": _event("word").partition(b"\r\n")[2],
    "one and a half": _event("one") + _event("two")[:-4],
    "an odd one among them": _event("one") + _event('"') + _event("two"),
    "the end with it": _event("one") + LAST,
    "half a chunk": _event("word")[:-5],
    "a finish reason": event(delta({"content": "word"}, "stop")),
    "a role": event(delta({"role": "assistant", "content": "word"})),
    "another channel": event(delta({"reasoning": "word"})),
    "nothing": b"",
    "two events in one chunk": event(
        _event("a").partition(b"data: ")[2].partition(b"\n")[0] + b"\n\ndata: {}"
    ),
}


@pytest.mark.parametrize("piece", ODD.values(), ids=ODD)
def test_anything_else_is_not(piece: bytes, skimmer: Skimmer) -> None:
    assert skimmer.count(piece) == 0


def _exchange(pieces: list[bytes]) -> Exchange:
    one = Exchange(PlannedRequest(prompt_id="p", body=b""), 0, "id")
    for at, piece in enumerate(pieces):
        one.take(piece, [], at)
    return one


def _read(one: Exchange, clock: KernelClock, skim: bool) -> list[int]:
    one.parser = StreamParser()
    while one.unread:
        if skim:
            one.skim(clock, 10)
        for ns, body in one.body(clock, 1):
            one.parser.feed(ns, body)
    return list(one.parser.chunk_ns)


def test_skimming_finds_the_same_tokens_at_the_same_times(clock: KernelClock) -> None:
    odd = [
        ODD["a quote"],
        ODD["one and a half"],
        _event("two")[-4:],
        _event("one") + _event("two"),
        ODD["no text"],
        _event("word")[:7],
        _event("word")[7:],
    ]
    pieces = [HEAD, *tokens(30), *odd, *tokens(30)[1:], *tail(60)]
    assert _read(_exchange(pieces), clock, skim=True) == _read(_exchange(pieces), clock, skim=False)


def test_nothing_is_skimmed_in_the_middle_of_an_event(clock: KernelClock) -> None:
    """An open event may go on with what looks like a whole one."""
    whole = _event("word")
    line = whole.partition(b"\r\n")[2].removesuffix(b"\n\n\r\n") + b"\n"
    half = b"%x\r\n%b\r\n" % (len(line), line)
    one = _exchange([HEAD, *tokens(3), half, whole])
    one.parser = StreamParser()
    for ns, body in one.body(clock, 5):
        one.parser.feed(ns, body)
    one.skim(clock, 10)
    assert one.unread == 1
