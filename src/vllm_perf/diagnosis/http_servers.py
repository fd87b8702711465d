# SPDX-License-Identifier: Apache-2.0
"""Rules for answers that blame the server's side: gateways, proxies, dead engines, errors inside a 200."""

from urllib.parse import urlsplit

from vllm_perf.diagnosis.answer import Answer
from vllm_perf.diagnosis.base_url import check_base_url, suggest, with_scheme, without_endpoint
from vllm_perf.diagnosis.http_requests import pause, retry_after_s
from vllm_perf.diagnosis.proxies import loopback_without_exclusion
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_GATEWAY_STATUS = (502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 530)
# What vLLM itself says when it takes no request for now, with an error type of its own spelling.
_VLLM_TYPES = (
    "serviceunavailableerror",
    "service unavailable",
    "internalservererror",
    "toomanyrequestserror",
)
_BUSY = ("overload", "queue", "capacity", "too many", "busy", "retry", "try again", "scaling", "draining")
_DEAD = (
    "enginecore encountered an issue",
    "enginedeaderror",
    "engine is dead",
    "engine process",
    "background loop",
)


def success(answer: Answer) -> Diagnosis | None:
    """A 2xx: a completion, or a failure inside it."""
    if not 200 <= answer.status < 300:
        return None
    body = answer.body
    if body.is_error:
        return answer.diagnosis(
            Category.IN_BAND_ERROR,
            "the server answered 2xx but the body is an error, so nothing was generated "
            "(an SDK shows choices=None, or 'NoneType' errors)",
            "read the error in the body; count the request as failed",
        )
    if body.shape == "null":
        return answer.diagnosis(
            Category.NULL_EVENT,
            "the server sent JSON null where a completion belongs "
            "(seen as: 'NoneType' object has no attribute 'choices')",
            "look at the log of the server or gateway: it failed after it had answered 200",
        )
    if body.shape == "choices":
        return answer.diagnosis(Category.OK, "the server answered with a completion", "nothing")
    if body.shape == "html":
        return _page(answer)
    if body.shape == "empty":
        return answer.diagnosis(
            Category.NO_TOKEN,
            "the server answered 2xx with an empty body",
            "read the server's log: generation failed",
        )
    return None


def _page(answer: Answer) -> Diagnosis:
    wrong = check_base_url(without_endpoint(answer.url))
    if wrong is not None:
        cause = f"a web page answered instead of the API: {wrong.cause}"
        return answer.diagnosis(wrong.category, cause, wrong.remedy, wrong.figures)
    return answer.diagnosis(
        Category.NOT_FOUND,
        "a web page answered instead of the API",
        "check host, port and path: something else than the API listens there",
    )


def redirect(answer: Answer) -> Diagnosis | None:
    """The server points elsewhere; to https, most often."""
    if not 300 <= answer.status < 400:
        return None
    target = answer.header("location")
    old, new = urlsplit(answer.url).scheme, urlsplit(target).scheme
    if new and new != old:
        wanted = suggest(with_scheme(answer.url, new))
        return answer.diagnosis(
            Category.SCHEME_MISMATCH, f"the server redirects {old} to {new}", f"use {wanted} as the base URL"
        )
    return answer.diagnosis(
        Category.NOT_FOUND, f"the server redirects to {target or 'nowhere'}", "use the base URL it points to"
    )


def plain_to_tls(answer: Answer) -> Diagnosis | None:
    """A TLS port says that plain http was spoken to it (nginx, Go)."""
    if answer.status != 400 or not answer.says("sent to https port", "http request to an https server"):
        return None
    wanted = suggest(with_scheme(answer.url, "https"))
    return answer.diagnosis(
        Category.SCHEME_MISMATCH, "plain http was spoken to a TLS port", f"use {wanted} as the base URL"
    )


def proxy_on_the_way(answer: Answer) -> Diagnosis | None:
    """A proxy answered in place of a server on this very machine."""
    if answer.status not in (403, 407, *_GATEWAY_STATUS) or (answer.body.is_error and answer.status != 407):
        return None
    proxy = loopback_without_exclusion(answer.url, answer.hints.env)
    if proxy is not None:
        return answer.diagnosis(
            Category.PROXY_INTERCEPT,
            f"{proxy.variable} sends requests for this machine through the proxy {proxy.address}, "
            "and the proxy answered",
            "set NO_PROXY=localhost,127.0.0.1,::1 or unset the variable",
            {"variable": proxy.variable},
        )
    if answer.status == 407:
        return answer.diagnosis(
            Category.PROXY_INTERCEPT,
            "a proxy on the way asks for its own login",
            "configure the proxy, or go around it",
        )
    return None


def dead_engine(answer: Answer) -> Diagnosis | None:
    """vLLM's API server answers, but its engine is gone."""
    if answer.status < 500 or not answer.says(*_DEAD):
        return None
    return answer.diagnosis(
        Category.ENGINE_DIED,
        "vLLM's engine process has died; only the API server is left",
        "read the server's log above the first EngineDeadError for the cause, and restart it",
    )


def unavailable(answer: Answer) -> Diagnosis | None:
    """vLLM itself answers 503: it is up, and takes no requests for now or failed one that may be repeated."""
    body = answer.body
    is_vllm = body.shape in ("nested", "flat") and body.type.lower() in _VLLM_TYPES and body.code == "503"
    scaling = body.shape == "string" and answer.says("model is currently scaling")
    if answer.status != 503 or not (is_vllm or scaling) or answer.says("litellm."):
        return None
    wait_s = retry_after_s(answer)
    if answer.says(*_BUSY) or wait_s is not None:
        return answer.diagnosis(
            Category.RATE_LIMITED,
            "vLLM itself is up and takes no more requests for now (its own 503, not a gateway's)",
            f"{pause(wait_s)} ask with less concurrency; see what it does in its log (queue, scaling)",
            {} if wait_s is None else {"retry_after_s": wait_s},
        )
    return answer.diagnosis(
        Category.SERVER_ERROR,
        "vLLM itself answered 503: it is up, but could not serve this request",
        "read the server's log at that moment",
    )


def gateway(answer: Answer) -> Diagnosis | None:
    """A reverse proxy or gateway could not reach the server behind it."""
    if answer.status not in _GATEWAY_STATUS:
        return None
    return answer.diagnosis(
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
        "a reverse proxy or gateway answered because the server behind it did not",
        "check the server behind it: is it up, does it listen where the gateway looks, is it in time?",
    )


def server_error(answer: Answer) -> Diagnosis | None:
    """The server failed on its own."""
    if answer.status < 500:
        return None
    return answer.diagnosis(
        Category.SERVER_ERROR,
        "the server failed while it handled the request",
        "read the server's log at that moment",
    )
