# SPDX-License-Identifier: Apache-2.0
"""Name what a server meant by an HTTP answer: by status, body shape and URL, never by an SDK's text."""

from collections.abc import Callable, Mapping, Sequence

from vllm_perf.diagnosis import http_gateways as between
from vllm_perf.diagnosis import http_requests as asked
from vllm_perf.diagnosis import http_servers as served
from vllm_perf.diagnosis.answer import Answer, Hints
from vllm_perf.diagnosis.envelope import read_envelope
from vllm_perf.diagnosis.http_paths import path
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

# The first rule that has something to say wins: what the body states outweighs what the status suggests.
_RULES: tuple[Callable[[Answer], Diagnosis | None], ...] = (
    served.success,
    served.redirect,
    served.plain_to_tls,
    served.proxy_on_the_way,
    asked.context_overflow,
    asked.chat_template,
    between.unknown_to_gateway,
    between.refused_behind_gateway,
    asked.key,
    asked.rate,
    asked.model,
    path,
    asked.max_tokens,
    served.dead_engine,
    between.unreachable_behind_gateway,
    served.unavailable,
    served.gateway,
    asked.bad_request,
    served.server_error,
)


def classify_response(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    url: str,
    key_sent: bool,
    model: str | None = None,
    served_models: Sequence[str] = (),
    hints: Hints | None = None,
) -> Diagnosis:
    """Classify one answer to a request that was sent to ``url`` (endpoint included).

    A 2xx that holds a completion is ``OK``. ``served_models`` are the ids of ``/v1/models``, where known.
    """
    answer = Answer(
        status=status,
        headers=headers,
        body=read_envelope(body, headers),
        url=url,
        key_sent=key_sent,
        model=model,
        served_models=tuple(served_models),
        hints=hints or Hints(),
    )
    for rule in _RULES:
        found = rule(answer)
        if found:
            return found
    return answer.diagnosis(
        Category.UNKNOWN,
        "the server gave an answer that is none of the known ones",
        "read the server's own log",
    )
