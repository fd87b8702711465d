# SPDX-License-Identifier: Apache-2.0
"""Rules for failures before anything is sent: the key's form, the proxy variables, the URL."""

import re

from vllm_perf.diagnosis.base_url import check_base_url, suggest
from vllm_perf.diagnosis.failure import Failure
from vllm_perf.diagnosis.keys import key_problem, key_remedy
from vllm_perf.diagnosis.proxies import ProxyProblem, find_problems
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_HEADER_TEXT = (
    "illegal header value",
    "invalid header value",
    "in headers",
    "ordinal not in range",
    "header",
)


def malformed_key(failure: Failure) -> Diagnosis | None:
    """The key cannot travel in a header; the library's own text would show it, so only its form is named."""
    problem = key_problem(failure.key)
    refused = failure.is_a("LocalProtocolError", "UnicodeEncodeError", "InvalidHeader", "ValueError")
    # The openai SDK refuses an empty key before it sends anything, with the root class of its errors.
    unsent = type(failure.errors[0]).__name__ == "OpenAIError"
    if problem is None or not (unsent or (refused and failure.says(*_HEADER_TEXT))):
        return None
    return failure.diagnosis(
        Category.KEY_MALFORMED,
        f"{problem}, so the client refused to send it",
        key_remedy(failure.key),
    )


def invalid_proxy(failure: Failure) -> Diagnosis | None:
    """A proxy variable that the client cannot read or use; raised when it is built, not when it is used."""
    problem = _blamed(failure)
    if problem is None:
        return None
    return failure.diagnosis(
        Category.PROXY_ENV_INVALID,
        f"clients cannot use {problem.variable}: {problem.entry} ({problem.why}); no server was asked",
        f"correct or unset {problem.variable}; for a server on this machine no proxy is wanted at all",
        {"variable": problem.variable, "entry": problem.entry},
    )


def _blamed(failure: Failure) -> ProxyProblem | None:
    problems = find_problems(failure.env)
    if failure.is_a("ImportError") and failure.says("socks"):
        return _first(problems, "socks") or ProxyProblem(
            variable="ALL_PROXY", entry="a SOCKS proxy", why="an extra package is missing"
        )
    if failure.is_a("ValueError") and failure.says(
        "unknown scheme for proxy", "proxy url must", "proxy scheme"
    ):
        return _first(problems, "://") or ProxyProblem(
            variable="ALL_PROXY", entry="its scheme", why="clients do not know it"
        )
    if failure.is_a("InvalidURL") and failure.says("invalid port", "invalid ipv6"):
        return next((problem for problem in problems if problem.entry.startswith("[")), None)
    return None


def _first(problems: tuple[ProxyProblem, ...], part: str) -> ProxyProblem | None:
    return next((problem for problem in problems if part in problem.entry), None)


def invalid_url(failure: Failure) -> Diagnosis | None:
    """The URL itself cannot be used."""
    refused = failure.is_a(
        "InvalidURL", "UnsupportedProtocol", "InvalidUrlClientError", "NonHttpUrlClientError"
    )
    if not refused and not failure.says("unknown url type"):
        return None
    base = re.sub(r"/(?:chat/)?completions$", "", failure.url)
    wrong = check_base_url(base)
    cause = (
        wrong.cause
        if wrong and wrong.category is Category.BASE_URL_INVALID
        else "the base URL cannot be used"
    )
    wanted = suggest(base)
    return failure.diagnosis(
        Category.BASE_URL_INVALID, cause, f"use {wanted}", {"suggested_base_url": wanted}
    )
