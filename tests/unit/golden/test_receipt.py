# SPDX-License-Identifier: Apache-2.0
"""When a request counts as received: when the kernel took it in, not when the engine came to read it."""

import select
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from vllm_perf.cli import main
from vllm_perf.clock import KernelClock
from vllm_perf.golden import GoldenServer, ServerOptions
from vllm_perf.golden.reactor import Reactor
from vllm_perf.golden.wire import Connection, Request

BUSY_S = 0.1
# The kernel's clock is put on ours to some microseconds; this is far more than that and far less than BUSY_S.
SLACK_NS = 2_000_000
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 4\r\n\r\n"


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Offer both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with client, server:
        yield client, server


def _receive(pair: tuple[socket.socket, socket.socket], stamps: bool) -> tuple[Request, int, int]:
    """Send a request in two parts to an engine that is busy; return it, and when its last part was sent."""
    client, server = pair
    clock, reactor, got = KernelClock(wanted=stamps), Reactor(), []
    try:
        connection = Connection(reactor, server, lambda _, request: got.append(request), None, clock)
        client.sendall(HEAD)
        connection._ready(select.EPOLLIN)
        before_ns = time.perf_counter_ns()
        client.sendall(b"body")
        after_ns = time.perf_counter_ns()
        threading.Event().wait(BUSY_S)
        connection._ready(select.EPOLLIN)
        connection.close()
    finally:
        reactor.close()
        clock.close()
    return got[0], before_ns, after_ns


def test_a_request_is_received_when_the_kernel_took_in_its_last_byte(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    request, before_ns, after_ns = _receive(pair, stamps=True)
    assert request.body == b"body"
    assert before_ns - SLACK_NS <= request.received_ns <= after_ns + SLACK_NS


def test_without_stamps_it_is_received_when_it_was_read(pair: tuple[socket.socket, socket.socket]) -> None:
    request, before_ns, _ = _receive(pair, stamps=False)
    assert request.received_ns - before_ns >= BUSY_S * 1e9


@pytest.mark.parametrize(
    ("wanted", "clock"), [(True, "kernel receive timestamps"), (False, "perf_counter_ns")]
)
def test_the_server_says_which_clock_it_has(wanted: bool, clock: str) -> None:
    with GoldenServer(options=ServerOptions(kernel_stamps=wanted)) as server:
        assert server.clock == clock


def test_the_help_says_in_words_what_each_option_takes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["golden", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "<class" not in text
    assert "--prefix-caching VALUE true or false (default true)" in text
    assert "--stop-after VALUE whole number or none (default none)" in text
    assert "--usage VALUE chunk, finish or none (default chunk)" in text
