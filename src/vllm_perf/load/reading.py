# SPDX-License-Identifier: Apache-2.0
"""Read finished exchanges into samples, a little at a time, whenever the loop has nothing better to do."""

from collections import deque
from dataclasses import dataclass, replace

from vllm_perf.clock import KernelClock
from vllm_perf.load.answer import Answer, BodyEnd, Classify, Sending, StreamResult
from vllm_perf.load.exchange import Exchange
from vllm_perf.load.failures import Failure, NoAnswer, way_failure
from vllm_perf.load.framing import FramingError
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.stream import StreamParser, parse_stream, to_sample
from vllm_perf.spec.category import Category

PIECES_A_STEP = 64
# Few: ordinary ones may follow, which need not be taken apart.
ODD_PIECES_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What reading needs to know of the load: clock, causes of refusals, the pinned length, the target."""

    clock: KernelClock
    classify: Classify
    target: Target
    url: str
    pinned_output_tokens: int | None
    request_timeout_s: float


class Backlog:
    """Exchanges that wait to be read: those that have ended, and long ones that are still going on.

    ``samples`` are those read to the end, each with its request's place in the plan.
    """

    def __init__(self, context: Context) -> None:
        """Start empty."""
        self._context = context
        self._waiting: deque[Exchange] = deque()
        self.samples: list[tuple[int, RequestSample]] = []

    def add(self, exchange: Exchange) -> None:
        """Take an exchange, once."""
        if not exchange.queued:
            exchange.queued = True
            self._waiting.append(exchange)

    def __bool__(self) -> bool:
        """Tell whether anything is left to read."""
        return bool(self._waiting)

    @property
    def unread(self) -> int:
        """Return how many raw pieces wait."""
        return sum(exchange.unread for exchange in self._waiting)

    def step(self) -> int:
        """Read a little, at most ``PIECES_A_STEP`` pieces of one exchange; return how many, at least 1."""
        if not self._waiting:
            return 1
        exchange = self._waiting[0]
        unread = exchange.unread
        _read_some(exchange, self._context)
        read = max(1, unread - exchange.unread)
        if exchange.sample is not None:
            self.samples.append((exchange.place, exchange.sample))
        if exchange.sample is not None or not (exchange.ended or exchange.unread):
            exchange.queued = False
            self._waiting.popleft()
        return read

    def drain(self) -> None:
        """Read all that is left."""
        while self:
            self.step()


def _read_some(exchange: Exchange, context: Context) -> None:
    """Read the next pieces; after the last one of an exchange that has ended, leave its ``sample``."""
    try:
        if exchange.failure is None:
            context.clock.check()
            _feed(exchange, context.clock)
        else:
            exchange.forget()
        if exchange.unread or not exchange.ended:
            return
        result = _result(exchange, context)
    except FramingError as error:
        exchange.failure = Failure(Category.MALFORMED_STREAM, f"the answer is no HTTP: {error}")
        exchange.forget()
        return
    exchange.sample = _sample(exchange, result)
    exchange.forget()


def _feed(exchange: Exchange, clock: KernelClock) -> None:
    _take_apart(exchange, clock, 0)  # what had to be walked through as it came
    left_over = max(0, exchange.unread - PIECES_A_STEP)
    while exchange.unread > left_over:
        exchange.skim(clock, exchange.unread - left_over)
        _take_apart(exchange, clock, min(ODD_PIECES_AT_ONCE, exchange.unread - left_over))


def _take_apart(exchange: Exchange, clock: KernelClock, limit: int) -> None:
    for ns, piece in exchange.body(clock, limit):
        if not 200 <= exchange.framing.status < 300:
            exchange.refusal.append((ns, piece))
            continue
        if exchange.parser is None:
            exchange.parser = StreamParser()
        exchange.parser.feed(ns, piece)


def _result(exchange: Exchange, context: Context) -> StreamResult:
    if exchange.failure is not None:
        return _failure(exchange.failure, exchange)
    framing = exchange.framing
    if not framing.status:
        return _failure(_silence(exchange, context), exchange)
    if exchange.end is BodyEnd.CLEAN and not framing.complete:
        raise FramingError("what looked like the last chunk was not")
    end_ns = exchange.arrival_of_end_ns(context.clock)
    if 200 <= framing.status < 300:
        pinned = exchange.planned.output_tokens or context.pinned_output_tokens
        parser = exchange.parser or StreamParser()
        result = parser.finish(exchange.end, end_ns, pinned_output_tokens=pinned)
        return replace(result, status=framing.status)
    answer = Answer(
        status=framing.status,
        pieces=exchange.refusal,
        end=exchange.end,
        end_ns=end_ns,
        headers=framing.headers,
    )
    return parse_stream(answer, classify=context.classify)


def _silence(exchange: Exchange, context: Context) -> Failure:
    """Say that no status line came: in time, or before the connection closed."""
    if exchange.end is BodyEnd.TIMEOUT:
        return Failure(Category.TIMEOUT, f"no answer within {context.request_timeout_s:g} s")
    if exchange.end is BodyEnd.CANCELLED:
        return Failure(Category.CANCELLED, "cancelled by the client before any answer")
    how = "reset" if exchange.end is BodyEnd.RESET else "closed"
    return way_failure(NoAnswer(f"the connection was {how} before any answer"), context.target, context.url)


def _failure(failure: Failure, exchange: Exchange) -> StreamResult:
    status = exchange.framing.status or None
    return StreamResult(
        outcome=failure.category,
        status=status,
        detail=failure.detail,
        remedy=failure.remedy,
        end_ns=exchange.end_ns,
    )


def _sample(exchange: Exchange, result: StreamResult) -> RequestSample:
    sending = Sending(
        id=exchange.id,
        prompt_id=exchange.planned.prompt_id,
        scheduled_ns=exchange.scheduled_ns,
        sent_ns=exchange.sent_ns,
        connect_ns=exchange.connect_ns,
    )
    if exchange.warnings:
        result = replace(result, warnings=(*exchange.warnings, *result.warnings))
    return to_sample(sending, result)
