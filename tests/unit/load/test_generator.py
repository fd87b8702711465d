# SPDX-License-Identifier: Apache-2.0
"""Loads against a server that does what it is told: every way a request can go is a sample."""

import gc
import json
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.load.scripted import (
    CLOSING,
    HEAD,
    LAST,
    UNAUTHORIZED,
    Asked,
    Play,
    Scripted,
    delta,
    event,
    plan,
    saying,
    stream,
    tail,
    tokens,
)
from vllm_perf.load.generator import run_load
from vllm_perf.load.loop import DONE_GRACE_NS
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import ArrivalSpec

RST = struct.pack("ii", 1, 0)


def one(play: Play, **changes: Any) -> RequestSample:
    """Send one request to a server that plays ``play``; return its sample."""
    with Scripted(play) as server:
        return run_load(plan(server.base_url, **changes)).samples[0]


def resetting(*pieces: bytes) -> Play:
    """Return a play that writes ``pieces`` and resets the connection."""

    def play(sock: socket.socket, asked: Asked) -> bool:
        for piece in pieces:
            sock.sendall(piece)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        return False

    return play


def test_an_ordinary_stream_is_a_success_with_every_field() -> None:
    sample = one(saying(*stream(3)), pinned=3)
    assert (sample.outcome, sample.status, sample.finish_reason) == (Category.OK, 200, "length")
    assert (sample.output_tokens, sample.token_source, sample.prompt_tokens) == (3, "usage", 5)
    assert len(sample.chunk_ns) == 3


def test_times_are_in_the_order_in_which_things_happen() -> None:
    sample = one(saying(*stream(3)))
    times = [sample.scheduled_ns, sample.sent_ns, sample.first_token_ns, sample.last_token_ns, sample.end_ns]
    assert None not in times
    assert times == sorted(times, key=lambda ns: ns or 0)
    assert list(sample.chunk_ns) == sorted(sample.chunk_ns)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_stream_split_anywhere_is_the_same_stream(size: int) -> None:
    whole = b"".join(stream(3))
    sample = one(saying(*(whole[at : at + size] for at in range(0, len(whole), size))))
    assert (sample.outcome, sample.output_tokens, len(sample.chunk_ns)) == (Category.OK, 3, 3)


def test_samples_come_in_the_plans_order_with_its_prompt_ids() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 20, concurrency=4))
    assert [sample.prompt_id for sample in run.samples] == [f"p{number:05d}" for number in range(20)]


def test_request_ids_reach_the_server_and_are_all_different() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 6, concurrency=2))
    sent = {asked.headers["x-request-id"] for asked in server.asked}
    assert sent == {sample.id for sample in run.samples}
    assert len(sent) == 6


def test_bodies_go_out_byte_by_byte_as_planned() -> None:
    bodies = ['{"ü":1}'.encode(), b"{}"]
    requests = [PlannedRequest(prompt_id=str(number), body=body) for number, body in enumerate(bodies)]
    with Scripted(saying(*stream())) as server:
        run_load(plan(server.base_url, requests=requests))
    assert [asked.body for asked in server.asked] == bodies


def test_the_path_key_and_endpoint_are_as_asked() -> None:
    with Scripted(saying(*stream())) as server:
        run_load(plan(server.base_url, api_key="secret-key", endpoint="completions"))
    assert server.asked[0].line == "POST /v1/completions HTTP/1.1"
    assert server.asked[0].headers["authorization"] == "Bearer secret-key"


def test_one_connection_carries_a_whole_closed_loop() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 5))
    assert server.connections == 1
    assert [sample.connect_ns is not None for sample in run.samples] == [True, False, False, False, False]
    assert {sample.warnings for sample in run.samples} == {()}


def test_a_server_that_closes_after_each_answer_is_connected_to_again_and_it_shows() -> None:
    with Scripted(saying(*stream(head=CLOSING), close=True)) as server:
        run = run_load(plan(server.base_url, 4))
    assert run.failed == 0
    assert [sample.warnings for sample in run.samples] == [(), *[("reconnected",)] * 3]
    assert all(sample.connect_ns for sample in run.samples)


def test_a_server_that_closes_without_saying_so_is_connected_to_again() -> None:
    with Scripted(saying(*stream(), close=True)) as server:
        run = run_load(plan(server.base_url, 3, arrival=ArrivalSpec(kind="constant", rate_per_s=10)))
    assert [sample.outcome for sample in run.samples] == [Category.OK] * 3


def test_h96_connecting_is_not_in_the_first_token_time() -> None:
    with Scripted(saying(*stream(head=CLOSING), close=True)) as server:
        run = run_load(plan(server.base_url, 2))
    second = run.samples[1]
    assert second.sent_ns is not None
    assert second.connect_ns is not None
    assert second.sent_ns - second.scheduled_ns >= second.connect_ns


def test_h96_sent_is_never_before_the_load_wanted_it_however_long_connecting_took() -> None:
    """Sixteen connections are opened at once, each in more time than the first request then waits."""
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 16, concurrency=16))
    for sample in run.samples:
        assert sample.connect_ns is not None
        assert sample.sent_ns is not None
        assert sample.sent_ns >= sample.scheduled_ns


@pytest.mark.parametrize("status", [429, 500, 503])
def test_h62_nothing_is_ever_retried(status: int) -> None:
    answer = b"HTTP/1.1 %d X\r\nContent-Length: 2\r\nRetry-After: 0\r\n\r\n{}" % status
    with Scripted(saying(answer)) as server:
        run = run_load(plan(server.base_url, 3))
    assert len(server.asked) == 3
    assert [sample.status for sample in run.samples] == [status] * 3
    assert run.failed == 3


def test_a_connection_closed_instead_of_an_answer_is_not_retried_either() -> None:
    with Scripted(saying(close=True)) as server:
        run = run_load(plan(server.base_url, 3))
    assert len(server.asked) == 3
    assert {sample.outcome for sample in run.samples} == {Category.CONNECTION_RESET}


def test_a_refusal_leaves_the_connection_open() -> None:
    with Scripted(saying(UNAUTHORIZED)) as server:
        run = run_load(plan(server.base_url, 3, api_key="abcdef-key"))
    assert server.connections == 1
    assert {sample.outcome for sample in run.samples} == {Category.AUTH_WRONG_OR_MISSING_KEY}


FAILURES: dict[str, tuple[Play, Category]] = {
    "reset before the answer": (resetting(), Category.CONNECTION_RESET),
    "closed before the answer": (saying(close=True), Category.CONNECTION_RESET),
    "half a head, then closed": (saying(b"HTTP/1.1 200 O", close=True), Category.CONNECTION_RESET),
    "cut stream": (saying(HEAD, *tokens(1), close=True), Category.TRUNCATED_STREAM),
    "reset stream": (resetting(HEAD, *tokens(1)), Category.TRUNCATED_STREAM),
    "an error inside a 200": (
        saying(HEAD, *tokens(1), event({"error": {"message": "boom"}}), LAST),
        Category.IN_BAND_ERROR,
    ),
    "only [DONE]": (saying(HEAD, event(b"[DONE]"), LAST), Category.NO_TOKEN),
    "only [DONE], left open": (saying(HEAD, event(b"[DONE]")), Category.NO_TOKEN),
    "no finish_reason, left open": (saying(HEAD, *tokens(2), event(b"[DONE]")), Category.NO_FINISH_REASON),
    "no HTTP": (saying(b"SSH-2.0-OpenSSH_9.6\r\n", close=True), Category.MALFORMED_STREAM),
    "broken chunk sizes": (saying(HEAD, b"zz\r\n", close=True), Category.MALFORMED_STREAM),
    "a TLS alert": (saying(b"\x15\x03\x03\x00\x02\x02\x46", close=True), Category.SCHEME_MISMATCH),
}


@pytest.mark.parametrize(("play", "outcome"), FAILURES.values(), ids=FAILURES)
def test_every_failure_is_a_sample_with_its_category(play: Play, outcome: Category) -> None:
    sample = one(play)
    assert sample.outcome is outcome
    assert sample.detail


@pytest.mark.parametrize("play", [play for play, _ in FAILURES.values()], ids=FAILURES)
def test_a_failure_does_not_keep_the_next_requests_from_being_sent(play: Play) -> None:
    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 5, concurrency=2))
    assert run.sent == 5
    assert len(server.asked) == 5


def test_no_answer_in_time_is_a_timeout() -> None:
    with Scripted(lambda sock, asked: False) as server:
        server.play = lambda sock, asked: server.gate.wait()
        sample = run_load(plan(server.base_url, timeout_s=0.1)).samples[0]
    assert (sample.outcome, sample.detail) == (Category.TIMEOUT, "no answer within 0.1 s")


def test_a_stream_that_falls_silent_is_a_stalled_engine() -> None:
    def play(sock: socket.socket, asked: Asked) -> bool:
        for piece in [HEAD, *tokens(2)]:
            sock.sendall(piece)
        return server.gate.wait()

    with Scripted(play) as server:
        sample = run_load(plan(server.base_url, timeout_s=0.3)).samples[0]
    assert sample.outcome is Category.ENGINE_STALLED
    assert len(sample.chunk_ns) == 2


def test_nobody_waits_for_an_end_that_does_not_come_after_done() -> None:
    """The body stays open after [DONE]: a success that says so, long before the time limit."""
    with Scripted(saying(*stream(2)[:-1])) as server:
        run = run_load(plan(server.base_url, 2, timeout_s=600.0))
    first, second = run.samples
    assert (first.outcome, second.outcome) == (Category.OK, Category.OK)
    assert any("after [DONE] (left open)" in warning for warning in first.warnings)
    # The wait is in the next request's schedule, not in this one's end.
    assert first.end_ns is not None
    assert second.scheduled_ns - first.end_ns > DONE_GRACE_NS
    assert server.connections == 2


def test_a_done_in_pieces_is_found_all_the_same() -> None:
    *body, done, _ = stream(2)
    with Scripted(saying(*body, *(done[at : at + 1] for at in range(len(done))))) as server:
        sample = run_load(plan(server.base_url, timeout_s=600.0)).samples[0]
    assert sample.ok


def test_a_done_whose_last_byte_comes_late_is_found_all_the_same() -> None:
    """So short a piece may be the body's end: it is taken apart at once, and must be read all the same."""
    *body, done, _ = stream(2)

    def play(sock: socket.socket, asked: Asked) -> bool:
        saying(*body, done[:-1])(sock, asked)
        time.sleep(0.05)
        sock.sendall(done[-1:])
        return server.gate.wait()

    with Scripted(play) as server:
        sample = run_load(plan(server.base_url, timeout_s=30.0)).samples[0]
    assert sample.ok
    assert any("after [DONE] (left open)" in warning for warning in sample.warnings)


def test_a_timeout_frees_its_slot() -> None:
    def play(sock: socket.socket, asked: Asked) -> bool:
        if json.loads(asked.body)["n"] == 0:
            return server.gate.wait()
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 3, timeout_s=0.2))
    assert [sample.outcome for sample in run.samples] == [Category.TIMEOUT, Category.OK, Category.OK]


def test_a_closed_loop_has_as_many_in_flight_as_asked() -> None:
    barrier = threading.Barrier(8)

    def play(sock: socket.socket, asked: Asked) -> bool:
        barrier.wait(10)
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 24, concurrency=8))
    assert (run.failed, run.peak_in_flight, run.asked_concurrency) == (0, 8, 8)


def test_h61_more_than_100_requests_are_in_flight_at_once() -> None:
    barrier = threading.Barrier(150)

    def play(sock: socket.socket, asked: Asked) -> bool:
        barrier.wait(20)
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 150, concurrency=150, timeout_s=30))
    assert (run.failed, run.peak_in_flight) == (0, 150)


def test_an_open_loop_does_not_wait_for_answers() -> None:
    arrived = threading.Semaphore(0)

    def play(sock: socket.socket, asked: Asked) -> bool:
        arrived.release()
        if asked.body == b'{"n":0}':
            for _ in range(6):
                arrived.acquire(timeout=10)
        return saying(*stream())(sock, asked)

    arrival = ArrivalSpec(kind="constant", rate_per_s=100)
    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 6, arrival=arrival))
    assert run.failed == 0
    assert [sample.scheduled_ns - run.samples[0].scheduled_ns for sample in run.samples] == [
        number * 10_000_000 for number in range(6)
    ]
    assert run.asked_rate_per_s == pytest.approx(100)


def test_lag_is_how_late_requests_were_sent() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 9, arrival=ArrivalSpec(kind="constant", rate_per_s=200)))
    lags = sorted((sample.sent_ns or 0) - sample.scheduled_ns for sample in run.samples)
    assert (run.median_lag_ns, run.max_lag_ns) == (lags[4], lags[-1])
    assert lags[0] >= 0


def test_a_time_bound_stops_sending_and_waits_for_what_was_sent() -> None:
    def play(sock: socket.socket, asked: Asked) -> bool:
        threading.Event().wait(0.02)
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 10_000, duration_s=0.2))
    assert 1 <= run.sent < 100
    assert run.failed == 0
    assert run.sent == len(server.asked)


def test_turns_of_a_conversation_are_sent_one_after_the_other() -> None:
    names = [("a", None), ("b", None), ("a2", "a"), ("b2", "b"), ("a3", "a2")]
    requests = [PlannedRequest(prompt_id=name, body=name.encode(), after=after) for name, after in names]
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, requests=requests, concurrency=5))
    by_name = {sample.prompt_id: sample for sample in run.samples}
    for name, after in names:
        if after is not None:
            assert (by_name[name].sent_ns or 0) >= (by_name[after].end_ns or 0)


def test_a_body_larger_than_any_buffer_arrives_whole() -> None:
    body = b"x" * 20_000_000
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, requests=[PlannedRequest(prompt_id="big", body=body)]))
    assert run.failed == 0
    assert server.asked[0].body == body


def test_an_answer_given_before_the_body_was_read_is_kept() -> None:
    def play(sock: socket.socket, asked: Asked) -> bool:
        return False

    with Scripted(play) as server:
        listener = socket.create_server(("127.0.0.1", 0))

        def refuse() -> None:
            sock, _ = listener.accept()
            sock.recv(1000)
            sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
            server.gate.wait(10)
            sock.close()

        thread = threading.Thread(target=refuse)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        run = run_load(plan(url, requests=[PlannedRequest(prompt_id="big", body=b"x" * 20_000_000)]))
        server.gate.set()
        thread.join()
        listener.close()
    assert run.samples[0].status == 413


def test_nobody_listening_is_a_server_that_is_down_for_every_request() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    run = run_load(plan(f"http://127.0.0.1:{port}/v1", 50, concurrency=4))
    assert [sample.outcome for sample in run.samples] == [Category.SERVER_DOWN] * 50
    assert {sample.sent_ns for sample in run.samples} == {None}


def test_a_server_that_dies_in_the_middle_fails_the_rest_and_no_more() -> None:
    def play(sock: socket.socket, asked: Asked) -> bool:
        if len(server.asked) == 3:
            server._listener.shutdown(socket.SHUT_RDWR)
            server._listener.close()
            return False
        return saying(*stream())(sock, asked)

    with Scripted(play) as server:
        run = run_load(plan(server.base_url, 6))
    assert [sample.outcome for sample in run.samples] == [
        Category.OK,
        Category.OK,
        Category.CONNECTION_RESET,
        Category.SERVER_DOWN,
        Category.SERVER_DOWN,
        Category.SERVER_DOWN,
    ]


def test_progress_ends_with_all_requests() -> None:
    seen: list[tuple[int, int]] = []
    with Scripted(saying(*stream())) as server:
        run_load(plan(server.base_url, 5), on_progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    assert seen == sorted(seen)


def test_ctrl_c_closes_every_socket_and_goes_on_as_keyboard_interrupt() -> None:
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    open_before = len(list(Path("/proc/self/fd").iterdir()))
    with Scripted(lambda sock, asked: False) as server:
        server.play = lambda sock, asked: server.gate.wait()
        with pytest.raises(KeyboardInterrupt):
            run_load(plan(server.base_url, 8, concurrency=4), on_progress=interrupt)
        assert gc.isenabled()
    assert len(list(Path("/proc/self/fd").iterdir())) <= open_before


def test_a_run_says_which_clock_it_used() -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url))
    assert run.clock == "kernel receive timestamps"


def test_a_late_answer_on_a_used_connection_is_not_taken_for_the_next_request() -> None:
    junk = event(delta({"content": "late"}))
    with Scripted(saying(*stream(), junk)) as server:
        run = run_load(plan(server.base_url, 3, arrival=ArrivalSpec(kind="constant", rate_per_s=20)))
    assert [sample.output_tokens for sample in run.samples] == [2, 2, 2]


def test_a_stream_in_one_piece_has_one_time_and_a_warning() -> None:
    sample = one(saying(b"".join(stream(20))))
    assert sample.output_tokens == 20
    assert any("STREAM_BUFFERED" in warning for warning in sample.warnings)


def test_the_whole_tail_in_one_write_still_ends_the_stream() -> None:
    sample = one(saying(HEAD, *tokens(2), b"".join(tail(2))))
    assert sample.outcome is Category.OK


def test_bytes_after_the_end_in_one_read_cost_the_connection_and_nothing_else() -> None:
    junk = event(delta({"content": "late"}))
    with Scripted(saying(*stream()[:-1], LAST + junk)) as server:
        run = run_load(plan(server.base_url, 3, timeout_s=2))
    assert [(sample.outcome, sample.output_tokens) for sample in run.samples] == [(Category.OK, 2)] * 3
    assert server.connections == 3
    assert not any("never came" in warning for sample in run.samples for warning in sample.warnings)


@pytest.mark.parametrize(("planned", "own"), [(3, None), (None, 3), (2, 3)])
def test_a_pinned_length_that_was_not_kept_is_a_mismatch(planned: int | None, own: int | None) -> None:
    request = PlannedRequest(prompt_id="a", body=b"{}", output_tokens=own)
    sample = one(saying(*stream(2)), pinned=planned, requests=[request])
    assert sample.outcome is Category.LENGTH_MISMATCH
