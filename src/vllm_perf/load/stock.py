# SPDX-License-Identifier: Apache-2.0
"""Requests made ready before they are due, so that sending one is a system call and little else."""

from collections.abc import Sequence

from vllm_perf.load.exchange import Exchange
from vllm_perf.load.head import RequestWriter
from vllm_perf.load.plan import PlannedRequest

READY_REQUESTS = 1024
READY_BYTES = 32 * 1024 * 1024


class Stock:
    """Exchanges and their bytes for the requests that come next in the plan."""

    def __init__(self, requests: Sequence[PlannedRequest], writer: RequestWriter, prefix: str) -> None:
        """Start empty; ``prefix`` keeps the request ids of different runs apart."""
        self._requests = requests
        self._writer = writer
        self._prefix = prefix
        self._places = {id(request): place for place, request in enumerate(requests)}
        self._ready: dict[int, tuple[Exchange, bytes]] = {}
        self._taken = bytearray(len(requests))
        self._size = 0
        self._next = 0

    def take(self, request: PlannedRequest, scheduled_ns: int) -> tuple[Exchange, bytes]:
        """Return the exchange for ``request``, due since ``scheduled_ns``, and what to send."""
        place = self._places[id(request)]
        self._taken[place] = 1
        exchange, data = self._ready.pop(place) if place in self._ready else self._make(place)
        self._size -= len(data)
        exchange.scheduled_ns = scheduled_ns
        return exchange, data

    @property
    def full(self) -> bool:
        """Tell whether enough is ready."""
        return (
            self._next >= len(self._requests)
            or len(self._ready) >= READY_REQUESTS
            or self._size >= READY_BYTES
        )

    def prepare(self) -> None:
        """Make one more request ready."""
        if self._next < len(self._requests):
            if not self._taken[self._next]:
                self._ready[self._next] = self._make(self._next)
            self._next += 1

    def fill(self) -> None:
        """Make ready all that should be."""
        while not self.full:
            self.prepare()

    def _make(self, place: int) -> tuple[Exchange, bytes]:
        request = self._requests[place]
        exchange = Exchange(request, place, f"{self._prefix}-{place:05d}")
        data = self._writer.write(exchange.id, request.body)
        self._size += len(data)
        return exchange, data
