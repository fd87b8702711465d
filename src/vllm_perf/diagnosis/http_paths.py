# SPDX-License-Identifier: Apache-2.0
"""The rule for answers that blame the path: here, or on the way through a gateway."""

import re
from dataclasses import replace
from urllib.parse import urlsplit

from vllm_perf.diagnosis.answer import Answer
from vllm_perf.diagnosis.base_url import ENDPOINTS, check_base_url
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

# OpenAI: "Invalid URL (POST /v1/…)", "Unknown request URL: POST /…".
_REFUSED_PATH = re.compile(
    r"\bURL\b\W{1,3}(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) (?P<path>/[^\s)?\"']*[^\s)?\"'.,;:])", re.I
)


def path(answer: Answer) -> Diagnosis | None:
    """The path does not exist: ``/v1`` is missing, or the endpoint is in the base URL."""
    if answer.status not in (404, 405):
        return None
    wrong = check_base_url(_base_of(answer.url))
    if wrong is None:
        wrong = _changed_on_the_way(answer)
    if wrong is None:
        return answer.diagnosis(
            Category.NOT_FOUND,
            "the server has no such path, although the base URL looks right",
            "check host, port and prefix: does vLLM listen there (GET /version) and serve this endpoint?",
        )
    return answer.diagnosis(wrong.category, wrong.cause, wrong.remedy, wrong.figures)


def _changed_on_the_way(answer: Answer) -> Diagnosis | None:
    """The server names another path than was asked for here: a gateway in between has a wrong base URL."""
    named = _REFUSED_PATH.search(answer.body.message)
    if named is None:
        return None
    wrong = check_base_url(_base_of(urlsplit(answer.url)._replace(path=named["path"], query="").geturl()))
    if wrong is None:
        return None
    return replace(
        wrong,
        cause=f"the server was asked for {named['path']}: {wrong.cause}",
        remedy="give the base URL up to /v1 and without the endpoint; where it is right here, correct it "
        "where the request was sent on (gateway, SDK)",
        figures={},
    )


def _base_of(url: str) -> str:
    parts = urlsplit(url)
    for ending in ENDPOINTS:
        if parts.path.endswith(ending):
            return parts._replace(path=parts.path.removesuffix(ending), query="").geturl()
    return parts._replace(query="").geturl()
