# SPDX-License-Identifier: Apache-2.0
"""Take one HTTP/1.1 response apart as its bytes come: status, headers, body pieces, and where it ends."""

from collections.abc import Mapping
from enum import Enum

HEAD_LIMIT = 262_144


class Part(Enum):
    """What the next byte of a response belongs to."""

    HEAD = "head"
    SIZE = "chunk size"
    DATA = "chunk data"
    TRAILER = "trailer"
    LENGTH = "body of known length"
    CLOSE = "body up to the close"
    DONE = "nothing: the response is complete"


class FramingError(ValueError):
    """Say that the bytes are no HTTP/1.1 response."""


class Framing:
    """Read one response (RFC 9112); informational heads are passed over.

    ``excess`` holds bytes that came after the end. ``keep_alive`` says whether the connection may be used
    again.
    """

    __slots__ = ("_buffer", "_left", "excess", "headers", "part", "status")

    def __init__(self) -> None:
        """Start at the first byte of a head."""
        self.part = Part.HEAD
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.excess = b""
        self._buffer = b""
        self._left = 0

    @property
    def complete(self) -> bool:
        """Tell whether the response has come to its own end."""
        return self.part is Part.DONE

    @property
    def at_chunk(self) -> bool:
        """Tell whether the next byte begins a chunk of the body."""
        return self.part is Part.SIZE and not self._buffer

    @property
    def keep_alive(self) -> bool:
        """Tell whether the server leaves the connection open."""
        return self.complete and "close" not in self.headers.get("connection", "").lower()

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes; return the pieces of body in them.

        Raises:
            FramingError: this is not HTTP.
        """
        if self.part is Part.SIZE and not self._buffer and (body := _whole_chunk(data)) is not None:
            return [body]
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        out: list[bytes] = []
        while data and self.part is not Part.DONE:
            data = self._step(data, out)
        if self.part is Part.DONE and data:
            self.excess += data
        return out

    def close(self) -> bool:
        """Take the end of the connection; return whether that is where the response ends, too."""
        if self.part is Part.CLOSE:
            self.part = Part.DONE
        return self.complete

    def _step(self, data: bytes, out: list[bytes]) -> bytes:
        if self.part is Part.HEAD:
            return self._head(data)
        if self.part is Part.SIZE:
            return self._size(data)
        if self.part is Part.TRAILER:
            return self._trailer(data)
        if self.part is Part.CLOSE:
            out.append(data)
            return b""
        return self._sized(data, out)

    def _head(self, data: bytes) -> bytes:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if not b"HTTP/1.".startswith(data[:7]) or len(data) > HEAD_LIMIT:
                raise FramingError(f"the answer does not begin like HTTP/1.1: {data[:40]!r}")
            self._buffer = data
            return b""
        self._read_head(data[:end])
        return data[end + 4 :]

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if not words[0].startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise FramingError(f"the answer does not begin like HTTP/1.1: {first[:40]!r}")
        if 100 <= int(words[1]) < 200:
            return
        self.status = int(words[1])
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if words[0] == "HTTP/1.0":
            self.headers = {"connection": "close", **self.headers}
        self._choose_body()

    def _choose_body(self) -> None:
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            self.part = Part.DONE
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self.part = Part.SIZE
        elif length is None:
            self.part = Part.CLOSE
        elif length.isdigit():
            self._left = int(length)
            self.part = Part.LENGTH if self._left else Part.DONE
        else:
            raise FramingError(f"Content-Length is {length[:20]!r}")

    def _size(self, data: bytes) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            if len(data) > 1024:
                raise FramingError(f"no chunk size where one should be: {data[:40]!r}")
            self._buffer = data
            return b""
        digits = data[:end].partition(b";")[0].strip()
        try:
            size = int(digits, 16)
        except ValueError:
            raise FramingError(f"no chunk size where one should be: {data[:40]!r}") from None
        # Two more than the chunk: its own CRLF is waited for with it.
        self._left, self.part = (size + 2, Part.DATA) if size else (0, Part.TRAILER)
        return data[end + 2 :]

    def _sized(self, data: bytes, out: list[bytes]) -> bytes:
        over = 2 if self.part is Part.DATA else 0
        body = data[: max(0, self._left - over)]
        if body:
            out.append(body)
        taken = min(len(data), self._left)
        self._left -= taken
        if not self._left:
            self.part = Part.SIZE if self.part is Part.DATA else Part.DONE
        return data[taken:]

    def _trailer(self, data: bytes) -> bytes:
        end = data.find(b"\r\n")
        if end < 0:
            self._buffer = data
            return b""
        if end == 0:
            self.part = Part.DONE
        return data[end + 2 :]


def _whole_chunk(data: bytes) -> bytes | None:
    """Return the body where ``data`` is exactly one chunk: nearly every read of a stream is."""
    end = data.find(b"\r\n", 0, 18)
    try:
        size = int(data[:end], 16) if end > 0 else 0
    except ValueError:
        return None
    start = end + 2
    return data[start : start + size] if size and len(data) == start + size + 2 else None
