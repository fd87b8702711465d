# SPDX-License-Identifier: Apache-2.0
"""Exceptions of SDKs that are not installed here, rebuilt by class name: openai 1.x, httpx, aiohttp."""

import json
import socket
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

URL = "http://127.0.0.1:8000/v1/chat/completions"


def named(name: str, *bases: type[BaseException]) -> type[BaseException]:
    return type(name, bases or (Exception,), {})


HTTPX_ERROR = named("TransportError")
CONNECT_ERROR = named("ConnectError", HTTPX_ERROR)
REMOTE_PROTOCOL = named("RemoteProtocolError", HTTPX_ERROR)
API_CONNECTION = named("APIConnectionError", named("APIError", named("OpenAIError")))


def chained(*errors: BaseException) -> BaseException:
    """Link errors, outermost first, as ``raise … from …`` does."""
    for outer, inner in pairwise(errors):
        outer.__cause__ = inner
    return errors[0]


def diagnose(error: BaseException, url: str = URL, *, reachable: bool = False, **known: Any) -> Diagnosis:
    known.setdefault("env", {})
    known.setdefault("key", "tstKEY-4711")
    return classify_exception(error, url=url, connect=lambda host, port: reachable, **known)


REFUSED = ConnectionRefusedError(111, "Connection refused")

CHAINS: dict[str, tuple[BaseException, Category]] = {
    "openai 1.x, httpx, refused": (
        chained(
            API_CONNECTION("Connection error."), CONNECT_ERROR("[Errno 111] Connection refused"), REFUSED
        ),
        Category.SERVER_DOWN,
    ),
    "anyio's group of attempts": (
        chained(
            CONNECT_ERROR("x"),
            OSError("All connection attempts failed"),
            ExceptionGroup("several", [REFUSED]),
        ),
        Category.SERVER_DOWN,
    ),
    "no route to the host": (
        chained(CONNECT_ERROR("x"), OSError(113, "No route to host")),
        Category.SERVER_DOWN,
    ),
    "aiohttp, refused": (named("ClientConnectorError", OSError)(111, "Cannot connect"), Category.SERVER_DOWN),
    "name does not resolve": (
        chained(CONNECT_ERROR("x"), socket.gaierror(-2, "unknown")),
        Category.DNS_FAILED,
    ),
    "httpx read timeout": (named("ReadTimeout", named("TimeoutException"))(""), Category.TIMEOUT),
    "asyncio timeout": (TimeoutError(), Category.TIMEOUT),
    "pool timeout": (named("PoolTimeout", named("TimeoutException"))(""), Category.TIMEOUT),
    "reset": (
        chained(API_CONNECTION("Connection error."), ConnectionResetError(104, "reset")),
        Category.CONNECTION_RESET,
    ),
    "aiohttp, server hung up": (
        named("ServerDisconnectedError", OSError)("Server disconnected"),
        Category.CONNECTION_RESET,
    ),
    "httpx, cut body": (
        REMOTE_PROTOCOL(
            "peer closed connection without sending complete message body (incomplete chunked read)"
        ),
        Category.TRUNCATED_STREAM,
    ),
    "aiohttp, cut body": (
        named("ClientPayloadError")("Response payload is not completed"),
        Category.TRUNCATED_STREAM,
    ),
    "http.client, cut body": (named("IncompleteRead")("0 bytes read"), Category.TRUNCATED_STREAM),
    "http to a TLS port": (
        REMOTE_PROTOCOL("illegal status line: bytearray(b'\\x15\\x03\\x03\\x00\\x02\\x022')"),
        Category.SCHEME_MISMATCH,
    ),
    "neither HTTP nor TLS": (
        REMOTE_PROTOCOL("illegal status line: bytearray(b'\\x00zmq')"),
        Category.UNKNOWN,
    ),
    "proxy refused": (named("ProxyError", HTTPX_ERROR)("403 Forbidden"), Category.LOCAL_PROXY_FAILED),
    "retry-only event": (json.JSONDecodeError("Expecting value", "", 0), Category.MALFORMED_STREAM),
    "null event": (AttributeError("'NoneType' object has no attribute 'choices'"), Category.NULL_EVENT),
    "flat error event": (TypeError("'NoneType' object is not subscriptable"), Category.IN_BAND_ERROR),
    "our own cancellation": (named("CancelledError", BaseException)(), Category.CANCELLED),
    "something else": (RuntimeError("surprise"), Category.UNKNOWN),
}


@pytest.mark.parametrize(("error", "category"), CHAINS.values(), ids=CHAINS.keys())
def test_chain_gets_its_category(error: BaseException, category: Category) -> None:
    assert diagnose(error).category is category


def test_h86_bracketed_entry_of_no_proxy_is_named() -> None:
    error = chained(named("InvalidURL")("Invalid port: ':1]'"), ValueError("invalid literal for int()"))
    found = diagnose(error, env={"NO_PROXY": "localhost,[::1]"})
    assert found.category is Category.PROXY_ENV_INVALID
    assert found.figures == {"variable": "NO_PROXY", "entry": "[::1]"}


def test_h91_classes_of_httpx2_are_known_by_the_same_names() -> None:
    error = named("ConnectError", named("TransportError", named("HTTPError")))
    error.__module__ = "httpx2"
    assert diagnose(chained(error("x"), REFUSED)).category is Category.SERVER_DOWN


def test_refused_through_a_proxy_asks_the_target_itself() -> None:
    env = {"http_proxy": "http://127.0.0.1:1"}
    assert diagnose(REFUSED, env=env, reachable=True).category is Category.LOCAL_PROXY_FAILED
    assert diagnose(REFUSED, env=env, reachable=False).category is Category.SERVER_DOWN


def test_https_proxy_alone_is_not_blamed_for_an_http_url() -> None:
    assert (
        diagnose(REFUSED, env={"HTTPS_PROXY": "http://127.0.0.1:1"}, reachable=True).category
        is Category.SERVER_DOWN
    )


def test_unresolvable_proxy_is_not_a_wrong_base_url() -> None:
    found = diagnose(socket.gaierror(-2, "unknown"), env={"HTTP_PROXY": "http://no-such-proxy:3128"})
    assert found.category is Category.LOCAL_PROXY_FAILED


def test_reset_after_the_first_chunk_is_a_cut_stream() -> None:
    found = diagnose(ConnectionResetError(104, "reset"), after_chunks=17)
    assert found.category is Category.TRUNCATED_STREAM
    assert found.figures == {"chunks": 17}


def test_status_error_is_judged_by_its_response_not_by_its_text() -> None:
    response = SimpleNamespace(status_code=404, headers={"content-type": "application/json"},
                               content=b'{"detail":"Not Found"}')  # fmt: skip
    error = named("NotFoundError")("Error code: 404")
    error.response = response  # type: ignore[attr-defined]
    found = diagnose(error, url="http://127.0.0.1:8000/chat/completions")
    assert found.category is Category.BASE_URL_MISSING_V1


def test_aiohttps_status_error_is_its_own_response() -> None:
    error = named("ClientResponseError")("401")
    error.status, error.headers = 401, {}  # type: ignore[attr-defined]
    assert diagnose(error).category is Category.AUTH_WRONG_OR_MISSING_KEY


def test_h17_error_object_in_a_stream_has_a_body_and_no_status() -> None:
    error = named("APIError")("boom")
    error.body = {"message": "boom", "type": "InternalServerError", "code": 500}  # type: ignore[attr-defined]
    found = diagnose(error)
    assert found.category is Category.IN_BAND_ERROR
    assert "boom" in found.cause


def test_key_in_a_causes_text_is_hidden() -> None:
    assert "4711" not in diagnose(RuntimeError("sent tstKEY-4711 in vain")).paragraph()


def test_causes_that_point_at_each_other_end() -> None:
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert diagnose(first).category is Category.UNKNOWN
