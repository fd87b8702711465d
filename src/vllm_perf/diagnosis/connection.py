# SPDX-License-Identifier: Apache-2.0
"""Name why a request got no answer: by class and errno of its causes, whatever SDK raised them."""

from collections.abc import Callable, Mapping
from typing import Any

from vllm_perf.diagnosis import connection_rules as way
from vllm_perf.diagnosis import setup_rules as setup
from vllm_perf.diagnosis import stream_rules as stream
from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.causes import chain, names
from vllm_perf.diagnosis.failure import Failure
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.reach import tcp_opens
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_RULES: tuple[Callable[[Failure], Diagnosis | None], ...] = (
    stream.in_band_error,
    setup.malformed_key,
    setup.invalid_proxy,
    setup.invalid_url,
    stream.cancelled,
    way.tls_trust,
    way.scheme_mismatch,
    way.dns,
    way.refused,
    way.proxy_failed,
    way.timed_out,
    stream.truncated,
    way.reset,
    way.not_http,
    stream.malformed,
    stream.missing_choices,
)


def classify_exception(
    error: BaseException,
    *,
    url: str,
    env: Mapping[str, str],
    key: str | None,
    connect: Callable[[str, int], bool] = tcp_opens,
    after_chunks: int = 0,
) -> Diagnosis:
    """Classify what a client raised for a request to ``url``.

    ``env`` is the client's environment, for its proxies; ``key`` is only used to check and to hide it.
    ``connect(host, port)`` opens a bare TCP connection: it tells a closed port from a proxy in the way.
    """
    answered = _status_error(error, url=url, env=env, key=key)
    if answered is not None:
        return answered
    failure = Failure(
        errors=chain(error), url=url, env=env, key=key, connect=connect, after_chunks=after_chunks
    )
    for rule in _RULES:
        found = rule(failure)
        if found:
            return found
    return failure.diagnosis(
        Category.UNKNOWN,
        "the request failed in a way that is none of the known ones",
        "read the causes given here",
    )


def _status_error(
    error: BaseException, *, url: str, env: Mapping[str, str], key: str | None
) -> Diagnosis | None:
    response: Any = getattr(error, "response", None)
    if response is None and type(error).__name__ in ("ClientResponseError", "HTTPError"):
        # aiohttp's and urllib's: the error is the response. aiohttp calls a broken status line a 400 as well.
        response = None if "BadStatusLine" in names(chain(error)) else error
    status = _first(response, "status_code", "status", "code")
    if not isinstance(status, int):
        return None
    return classify_response(
        status,
        dict(getattr(response, "headers", None) or {}),
        _body(response),
        url=url,
        key_sent=key is not None,
        hints=Hints(env=env, secrets=(key,) if key else ()),
    )


def _first(holder: Any, *attributes: str) -> Any:
    return next(
        (getattr(holder, name) for name in attributes if getattr(holder, name, None) is not None), None
    )


def _body(response: Any) -> bytes:
    try:
        content = getattr(response, "content", None)
        return content if isinstance(content, bytes) else bytes(response.read())
    except (RuntimeError, TypeError, ValueError, AttributeError, OSError):
        # A streamed answer that nobody read (httpx raises a RuntimeError), or one whose body is gone.
        return b""
