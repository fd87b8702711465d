# SPDX-License-Identifier: Apache-2.0
"""Kernel stamps on our clock, and when they are given up."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from vllm_perf import clock as module
from vllm_perf.clock import (
    SO_TIMESTAMPNS,
    Ancillary,
    KernelClock,
    kernel_ns,
    stamp_socket,
    wall_offset_ns,
)


@pytest.fixture
def clock() -> Iterator[KernelClock]:
    """Offer a clock, and close it."""
    made = KernelClock()
    yield made
    made.close()


def stamp(wall_ns: int) -> Ancillary:
    """Return ancillary data as the kernel gives it."""
    data = struct.pack("qq", *divmod(wall_ns, 1_000_000_000))
    return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, data)]


def test_a_stamp_is_read_from_ancillary_data() -> None:
    assert kernel_ns(stamp(1_700_000_000_123_456_789)) == 1_700_000_000_123_456_789


@pytest.mark.parametrize("other", [[], [(socket.SOL_SOCKET, 99, b"x" * 16)], [(1, SO_TIMESTAMPNS, b"short")]])
def test_other_ancillary_data_is_no_stamp(other: Ancillary) -> None:
    assert kernel_ns(other) is None


def test_the_offset_turns_wall_time_into_perf_counter() -> None:
    assert abs(time.time_ns() + wall_offset_ns() - time.perf_counter_ns()) < 50_000_000


def test_a_read_long_after_the_arrival_still_gets_the_arrivals_time(clock: KernelClock) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    with sender, receiver:
        stamp_socket(receiver)
        before_ns = time.perf_counter_ns()
        sender.send(b"x")
        arrived_by_ns = time.perf_counter_ns()
        busy_until_ns = arrived_by_ns + 30_000_000
        while time.perf_counter_ns() < busy_until_ns:
            pass
        ancillary = receiver.recvmsg(1, 64)[1]
        found_ns = clock.arrival_ns(ancillary, time.perf_counter_ns())
    assert before_ns - 200_000 <= found_ns <= arrived_by_ns + 10_000_000


def test_a_stamp_is_moved_to_perf_counter(clock: KernelClock) -> None:
    assert clock.arrival_ns(stamp(5_000 - clock.offset_ns), 9_000) == 5_000


def test_a_stamp_after_the_read_is_refused(clock: KernelClock) -> None:
    assert clock.arrival_ns(stamp(9_999 - clock.offset_ns), 9_000) == 9_000


def test_without_a_stamp_the_read_counts(clock: KernelClock) -> None:
    assert clock.arrival_ns([], 9_000) == 9_000


def test_a_wall_clock_that_moves_ends_the_use_of_stamps(
    clock: KernelClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "wall_offset_ns", lambda tries=5: clock.offset_ns - 3_000_000)
    assert not clock.check()
    assert clock.warning is not None
    assert "moved by -3.0 ms" in clock.warning
    assert clock.name == "perf_counter_ns"
    assert clock.arrival_ns(stamp(5_000 - clock.offset_ns), 9_000) == 9_000


def test_a_pause_between_two_readings_is_not_taken_for_a_move(
    clock: KernelClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = iter([clock.offset_ns + 3_000_000, clock.offset_ns])
    monkeypatch.setattr(module, "wall_offset_ns", lambda tries=5: next(readings))
    assert clock.check()


def test_a_platform_without_stamps_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "kernel_ns", lambda ancillary: None)
    monkeypatch.setattr(module, "SWITCH_ON_DEADLINE_S", 0.01)
    clock = KernelClock()
    clock.close()
    assert not clock.works
    assert "no kernel receive timestamps" in str(clock.warning)


def test_many_arrivals_at_once_are_the_same_as_one_by_one(clock: KernelClock) -> None:
    def stamp(ns: int) -> Ancillary:
        return [(socket.SOL_SOCKET, SO_TIMESTAMPNS, struct.pack("qq", *divmod(ns - clock.offset_ns, 10**9)))]

    other = (socket.SOL_SOCKET, 99, b"")
    stamps = [stamp(5_000), stamp(9_000), [], [other], [other, *stamp(6_000)]]
    reads = [(b"", one, 7_000) for one in stamps]
    assert clock.arrivals_ns(reads) == [5_000, 7_000, 7_000, 7_000, 6_000]
    assert clock.arrivals_ns(reads) == [clock.arrival_ns(one, 7_000) for one in stamps]
    clock.works = False
    assert clock.arrivals_ns(reads) == [7_000] * len(stamps)
