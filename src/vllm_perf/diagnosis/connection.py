# SPDX-License-Identifier: Apache-2.0
"""Name why a request got no answer: by class and errno of its causes, whatever SDK raised them."""

from collections.abc import Callable, Mapping
from typing import Any

from vllm_perf.diagnosis import connection_rules as way
from vllm_perf.diagnosis import setup_rules as setup
from vllm_perf.diagnosis import stream_rules as stream
from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.causes import chain
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
    way.proxy_failed,
    way.refused,
    way.timed_out,
    stream.truncated,
    way.reset,
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
    status = getattr(response, "status_code", None) or getattr(error, "status_code", None)
    if not isinstance(status, int):
        return None
    try:
        body = bytes(getattr(response, "content", b""))
    except (RuntimeError, TypeError):
        # The body of a streamed answer that nobody read: httpx raises ResponseNotRead, a RuntimeError.
        body = b""
    return classify_response(
        status,
        dict(getattr(response, "headers", {})),
        body,
        url=url,
        key_sent=key is not None,
        hints=Hints(env=env, secrets=(key,) if key else ()),
    )
