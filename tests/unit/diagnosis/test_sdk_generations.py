# SPDX-License-Identifier: Apache-2.0
"""Errors as the openai SDK 1.x, 2.x and 3.x raise them: the same category, whatever their message says.

1.x and 2.x stand on httpx and put the body into the message; 3.x stands on httpx2 and shortens it.
"""

import errno
import socket
import ssl
from dataclasses import dataclass, field

import pytest

from tests.unit.diagnosis.test_error_bodies import CASES
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

URL = "http://gpu-box:8000/v1/chat/completions"
# What the outermost error says: 2.x, 3.x, and what no version says.
MESSAGES = {
    "long": "Error code: {status} - {body}",
    "short": "Error code: {status}",
    "none": "",
    "misleading": "Connection error. Unauthorized. The model `x` does not exist. maximum context length is 1",
}
HTTP_LIBRARIES = {"1.x and 2.x": "httpx", "3.x": "httpx2"}


@dataclass(frozen=True, slots=True)
class Response:
    """As much of an SDK's response as every generation has."""

    status_code: int
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)


def sdk_class(name: str, *bases: str, module: str = "openai") -> type[Exception]:
    """Return a class of this name, with the names of its base classes, as if it came from ``module``."""
    base: type[Exception] = Exception
    for parent in reversed(bases):
        base = type(parent, (base,), {"__module__": module})
    return type(name, (base,), {"__module__": module})


def raised(outer: Exception, *causes: BaseException) -> Exception:
    """Chain ``outer`` from its causes, outermost first."""
    current: BaseException = outer
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return outer


def classify(error: Exception, url: str = URL, after_chunks: int = 0) -> Diagnosis:
    return classify_exception(
        error, url=url, env={}, key="tstKEY", connect=lambda host, port: True, after_chunks=after_chunks
    )


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
@pytest.mark.parametrize("case", [name for name, row in CASES.items() if row[0] >= 400])
def test_status_error_is_classified_by_its_answer(case: str, message: str) -> None:
    status, body, url, headers, category = CASES[case]
    error = sdk_class("BadRequestError", "APIStatusError", "APIError", "OpenAIError")(
        message.format(status=status, body=body)
    )
    error.response = Response(status, body.encode(), headers)  # type: ignore[attr-defined]
    assert classify(error, url).category is category


REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
WRONG_VERSION = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")
WRONG_VERSION.reason = "WRONG_VERSION_NUMBER"
# Classes of the HTTP library below the SDK, and what the operating system said.
WAYS: dict[str, tuple[str, BaseException | None, str, Category]] = {
    "closed port": ("ConnectError", REFUSED, URL, Category.SERVER_DOWN),
    "no such name": ("ConnectError", socket.gaierror(-2, "unknown"), URL, Category.DNS_FAILED),
    "untrusted": (
        "ConnectError",
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        URL.replace("http", "https"),
        Category.TLS_TRUST,
    ),
    "plain server": ("ConnectError", WRONG_VERSION, URL.replace("http", "https"), Category.SCHEME_MISMATCH),
    "no answer in time": ("ReadTimeout", TimeoutError(), URL, Category.TIMEOUT),
    "closed before an answer": ("RemoteProtocolError", None, URL, Category.CONNECTION_RESET),
}


@pytest.mark.parametrize("message", ["Connection error.", "", "Request timed out."])
@pytest.mark.parametrize("library", HTTP_LIBRARIES.values(), ids=HTTP_LIBRARIES.keys())
@pytest.mark.parametrize(("name", "system", "url", "category"), WAYS.values(), ids=WAYS.keys())
def test_connection_error_is_classified_by_its_causes(
    name: str, system: BaseException | None, url: str, category: Category, library: str, message: str
) -> None:
    above = "APITimeoutError" if "Timeout" in name else "APIConnectionError"
    outer = sdk_class(above, "APIConnectionError", "APIError", "OpenAIError")(message)
    core = library.replace("httpx", "httpcore")
    causes: list[BaseException] = [sdk_class(name, module=library)(""), sdk_class(name, module=core)("")]
    assert classify(raised(outer, *causes, *([system] if system else [])), url).category is category


@pytest.mark.parametrize("wrapped", [False, True], ids=["1.x and 2.x", "3.x"])
def test_cut_stream_is_the_same_bare_or_wrapped(wrapped: bool) -> None:
    library = "httpx2" if wrapped else "httpx"
    cut = sdk_class("RemoteProtocolError", "ProtocolError", "TransportError", module=library)("")
    error = raised(sdk_class("APIConnectionError", "APIError")("Connection error."), cut) if wrapped else cut
    assert classify(error, after_chunks=3).category is Category.TRUNCATED_STREAM
