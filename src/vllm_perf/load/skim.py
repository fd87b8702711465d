# SPDX-License-Identifier: Apache-2.0
"""Recognise ordinary chunks by their raw bytes, HTTP framing included, without taking them apart.

In a stream nearly every read is one HTTP chunk with one event that differs from the one before in its text
alone. Comparing it with what that one looked like costs a quarter of walking through chunk, event and JSON.
"""

from vllm_perf.load.chunk import needs_json

CRLF = b"\r\n"
MOST_TEXTS = 65_536
# Texts found to be plain: a model has some ten thousand tokens, and says the same few hundred all the time.
_plain: set[bytes] = set()


class Skimmer:
    """Tell whether a read is exactly one ordinary chunk, given what stands before and after its text."""

    __slots__ = ("_beginnings", "_prefix", "_suffix", "template")

    def __init__(self, template: tuple[bytes, bytes]) -> None:
        """Prepare for events that begin and end as ``template`` says."""
        self.template = template
        self._prefix, suffix = template
        self._suffix = suffix + CRLF
        # The chunk's size stands before it in hexadecimal: what a read begins with depends on its length.
        self._beginnings: dict[int, bytes] = {}

    def count(self, piece: bytes) -> int:
        """Return how many ordinary chunks ``piece`` consists of, 0 where it holds anything else as well."""
        beginning, suffix = self._beginnings.get(len(piece)), self._suffix
        if beginning is not None and piece.startswith(beginning) and piece.endswith(suffix):
            return 1 if piece[len(beginning) : -len(suffix)] in _plain else int(self._fits(piece))
        return self._count(piece)

    def _count(self, piece: bytes) -> int:
        count = 0
        while piece:
            end = _end_of_chunk(piece)
            if not end or not self._fits(piece[:end]):
                return 0
            piece, count = piece[end:], count + 1
        return count

    def _fits(self, piece: bytes) -> bool:
        size = len(piece)
        beginning = self._beginnings.get(size)
        if beginning is None:
            beginning = self._beginnings[size] = self._beginning(size)
        suffix = self._suffix
        if not (piece.startswith(beginning) and piece.endswith(suffix)):
            return False
        text = piece[len(beginning) : -len(suffix)]
        return text in _plain or _is_plain(text)

    def _beginning(self, size: int) -> bytes:
        """Return what a read of ``size`` bytes begins with, where it is a chunk of its own."""
        for digits in range(1, 9):
            body = size - digits - 2 * len(CRLF)
            if body > 0 and len(b"%x" % body) == digits:
                return b"%x\r\n%b" % (body, self._prefix)
        return self._prefix


def _is_plain(text: bytes) -> bool:
    if not text or needs_json(text):
        return False
    if len(_plain) < MOST_TEXTS:
        _plain.add(text)
    return True


def _end_of_chunk(piece: bytes) -> int:
    """Return where the HTTP chunk at the front ends, 0 where there is no whole one."""
    start = piece.find(CRLF, 0, 10)
    try:
        size = int(piece[:start], 16) if start > 0 else 0
    except ValueError:
        return 0
    end = start + size + 2 * len(CRLF)
    return end if size and end <= len(piece) else 0
