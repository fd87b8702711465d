# SPDX-License-Identifier: Apache-2.0
"""Recognise ordinary chunks by their raw bytes, HTTP framing included, without taking them apart.

In a stream nearly every read is one HTTP chunk with one event that differs from the one before in its text
alone. Comparing it with what that one looked like costs a quarter of walking through chunk, event and JSON.
"""

from vllm_perf.load.chunk import needs_json

CRLF = b"\r\n"


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

    def fits(self, piece: bytes) -> bool:
        """Tell whether ``piece`` is one whole HTTP chunk of one ordinary event with a text."""
        size = len(piece)
        beginning = self._beginnings.get(size)
        if beginning is None:
            beginning = self._beginnings[size] = self._beginning(size)
        return (
            piece.startswith(beginning)
            and piece.endswith(self._suffix)
            and len(text := piece[len(beginning) : -len(self._suffix)]) > 0
            and not needs_json(text)
        )

    def _beginning(self, size: int) -> bytes:
        """Return what a read of ``size`` bytes begins with, where it is a chunk of its own."""
        for digits in range(1, 9):
            body = size - digits - 2 * len(CRLF)
            if body > 0 and len(b"%x" % body) == digits:
                return b"%x\r\n%b" % (body, self._prefix)
        return self._prefix
