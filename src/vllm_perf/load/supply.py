# SPDX-License-Identifier: Apache-2.0
"""Which request is due when: closed loop by free slots, open loop by the clock, conversations in turn."""

import heapq
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Protocol

from vllm_perf.load.arrivals import closed_offsets
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.spec.workload import ArrivalSpec


class Supply(Protocol):
    """Hand out requests with the time at which the load wanted each sent."""

    def next_due_ns(self) -> int | None:
        """Return when the next request is due, ``None`` while that waits for another one to end."""
        ...

    def take(self) -> PlannedRequest:
        """Return the request that ``next_due_ns`` spoke of."""
        ...

    def ended(self, request: PlannedRequest, now_ns: int) -> None:
        """Take note that a request has ended, well or not."""
        ...

    @property
    def left(self) -> int:
        """Return how many requests have not been handed out."""
        ...


class _Followers:
    """Requests that wait for another one of their conversation."""

    def __init__(self, requests: Sequence[PlannedRequest]) -> None:
        known = {request.prompt_id for request in requests}
        self.free = [request for request in requests if request.after not in known]
        self._waiting: dict[str, list[PlannedRequest]] = defaultdict(list)
        for request in requests:
            if request.after is not None and request.after in known:
                self._waiting[request.after].append(request)

    def of(self, request: PlannedRequest) -> list[PlannedRequest]:
        """Return those that waited for ``request``, once."""
        return self._waiting.pop(request.prompt_id, []) if self._waiting else []


class ClosedSupply:
    """Keep ``concurrency`` requests in flight; a slot is due again the moment its request ended."""

    def __init__(self, requests: Sequence[PlannedRequest], arrival: ArrivalSpec, start_ns: int) -> None:
        """Make the slots; ``ramp_s`` spreads their first starts."""
        self._followers = _Followers(requests)
        self._ready: deque[tuple[PlannedRequest, int]] = deque(
            (one, start_ns) for one in self._followers.free
        )
        # Both in order of time, so that neither needs a heap: first starts, and slots set free since.
        offsets = closed_offsets(arrival.concurrency, arrival.ramp_s)
        self._first: deque[int] = deque(start_ns + offset for offset in offsets)
        self._freed: deque[int] = deque()
        self._gap_ns = round(1e9 / arrival.max_rate_per_s) if arrival.max_rate_per_s else 0
        self._not_before_ns = start_ns
        self._left = len(requests)

    @property
    def left(self) -> int:
        """Return how many requests have not been handed out."""
        return self._left

    def next_due_ns(self) -> int | None:
        """Return when a slot and a request are both there, and the last start is far enough back."""
        first, freed = self._first, self._freed
        slots = freed if freed and (not first or freed[0] < first[0]) else first
        if not slots or not self._ready:
            return None
        slot_ns, ready_ns = slots[0], self._ready[0][1]
        due_ns = slot_ns if slot_ns > ready_ns else ready_ns
        return due_ns if due_ns > self._not_before_ns else self._not_before_ns

    def take(self) -> PlannedRequest:
        """Return the next request; it has the slot that has been free longest."""
        if self._gap_ns:
            # From when it was due: a late client must not slow the load down any further.
            self._not_before_ns = (self.next_due_ns() or self._not_before_ns) + self._gap_ns
        self._earliest().popleft()
        self._left -= 1
        return self._ready.popleft()[0]

    def _earliest(self) -> deque[int]:
        first, freed = self._first, self._freed
        return freed if freed and (not first or freed[0] < first[0]) else first

    def ended(self, request: PlannedRequest, now_ns: int) -> None:
        """Free the slot, and what waited for this request."""
        self._freed.append(now_ns)
        self._ready.extend((follower, now_ns) for follower in self._followers.of(request))


class OpenSupply:
    """Follow an absolute schedule, whatever happened to earlier requests; followers wait for theirs."""

    def __init__(self, requests: Sequence[PlannedRequest], start_ns: int) -> None:
        """Sort by offset; a request without one is due at once."""
        self._followers = _Followers(requests)
        self._start_ns = start_ns
        self._order = {id(request): place for place, request in enumerate(requests)}
        self._heap = [self._entry(request, start_ns) for request in self._followers.free]
        heapq.heapify(self._heap)
        self._left = len(requests)

    @property
    def left(self) -> int:
        """Return how many requests have not been handed out."""
        return self._left

    def next_due_ns(self) -> int | None:
        """Return the next place in the schedule."""
        return self._heap[0][0] if self._heap else None

    def take(self) -> PlannedRequest:
        """Return the next request of the schedule."""
        self._left -= 1
        return heapq.heappop(self._heap)[2]

    def ended(self, request: PlannedRequest, now_ns: int) -> None:
        """Let the next turn come: at its own time, or now if that has passed."""
        for follower in self._followers.of(request):
            heapq.heappush(self._heap, self._entry(follower, now_ns))

    def _entry(self, request: PlannedRequest, earliest_ns: int) -> tuple[int, int, PlannedRequest]:
        due_ns = max(self._start_ns + (request.offset_ns or 0), earliest_ns)
        return due_ns, self._order[id(request)], request


def make_supply(requests: Sequence[PlannedRequest], arrival: ArrivalSpec, start_ns: int) -> Supply:
    """Return the supply that fits: requests with offsets of their own make any load an open loop."""
    if arrival.kind != "closed" or any(request.offset_ns is not None for request in requests):
        return OpenSupply(requests, start_ns)
    return ClosedSupply(requests, arrival, start_ns)
