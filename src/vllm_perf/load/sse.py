# SPDX-License-Identifier: Apache-2.0
"""Server-sent events out of body pieces, each event with the arrival time of the bytes that completed it."""

from typing import NamedTuple

BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: when its last data line was complete, its payload, and its ``event:`` name."""

    ns: int
    data: bytes
    name: bytes = b""


class SseDecoder:
    """Turn body pieces, split anywhere, into events (WHATWG HTML, "event stream interpretation").

    Lines end in LF, CRLF or CR. Comments, ``id`` and ``retry`` are dropped; an event without data is none.
    """

    __slots__ = ("_data", "_data_ns", "_first_line", "_name", "_skip_lf", "_tail")

    def __init__(self) -> None:
        """Start at the beginning of a body."""
        self._tail: list[bytes] = []
        self._data: list[bytes] = []
        self._data_ns = 0
        self._name = b""
        self._skip_lf = False
        self._first_line = True

    def feed(self, ns: int, piece: bytes) -> list[Event]:
        """Take the next piece, which arrived at ``ns``; return the events that it completed."""
        if self.idle and piece.startswith(b"data: ") and piece.endswith(b"\n\n") and b"\r" not in piece:
            parts = piece[:-2].split(b"\n\n")
            if piece.count(b"\n") == 2 * len(parts) and all(p.startswith(b"data: ") for p in parts):
                self._first_line = False
                return [Event(ns, part[6:]) for part in parts]
        return self._feed_lines(ns, self._newlines(piece))

    def finish(self, ns: int) -> list[Event]:
        """Take the end of the body as the end of the last line and of the last event."""
        events = self._feed_lines(ns, b"\n") if self._tail else []
        return events + self._dispatch()

    @property
    def idle(self) -> bool:
        """Tell whether nothing is pending, so that the next byte begins a line and an event."""
        return not (self._tail or self._data or self._name or self._skip_lf)

    def _newlines(self, piece: bytes) -> bytes:
        if self._skip_lf and piece:
            self._skip_lf = False
            piece = piece.removeprefix(b"\n")
        if b"\r" in piece:
            self._skip_lf = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _feed_lines(self, ns: int, piece: bytes) -> list[Event]:
        if b"\n" not in piece:
            if piece:
                self._tail.append(piece)
            return []
        lines = (b"".join(self._tail) + piece).split(b"\n")
        rest = lines.pop()
        self._tail = [rest] if rest else []
        events: list[Event] = []
        for line in lines:
            if self._first_line:
                self._first_line = False
                line = line.removeprefix(BOM)
            if line:
                self._field(ns, line)
            else:
                events += self._dispatch()
        return events

    def _field(self, ns: int, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_ns = ns
        elif name == b"event":
            self._name = value.removeprefix(b" ")

    def _dispatch(self) -> list[Event]:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name = [], b""
        return [Event(self._data_ns, data, name)] if data.strip() else []
