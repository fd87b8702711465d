# SPDX-License-Identifier: Apache-2.0
"""The ways to a server, by case: TLS, IPv6, proxies of the environment and proxies asked for, keys."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.unit.load.scripted import Asked, Scripted, plan, read_requests, saying, stream
from vllm_perf.load.generator import run_load
from vllm_perf.load.plan import LoadPlan
from vllm_perf.load.sample import RequestSample
from vllm_perf.spec.category import Category

KEY = "sk-very-secret-key"


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test's own."""

    ca_file: str
    context: ssl.SSLContext


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Offer an authority and a server context for loopback."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "127.0.0.1", "::1").configure_cert(context)
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return Authority(ca_file=str(path), context=context)


def first(load: LoadPlan) -> RequestSample:
    """Run a load and return its first sample."""
    return run_load(load).samples[0]


DEAD = "http://127.0.0.1:1"
PROXY_ENVIRONMENTS = {
    "h84 every variable": dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"), DEAD),
    "h85 dead proxy, NO_PROXY names another spelling": {"http_proxy": DEAD, "NO_PROXY": "localhost"},
    "h86 NO_PROXY with an IPv6 literal": {"http_proxy": DEAD, "NO_PROXY": "localhost,[::1]"},
    "h87 socks": {"ALL_PROXY": "socks5://127.0.0.1:1", "all_proxy": "socks://127.0.0.1:1"},
}


@pytest.mark.parametrize("variables", PROXY_ENVIRONMENTS.values(), ids=PROXY_ENVIRONMENTS)
def test_proxies_of_the_environment_do_not_touch_a_load(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with Scripted(saying(*stream())) as server:
        assert first(plan(server.base_url)).outcome is Category.OK
    assert server.asked[0].line == "POST /v1/chat/completions HTTP/1.1"


def test_h88_https_to_a_plain_server_is_a_scheme_mismatch() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_refuse_greetings, args=(listener,))
        thread.start()
        sample = first(plan(f"https://127.0.0.1:{listener.getsockname()[1]}/v1"))
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    assert sample.outcome is Category.SCHEME_MISMATCH
    assert "http://" in str(sample.remedy)


def _refuse_greetings(listener: socket.socket) -> None:
    """Answer every connection as uvicorn answers bytes that are no HTTP."""
    with contextlib.suppress(OSError):
        while True:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\nInvalid HTTP request received.")


def test_h88_a_plain_server_that_stays_silent_is_a_scheme_mismatch_too() -> None:
    with Scripted(saying(*stream())) as server:
        sample = first(plan(server.base_url.replace("http:", "https:"), timeout_s=0.2))
    assert sample.outcome is Category.SCHEME_MISMATCH


def test_h88_http_to_a_tls_server_is_a_failure_and_nothing_hangs(authority: Authority) -> None:
    with Scripted(saying(*stream()), tls=authority.context) as server:
        sample = first(plan(server.base_url.replace("https:", "http:"), timeout_s=3))
    assert sample.outcome in (Category.SCHEME_MISMATCH, Category.CONNECTION_RESET)


@pytest.mark.parametrize("key", [f"{KEY}\n", f" {KEY}", "sk very", "sk-\u201cquoted\u201d", "sk\x00"])
def test_h90_a_malformed_key_is_never_sent_and_never_shown(key: str) -> None:
    with Scripted(saying(*stream())) as server:
        run = run_load(plan(server.base_url, 3, api_key=key))
    assert [sample.outcome for sample in run.samples] == [Category.KEY_MALFORMED] * 3
    assert {sample.sent_ns for sample in run.samples} == {None}
    assert server.connections == 0
    assert not any(key.strip() in str(sample.detail) for sample in run.samples)


def test_h95_a_certificate_of_an_unknown_authority_is_not_trusted(authority: Authority) -> None:
    with Scripted(saying(*stream()), tls=authority.context) as server:
        sample = first(plan(server.base_url))
    assert sample.outcome is Category.TLS_TRUST
    assert sample.sent_ns is None


def test_h95_a_ca_file_that_is_not_there_is_a_matter_of_trust_too() -> None:
    sample = first(plan("https://127.0.0.1:9/v1", ca_file="/nowhere/ca.pem"))
    assert sample.outcome is Category.TLS_TRUST


def test_a_certificate_of_the_given_authority_is_trusted(authority: Authority) -> None:
    with Scripted(saying(*stream(3)), tls=authority.context) as server:
        run = run_load(plan(server.base_url, 6, concurrency=2, ca_file=authority.ca_file))
    assert run.failed == 0
    assert {sample.output_tokens for sample in run.samples} == {3}
    assert server.connections == 2


def test_tls_has_kernel_stamps_as_well(authority: Authority) -> None:
    with Scripted(saying(*stream()), tls=authority.context) as server:
        run = run_load(plan(server.base_url, ca_file=authority.ca_file))
    assert run.clock == "kernel receive timestamps"
    times = [run.samples[0].sent_ns, *run.samples[0].chunk_ns, run.samples[0].end_ns]
    assert times == sorted(time or 0 for time in times)


def test_h96_a_slow_handshake_is_not_in_the_first_token_time(authority: Authority) -> None:
    hold = threading.Event()

    class Slow(ssl.SSLContext):
        """Wait before the handshake."""

        def wrap_socket(self, sock: socket.socket, **options: object) -> ssl.SSLSocket:  # type: ignore[override]
            hold.wait(0.15)
            return authority.context.wrap_socket(sock, server_side=True)

    with Scripted(saying(*stream()), tls=Slow(ssl.PROTOCOL_TLS_SERVER)) as server:
        sample = first(plan(server.base_url, ca_file=authority.ca_file))
    assert sample.connect_ns is not None
    assert sample.connect_ns >= 140_000_000
    assert (sample.first_token_ns or 0) - (sample.sent_ns or 0) < 140_000_000


def test_ipv6_works() -> None:
    with Scripted(saying(*stream()), host="::1") as server:
        assert first(plan(server.base_url)).outcome is Category.OK
    assert server.asked[0].headers["host"] == f"[::1]:{server.port}"


def test_a_name_with_several_addresses_is_tried_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: str, port: int, *_: object, **__: object) -> list[Any]:
        kind = socket.SOCK_STREAM
        found = [(socket.AF_INET, kind, 6, "", ("127.0.0.1", port))]
        return [(socket.AF_INET6, kind, 6, "", ("::1", port, 0, 0)), *found] if host == "localhost" else found

    with Scripted(saying(*stream())) as server:
        monkeypatch.setattr("socket.getaddrinfo", both)
        run = run_load(plan(f"http://localhost:{server.port}/v1", 2))
    assert [sample.outcome for sample in run.samples] == [Category.OK] * 2


def test_a_name_that_does_not_resolve_is_a_dns_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("socket.getaddrinfo", unknown)
    run = run_load(plan("http://no-such-host.invalid/v1", 2))
    assert [sample.outcome for sample in run.samples] == [Category.DNS_FAILED] * 2


def test_a_port_that_never_completes_a_connection_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A listener whose queue is full drops further SYNs.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        filler = [socket.socket() for _ in range(3)]
        for sock in filler:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        run = run_load(plan(f"http://127.0.0.1:{port}/v1", 40, concurrency=2, timeout_s=0.3))
        for sock in filler:
            sock.close()
    assert run.sent == 40
    assert {sample.outcome for sample in run.samples} <= {Category.TIMEOUT, Category.CONNECTION_RESET}
    assert run.failed == 40


@dataclass
class Proxy:
    """An HTTP proxy that forwards, tunnels, or refuses with ``refuse``."""

    refuse: int | None = None
    asked: list[Asked] = field(default_factory=list)

    def play(self, sock: socket.socket, asked: Asked) -> bool:
        """Answer one request to the proxy."""
        self.asked.append(asked)
        if self.refuse is not None:
            sock.sendall(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self.refuse)
            return False
        if asked.line.startswith("CONNECT "):
            host, _, port = asked.line.split(" ")[1].rpartition(":")
            with socket.create_connection((host.strip("[]"), int(port))) as onward:
                sock.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                _pump_both(sock, onward)
            return False
        return saying(*stream())(sock, asked)


def _pump_both(one: socket.socket, other: socket.socket) -> None:
    back = threading.Thread(target=_pump, args=(other, one))
    back.start()
    _pump(one, other)
    back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@pytest.fixture
def proxy() -> Iterator[tuple[Proxy, Scripted]]:
    """Offer a running proxy."""
    made = Proxy()
    with Scripted(made.play) as server:
        yield made, server


def proxy_url(server: Scripted, user: str = "") -> str:
    """Return the proxy's URL."""
    return f"http://{user}127.0.0.1:{server.port}"


def test_a_proxy_asked_for_gets_the_whole_url(proxy: tuple[Proxy, Scripted]) -> None:
    made, server = proxy
    sample = first(plan("http://model.invalid:8000/v1", proxy=proxy_url(server, "me:p%40ss@")))
    assert sample.outcome is Category.OK
    assert made.asked[0].line == "POST http://model.invalid:8000/v1/chat/completions HTTP/1.1"
    assert made.asked[0].headers["host"] == "model.invalid:8000"
    # me:p@ss in base64.
    assert made.asked[0].headers["proxy-authorization"] == "Basic bWU6cEBzcw=="


def test_a_proxy_opens_a_tunnel_for_https_and_never_sees_the_key(
    proxy: tuple[Proxy, Scripted], authority: Authority
) -> None:
    made, server = proxy
    with Scripted(saying(*stream()), tls=authority.context) as behind:
        load = plan(behind.base_url, ca_file=authority.ca_file, proxy=proxy_url(server), api_key=KEY)
        sample = first(load)
    assert sample.outcome is Category.OK
    assert made.asked[0].line == f"CONNECT 127.0.0.1:{behind.port} HTTP/1.1"
    assert "authorization" not in made.asked[0].headers


def test_a_proxy_that_refuses_the_tunnel_is_named() -> None:
    with Scripted(Proxy(refuse=407).play) as server:
        sample = first(plan("https://model.invalid/v1", proxy=proxy_url(server)))
    assert sample.outcome is Category.LOCAL_PROXY_FAILED
    assert f"127.0.0.1:{server.port}" in str(sample.detail)
    assert "407" in str(sample.detail)


def test_a_dead_proxy_is_not_a_dead_server() -> None:
    sample = first(plan("http://model.invalid/v1", proxy=DEAD))
    assert sample.outcome is Category.LOCAL_PROXY_FAILED


def test_a_proxys_password_is_never_shown() -> None:
    sample = first(plan("http://model.invalid/v1", proxy="http://me:hunter2@127.0.0.1:1"))
    assert "hunter2" not in str(sample)


def test_requests_of_a_tunnel_are_read_one_by_one() -> None:
    """The proxy of these tests reads requests as the servers do: check the reader itself once."""
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n")
        asked = next(read_requests(right, 0))
    assert (asked.line, asked.body) == ("CONNECT a:1 HTTP/1.1", b"")


def test_the_target_never_shows_its_key(tmp_path: Path) -> None:
    assert KEY not in repr(plan("http://127.0.0.1:9/v1", api_key=KEY))
