# SPDX-License-Identifier: Apache-2.0
"""The network cases by id, raised by the real openai client against sockets of our own."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import openai
import pytest
import trustme

from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

KEY = "tstKEY-4711-marked"
PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE")
Client = Callable[[str, str], None]
Listen = Callable[[Callable[[socket.socket], None]], int]


def ask_sync(base_url: str, key: str) -> None:
    with openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=0.3) as client:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])


def ask_async(base_url: str, key: str) -> None:
    async def ask() -> None:
        async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=0.3) as client:
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])

    asyncio.run(ask())


def ask_stream(base_url: str, key: str) -> None:
    with openai.OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=0.3) as client:
        for _ in client.completions.create(model="m", prompt="x", stream=True):
            pass


class Server:
    """Hand each connection on a free loopback port to ``handle``; ``stop`` ends every thread and socket."""

    def __init__(self, handle: Callable[[socket.socket], None]) -> None:
        self._handle = handle
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]
        self.port: int = self._listening.getsockname()[1]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            self._handle(connection)

    def stop(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Start servers that are all stopped at the end."""
    with ExitStack() as stack:

        def start(handle: Callable[[socket.socket], None]) -> int:
            server = Server(handle)
            stack.callback(server.stop)
            return server.port

        yield start


def read_request(connection: socket.socket) -> None:
    """Read head and body: closing with bytes unread would send a reset instead of an end."""
    with connection.makefile("rb") as reader:
        head = list(iter(reader.readline, b"\r\n"))
        reader.read(
            next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length"))
        )


def stay_silent(connection: socket.socket) -> None:
    """Read and never answer, until the client gives up."""
    while connection.recv(65536):
        pass


def hang_up(connection: socket.socket) -> None:
    read_request(connection)


def answer_plainly(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")


def cut_the_stream(connection: socket.socket) -> None:
    read_request(connection)
    event = b'data: {"id":"c","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"A"}}]}\n\n'
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    connection.sendall(head + b"%x\r\n%s\r\n" % (len(event), event))


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def diagnose(client: Client, base_url: str, key: str = KEY, env: dict[str, str] | None = None) -> Diagnosis:
    with pytest.MonkeyPatch.context() as patch:
        for name in PROXY_NAMES:
            patch.delenv(name, raising=False)
            patch.delenv(name.lower(), raising=False)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        try:
            client(base_url, key)
        except Exception as error:  # noqa: BLE001 - whatever the client raises is what is to be explained
            return classify_exception(error, url=f"{base_url}/chat/completions", env=env or {}, key=key)
    pytest.fail("the client did not fail")


both = pytest.mark.parametrize("client", [ask_sync, ask_async])


@both
def test_h85_closed_port_is_a_server_that_is_down(client: Client) -> None:
    port = closed_port()
    found = diagnose(client, f"http://127.0.0.1:{port}/v1")
    assert found.category is Category.SERVER_DOWN
    assert f"127.0.0.1:{port}" in found.cause
    assert f"curl http://127.0.0.1:{port}/v1/models" in found.remedy


@both
def test_h85_dead_proxy_before_a_living_server_is_the_proxys_fault(client: Client, listen: Listen) -> None:
    env = {"HTTP_PROXY": f"http://127.0.0.1:{closed_port()}", "NO_PROXY": "localhost"}
    found = diagnose(client, f"http://127.0.0.1:{listen(stay_silent)}/v1", env=env)
    assert found.category is Category.LOCAL_PROXY_FAILED
    assert found.figures["variable"] == "HTTP_PROXY"
    assert "does not cover 127.0.0.1" in found.remedy


@both
def test_h85_dead_proxy_before_a_dead_server_leaves_the_server_down(client: Client) -> None:
    env = {"HTTP_PROXY": f"http://127.0.0.1:{closed_port()}"}
    assert diagnose(client, f"http://127.0.0.1:{closed_port()}/v1", env=env).category is Category.SERVER_DOWN


@both
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:7890", "socks://127.0.0.1:7890"])
def test_h87_socks_proxy_is_named(client: Client, proxy: str, listen: Listen) -> None:
    found = diagnose(client, f"http://127.0.0.1:{listen(stay_silent)}/v1", env={"ALL_PROXY": proxy})
    assert found.category is Category.PROXY_ENV_INVALID
    assert found.figures == {"variable": "ALL_PROXY", "entry": proxy}


@both
@pytest.mark.parametrize("handle", [answer_plainly, stay_silent])
def test_h88_https_to_a_plain_server_suggests_http(
    client: Client, handle: Callable[[socket.socket], None], listen: Listen
) -> None:
    port = listen(handle)
    found = diagnose(client, f"https://127.0.0.1:{port}/v1")
    assert found.category is Category.SCHEME_MISMATCH
    assert f"http://127.0.0.1:{port}/v1" in found.remedy


@both
@pytest.mark.parametrize("ending", ["\n", "\r\n", " ", "\t"])
def test_h90_newline_in_the_key_is_named_and_the_key_is_not(
    client: Client, ending: str, listen: Listen
) -> None:
    found = diagnose(client, f"http://127.0.0.1:{listen(answer_plainly)}/v1", key=KEY + ending)
    assert found.category is Category.KEY_MALFORMED
    assert "the key ends with" in found.cause
    assert "tstKEY" not in found.paragraph()


@both
@pytest.mark.parametrize("key", ["", "k“quoted”"])
def test_h90_other_malformed_keys(client: Client, key: str, listen: Listen) -> None:
    found = diagnose(client, f"http://127.0.0.1:{listen(answer_plainly)}/v1", key=key)
    assert found.category is Category.KEY_MALFORMED
    assert "“" not in found.paragraph()


@both
def test_h95_untrusted_certificate_is_no_dead_server(client: Client, listen: Listen) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    def greet(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    found = diagnose(client, f"https://127.0.0.1:{listen(greet)}/v1")
    assert found.category is Category.TLS_TRUST
    assert "SSL_CERT_FILE" in found.remedy


@both
def test_connection_closed_before_an_answer(client: Client, listen: Listen) -> None:
    found = diagnose(client, f"http://127.0.0.1:{listen(hang_up)}/v1")
    assert found.category is Category.CONNECTION_RESET


@both
def test_no_answer_in_time_is_a_timeout_and_not_cancelled(client: Client, listen: Listen) -> None:
    assert diagnose(client, f"http://127.0.0.1:{listen(stay_silent)}/v1").category is Category.TIMEOUT


def test_h22_stream_that_breaks_off_is_truncated(listen: Listen) -> None:
    assert (
        diagnose(ask_stream, f"http://127.0.0.1:{listen(cut_the_stream)}/v1").category
        is Category.TRUNCATED_STREAM
    )


@both
def test_base_url_without_a_scheme(client: Client) -> None:
    found = diagnose(client, "127.0.0.1:8000/v1")
    assert found.category is Category.BASE_URL_INVALID
    assert "http://127.0.0.1:8000/v1" in found.remedy
