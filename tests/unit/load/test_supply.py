# SPDX-License-Identifier: Apache-2.0
"""What is due when: slots, schedules, conversations."""

from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.supply import ClosedSupply, OpenSupply, make_supply
from vllm_perf.spec.workload import ArrivalSpec


def request(name: str, offset_ns: int | None = None, after: str | None = None) -> PlannedRequest:
    """Return a request without a body."""
    return PlannedRequest(prompt_id=name, body=b"", offset_ns=offset_ns, after=after)


A, B, C = request("a"), request("b"), request("c")


def closed(*requests: PlannedRequest, concurrency: int = 2, ramp_s: float = 0.0) -> ClosedSupply:
    """Return a closed supply that starts at 100 ns."""
    return ClosedSupply(requests, ArrivalSpec(concurrency=concurrency, ramp_s=ramp_s), 100)


def test_a_closed_loop_fills_its_slots_at_the_start() -> None:
    supply = closed(A, B, C)
    assert (supply.next_due_ns(), supply.take(), supply.next_due_ns(), supply.take()) == (100, A, 100, B)


def test_a_full_closed_loop_waits_for_an_end() -> None:
    supply = closed(A, B, C)
    supply.take()
    supply.take()
    assert supply.next_due_ns() is None


def test_a_slot_is_due_again_when_its_request_ended() -> None:
    supply = closed(A, B, C)
    supply.take()
    supply.take()
    supply.ended(B, 170)
    assert (supply.next_due_ns(), supply.take(), supply.left) == (170, C, 0)


def test_a_ramp_staggers_the_first_requests() -> None:
    supply = closed(A, B, concurrency=2, ramp_s=1.0)
    supply.take()
    assert supply.next_due_ns() == 100 + 500_000_000


def test_a_follower_waits_for_its_turn_and_not_for_its_slot() -> None:
    second = request("a2", after="a")
    supply = closed(A, second, concurrency=2)
    supply.take()
    assert supply.next_due_ns() is None
    supply.ended(A, 300)
    assert (supply.next_due_ns(), supply.take()) == (300, second)


def test_a_follower_of_a_request_that_is_not_in_the_plan_is_free() -> None:
    assert closed(request("x", after="unknown")).next_due_ns() == 100


def test_an_open_loop_follows_its_schedule_whatever_ended() -> None:
    supply = OpenSupply([request("a", 50), request("b", 0)], 1000)
    assert (supply.next_due_ns(), supply.take().prompt_id, supply.next_due_ns()) == (1000, "b", 1050)


def test_requests_due_together_come_in_the_plans_order() -> None:
    supply = OpenSupply([request("a", 0), request("b", 0)], 0)
    assert [supply.take().prompt_id, supply.take().prompt_id] == ["a", "b"]


def test_an_open_follower_comes_at_its_own_time_if_that_is_later() -> None:
    supply = OpenSupply([request("a", 0), request("b", 500, after="a")], 1000)
    first = supply.take()
    supply.ended(first, 1100)
    assert supply.next_due_ns() == 1500


def test_an_open_follower_comes_at_once_if_its_time_has_passed() -> None:
    supply = OpenSupply([request("a", 0), request("b", 500, after="a")], 1000)
    first = supply.take()
    supply.ended(first, 1900)
    assert supply.next_due_ns() == 1900


def test_offsets_of_their_own_make_an_open_loop_of_a_closed_one() -> None:
    assert isinstance(make_supply([request("a", 0)], ArrivalSpec(), 0), OpenSupply)
    assert isinstance(make_supply([request("a")], ArrivalSpec(), 0), ClosedSupply)
