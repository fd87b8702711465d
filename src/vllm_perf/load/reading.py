# SPDX-License-Identifier: Apache-2.0
"""Read finished exchanges into samples, a little at a time, whenever the loop has nothing better to do."""

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace

from vllm_perf.load.answer import Answer, BodyEnd, Classify, Sending, StreamResult
from vllm_perf.load.clock import KernelClock
from vllm_perf.load.exchange import Exchange
from vllm_perf.load.failures import Failure, NoAnswer, way_failure
from vllm_perf.load.framing import FramingError
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.stream import StreamParser, parse_stream, to_sample
from vllm_perf.spec.category import Category

PIECES_A_STEP = 64


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
    """Finished exchanges that wait to be read; ``size`` is what they hold in bytes.

    ``samples`` are those read so far, each with its request's place in the plan.
    """

    def __init__(self, context: Context) -> None:
        """Start empty."""
        self._context = context
        self._waiting: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._steps: Iterator[None] = iter(())
        self.size = 0
        self.samples: list[tuple[int, RequestSample]] = []

    def add(self, exchange: Exchange) -> None:
        """Take a finished exchange."""
        self._waiting.append(exchange)
        self.size += exchange.size

    def __bool__(self) -> bool:
        """Tell whether anything is left to read."""
        return self._current is not None or bool(self._waiting)

    def step(self) -> None:
        """Read a little: at most ``PIECES_A_STEP`` pieces of one exchange."""
        if self._current is None:
            if not self._waiting:
                return
            self._current = self._waiting.popleft()
            self._steps = read_exchange(self._current, self._context)
        if next(self._steps, self) is self:
            self._keep(self._current)
            self._current = None

    def _keep(self, exchange: Exchange) -> None:
        self.size -= exchange.size
        if exchange.sample is not None:
            self.samples.append((exchange.place, exchange.sample))

    def drain(self) -> None:
        """Read all that is left."""
        while self:
            self.step()


def read_exchange(exchange: Exchange, context: Context) -> Iterator[None]:
    """Read one exchange step by step, then leave its ``sample`` and drop the raw bytes."""
    try:
        result = yield from _result(exchange, context)
    except FramingError as error:
        result = _failure(Failure(Category.MALFORMED_STREAM, f"the answer is no HTTP: {error}"), exchange)
    exchange.sample = _sample(exchange, result)
    exchange.forget()


def _result(exchange: Exchange, context: Context) -> Generator[None, None, StreamResult]:
    if exchange.failure is not None:
        return _failure(exchange.failure, exchange)
    clock, framing = context.clock, exchange.framing
    clock.check()
    parser = StreamParser()
    refusal: list[tuple[int, bytes]] = []
    while True:
        for ns, piece in exchange.body(clock, PIECES_A_STEP):
            if 200 <= framing.status < 300:
                parser.feed(ns, piece)
            else:
                refusal.append((ns, piece))
        if exchange.read_through:
            break
        yield
    if not framing.status:
        return _failure(_silence(exchange, context), exchange)
    if exchange.end is BodyEnd.CLEAN and not framing.complete:
        raise FramingError("what looked like the last chunk was not")
    end_ns = exchange.arrival_of_end_ns(clock)
    if 200 <= framing.status < 300:
        pinned = exchange.planned.output_tokens or context.pinned_output_tokens
        result = parser.finish(exchange.end, end_ns, pinned_output_tokens=pinned)
        return replace(result, status=framing.status)
    answer = Answer(
        status=framing.status, pieces=refusal, end=exchange.end, end_ns=end_ns, headers=framing.headers
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
