# SPDX-License-Identifier: Apache-2.0
"""One request in flight: its raw bytes and their stamps, kept as they came until there is time to read."""

from array import array

from vllm_perf.load.answer import BodyEnd
from vllm_perf.load.clock import Ancillary, KernelClock
from vllm_perf.load.failures import Failure
from vllm_perf.load.framing import Framing
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample

BLANK_LINE = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Exchange:
    """A request from the moment it is due. ``take`` is the hot path: it stores, and looks for the end only.

    An ordinary chunked 200 is complete when its bytes end in the last chunk; anything else is walked through
    as HTTP at once. ``walk`` hands out body bytes; raw ones are dropped as it goes.
    """

    __slots__ = (
        "_body",
        "_ordinary",
        "_pieces",
        "_read_ns",
        "_stamps",
        "_walked",
        "connect_ns",
        "end",
        "end_ns",
        "failure",
        "framing",
        "id",
        "place",
        "planned",
        "sample",
        "scheduled_ns",
        "sent_ns",
        "size",
        "warnings",
    )

    def __init__(self, planned: PlannedRequest, place: int, request_id: str) -> None:
        """Prepare the request at ``place`` of the plan; ``scheduled_ns`` is set when it is due."""
        self.planned = planned
        self.place = place
        self.id = request_id
        self.scheduled_ns = 0
        self.sent_ns: int | None = None
        self.connect_ns: int | None = None
        self.end = BodyEnd.CLEAN
        self.end_ns: int | None = None
        self.failure: Failure | None = None
        self.framing = Framing()
        self.sample: RequestSample | None = None
        self.size = 0
        self.warnings: tuple[str, ...] = ()
        self._ordinary = False
        self._pieces: list[bytes] = []
        self._stamps: list[Ancillary] = []
        self._read_ns: array[int] = array("q")
        self._walked = 0
        self._body: list[tuple[int, bytes]] = []

    def take(self, data: bytes, stamp: Ancillary, read_ns: int) -> bool:
        """Keep what arrived; return whether the response is complete.

        Raises:
            FramingError: this is no HTTP.
        """
        pieces = self._pieces
        pieces.append(data)
        self._stamps.append(stamp)
        self._read_ns.append(read_ns)
        self.size += len(data)
        if len(pieces) == 1:
            self._ordinary = _is_ordinary(data)
        if self._ordinary:
            may_end = LAST_CHUNK in data or data.endswith(BLANK_LINE) or len(data) < len(LAST_CHUNK)
            if not may_end:
                return False
            if data.endswith(b"\r\n" + LAST_CHUNK) or (data == LAST_CHUNK and pieces[-2].endswith(b"\r\n")):
                return True
        self._walk(len(pieces))
        return self.framing.complete

    @property
    def answered(self) -> bool:
        """Tell whether any byte came back."""
        return self.size > 0

    @property
    def reusable(self) -> bool:
        """Tell whether the connection may carry another request."""
        if self.end is not BodyEnd.CLEAN or self.failure is not None or self.framing.excess:
            return False
        return self._ordinary or self.framing.keep_alive

    def closed(self) -> bool:
        """Take the end of the connection; return whether the response ends there, too.

        Raises:
            FramingError: what came before is no HTTP.
        """
        self._walk(len(self._pieces))
        return self.framing.close()

    def body(self, clock: KernelClock, limit: int) -> list[tuple[int, bytes]]:
        """Return body bytes of the next ``limit`` raw pieces, with their arrival; forget the raw ones.

        Raises:
            FramingError: this is no HTTP.
        """
        self._walk(min(len(self._pieces), self._walked + limit))
        body = [(clock.arrival_ns(self._stamps[at], self._read_ns[at]), piece) for at, piece in self._body]
        self._body = []
        return body

    @property
    def read_through(self) -> bool:
        """Tell whether ``body`` has handed out everything."""
        return self._walked == len(self._pieces)

    def arrival_of_end_ns(self, clock: KernelClock) -> int:
        """Return when the response ended: its last bytes' arrival, or when the failure was seen."""
        if self.end_ns is not None:
            return self.end_ns
        return clock.arrival_ns(self._stamps[-1], self._read_ns[-1])

    def forget(self) -> None:
        """Drop all raw data."""
        self._pieces, self._stamps, self._body = [], [], []
        self._read_ns = array("q")
        self._walked = 0

    def _walk(self, end: int) -> None:
        pieces, feed = self._pieces, self.framing.feed
        for place in range(self._walked, end):
            for body in feed(pieces[place]):
                self._body.append((place, body))
            # The last two stay: the end is looked for in them.
            if place > 0:
                pieces[place - 1] = pieces[place - 1][-2:]
        self._walked = end


def _is_ordinary(head: bytes) -> bool:
    if not head.startswith(b"HTTP/1.1 200 "):
        return False
    lower = head[: head.find(BLANK_LINE) + 2].lower()
    return b"\r\ntransfer-encoding: chunked\r\n" in lower and b"\r\nconnection: close\r\n" not in lower
