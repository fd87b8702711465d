# SPDX-License-Identifier: Apache-2.0
"""One request in flight: its raw bytes and their stamps, kept as they came until there is time to read."""

from vllm_perf.clock import Ancillary, KernelClock
from vllm_perf.load.answer import BodyEnd
from vllm_perf.load.failures import Failure
from vllm_perf.load.framing import Framing
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.skim import Skimmer
from vllm_perf.load.stream import StreamParser

Raw = tuple[bytes, Ancillary, int]
"""What one read brought: bytes, the kernel's stamp, and when they were read."""
BLANK_LINE = b"\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
EVENT_END = b"\n\n\r\n"


class Exchange:
    """A request from the moment it is due. ``take`` is the hot path: it stores, and looks for the end only.

    An ordinary chunked 200 is complete when its bytes end in the last chunk; anything else is walked through
    as HTTP at once. ``body`` hands out body bytes and drops the raw ones. ``parser`` and ``refusal`` are
    where ``reading`` keeps what it has read so far; ``queued`` says that it has the exchange in hand.
    """

    __slots__ = (
        "_body",
        "_last_read_ns",
        "_last_stamp",
        "_ordinary",
        "_raw",
        "_skimmer",
        "_tail",
        "answered",
        "connect_ns",
        "end",
        "end_ns",
        "ended",
        "failure",
        "framing",
        "id",
        "parser",
        "place",
        "planned",
        "queued",
        "refusal",
        "sample",
        "scheduled_ns",
        "sent_ns",
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
        self.answered = self.ended = self.queued = False
        self.end = BodyEnd.CLEAN
        self.end_ns: int | None = None
        self.failure: Failure | None = None
        self.framing = Framing()
        self.parser: StreamParser | None = None
        self.refusal: list[tuple[int, bytes]] = []
        self.sample: RequestSample | None = None
        self.warnings: tuple[str, ...] = ()
        self._ordinary = False
        self._skimmer: Skimmer | None = None
        self._raw: list[Raw] = []
        self._body: list[tuple[Ancillary, int, bytes]] = []
        self._tail = b""
        self._last_stamp: Ancillary = []
        self._last_read_ns = 0

    def take(self, data: bytes, stamp: Ancillary, read_ns: int) -> bool:
        """Keep what arrived; return whether the response is complete.

        Raises:
            FramingError: this is no HTTP.
        """
        raw = self._raw
        raw.append((data, stamp, read_ns))
        if not self.answered:
            self.answered, self._ordinary = True, _is_ordinary(data)
        if self._ordinary:
            # One event and nothing after it is what nearly every read brings.
            if data.endswith(EVENT_END) and LAST_CHUNK not in data:
                return False
            may_end = LAST_CHUNK in data or data.endswith(BLANK_LINE) or len(data) < len(LAST_CHUNK)
            if not may_end:
                return False
            if data.endswith(b"\r\n" + LAST_CHUNK):
                return True
            if data == LAST_CHUNK and (raw[-2][0] if len(raw) > 1 else self._tail).endswith(b"\r\n"):
                return True
        self._walk(len(raw))
        return self.framing.complete

    @property
    def unread(self) -> int:
        """Return how many pieces wait to be read, those that had to be walked through at once among them."""
        return len(self._raw) + len(self._body)

    @property
    def quiet_since_ns(self) -> int:
        """Return when bytes were read last, 0 before the first."""
        return self._raw[-1][2] if self._raw else self._last_read_ns

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
        self._walk(len(self._raw))
        return self.framing.close()

    def body(self, clock: KernelClock, limit: int) -> list[tuple[int, bytes]]:
        """Return body bytes of the next ``limit`` raw pieces, with their arrival; forget the raw ones.

        Raises:
            FramingError: this is no HTTP.
        """
        self._walk(min(len(self._raw), limit))
        body = [(clock.arrival_ns(stamp, read_ns), piece) for stamp, read_ns, piece in self._body]
        self._body = []
        return body

    def skim(self, clock: KernelClock, limit: int) -> None:
        """Read up to ``limit`` raw pieces off the front, as long as each is one ordinary chunk."""
        template = self.parser.template if self.parser is not None and self.framing.at_chunk else None
        if self.parser is None or template is None or self._body:
            return
        if self._skimmer is None or self._skimmer.template != template:
            self._skimmer = Skimmer(template)
        count, merged = self._skimmer.count, False
        chunks: list[int] = []
        for piece, _, _ in self._raw[:limit]:
            found = count(piece)
            if not found:
                break
            chunks.append(found)
            merged = merged or found > 1
        if not chunks:
            return
        arrivals_ns = clock.arrivals_ns(self._raw[: len(chunks)])
        if merged:
            each = zip(arrivals_ns, chunks, strict=True)
            arrivals_ns = [arrival_ns for arrival_ns, found in each for _ in range(found)]
        self.parser.chunk_ns.extend(arrivals_ns)
        self._drop(len(chunks))

    def arrival_of_end_ns(self, clock: KernelClock) -> int:
        """Return when the response ended: its last bytes' arrival, or when the failure was seen."""
        if self.end_ns is not None:
            return self.end_ns
        return clock.arrival_ns(self._last_stamp, self._last_read_ns)

    def forget(self) -> None:
        """Drop all raw data and whatever was made of it but the sample."""
        self._raw, self._body, self.refusal = [], [], []
        self.parser = None

    def _walk(self, count: int) -> None:
        """Take the first ``count`` raw pieces apart; their last stamp and last two bytes are kept."""
        if not count:
            return
        feed = self.framing.feed
        for piece, stamp, read_ns in self._raw[:count]:
            for body in feed(piece):
                self._body.append((stamp, read_ns, body))
        self._drop(count)

    def _drop(self, count: int) -> None:
        """Forget the first ``count`` raw pieces, which have been read."""
        last, self._last_stamp, self._last_read_ns = self._raw[count - 1]
        self._tail = (self._tail + last)[-2:]
        del self._raw[:count]


def _is_ordinary(head: bytes) -> bool:
    if not head.startswith(b"HTTP/1.1 200 "):
        return False
    lower = head[: head.find(BLANK_LINE) + 2].lower()
    return b"\r\ntransfer-encoding: chunked\r\n" in lower and b"\r\nconnection: close\r\n" not in lower
