# SPDX-License-Identifier: Apache-2.0
"""Name why a request was never sent or got no answer: the key, the way, the proxy asked for."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.keys import key_problem, key_remedy
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.address import parse_address
from vllm_perf.load.answer import Classify
from vllm_perf.load.framing import FramingError
from vllm_perf.load.plan import Target
from vllm_perf.spec.category import Category


class Failure(NamedTuple):
    """Why a request failed without an answer: its category, what was seen, what to do."""

    category: Category
    detail: str
    remedy: str | None = None


class ProxyError(OSError):
    """Say that a proxy did not open the tunnel asked of it."""


class ConnectTimeout(TimeoutError):
    """Say that a connection, its tunnel and TLS included, was not open in time."""


class TrustUnreadable(OSError):
    """Say that the certificate authority asked for cannot be read."""


class NoAnswer(ConnectionResetError):
    """Say that the server closed a connection instead of answering."""


def malformed_key(target: Target) -> Failure | None:
    """Return a failure for a key that no header may hold; its text shows no part of the key."""
    problem = key_problem(target.api_key)
    if problem is None:
        return None
    return Failure(Category.KEY_MALFORMED, f"nothing was sent: {problem}", key_remedy(target.api_key))


def way_failure(error: BaseException, target: Target, url: str) -> Failure:
    """Name what broke on the way to ``url``, before any byte of an answer."""
    secrets = tuple(secret for secret in (target.api_key,) if secret)
    if isinstance(error, TrustUnreadable):
        return Failure(Category.TLS_TRUST, f"nothing was sent: {error}", "correct the path in ca_file")
    if target.proxy and (isinstance(error, ProxyError) or not isinstance(error, ConnectTimeout | NoAnswer)):
        hop = parse_address(target.proxy, what="proxy").netloc
        if not _is_tls_failure(error):
            return Failure(Category.LOCAL_PROXY_FAILED, redact(f"the proxy {hop} failed: {error}", secrets))
    found = classify_exception(error, url=url, env={}, key=target.api_key)
    if isinstance(error, FramingError) and found.category is Category.UNKNOWN:
        return Failure(Category.MALFORMED_STREAM, redact(f"the answer is no HTTP: {error}", secrets))
    return Failure(found.category, f"{found.cause}: {found.evidence}", found.remedy)


def answer_classifier(target: Target, url: str) -> Classify:
    """Return what names the cause of an answer that is not 2xx."""
    return partial(_classify, target, url)


def _classify(target: Target, url: str, status: int, headers: Mapping[str, str], body: bytes) -> Diagnosis:
    hints = Hints(secrets=(target.api_key,) if target.api_key else ())
    return classify_response(
        status, headers, body, url=url, key_sent=bool(target.api_key), model=target.model, hints=hints
    )


def _is_tls_failure(error: BaseException) -> bool:
    return type(error).__module__ == "ssl" or type(error).__name__.startswith("SSL")
