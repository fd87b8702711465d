# SPDX-License-Identifier: Apache-2.0
"""Answers beyond the written-down cases: other gateways, other statuses, other spellings."""

import json
from typing import Any

import pytest

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

CHAT = "http://127.0.0.1:8000/v1/chat/completions"
JSON = {"content-type": "application/json"}


def ask(
    status: int, body: Any, url: str = CHAT, headers: dict[str, str] | None = None, **known: Any
) -> Diagnosis:
    known.setdefault("key_sent", True)
    content = body if isinstance(body, str) else json.dumps(body)
    return classify_response(status, headers or JSON, content.encode(), url=url, **known)


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


ANSWERS: dict[str, tuple[int, Any, str, Category]] = {
    "completion": (200, {"id": "c", "choices": [{"message": {"content": "hi"}}]}, CHAT, Category.OK),
    "null body": (200, "null", CHAT, Category.NULL_EVENT),
    "empty 200": (200, "", CHAT, Category.NO_TOKEN),
    "flat error in a 200": (
        200,
        {"object": "error", "message": "boom", "type": "InternalServerError", "code": 500},
        CHAT,
        Category.IN_BAND_ERROR,
    ),
    "web page for an API": (
        200,
        "<!doctype html><title>New API</title>",
        "http://h:3000/chat/completions",
        Category.BASE_URL_MISSING_V1,
    ),
    "expired key": (
        401,
        error("The API key has expired", code="key_expired"),
        CHAT,
        Category.AUTH_WRONG_OR_MISSING_KEY,
    ),
    "forbidden": (
        403,
        error("no access to this group", code="access_denied"),
        CHAT,
        Category.AUTH_WRONG_OR_MISSING_KEY,
    ),
    "key error as a 400": (
        400,
        error("API key not valid. Please pass a valid one."),
        CHAT,
        Category.AUTH_WRONG_OR_MISSING_KEY,
    ),
    "openai model": (
        404,
        error("The model `gpt-9` does not exist", code="model_not_found"),
        CHAT,
        Category.MODEL_NOT_FOUND,
    ),
    "model as a 400": (
        400,
        error("qwen/x is not a valid model ID", code=400),
        CHAT,
        Category.MODEL_NOT_FOUND,
    ),
    "ollama model": (
        404,
        error('model "llama9" not found, try pulling it first', type="api_error"),
        CHAT,
        Category.MODEL_NOT_FOUND,
    ),
    "no channel for the model": (
        503,
        error("no channel", type="new_api_error", code="model_not_found"),
        CHAT,
        Category.MODEL_NOT_FOUND,
    ),
    "rate": (429, error("slow down", type="rate_limit_error"), CHAT, Category.RATE_LIMITED),
    "quota": (
        429,
        error("You exceeded your current quota", code="insufficient_quota"),
        CHAT,
        Category.RATE_LIMITED,
    ),
    "overloaded": (529, error("Overloaded", type="overloaded_error"), CHAT, Category.RATE_LIMITED),
    "validation": (422, {"detail": [{"loc": ["body", "x"], "msg": "bad"}]}, CHAT, Category.BAD_REQUEST),
    "bad temperature": (400, error("temperature must be non-negative, got -1"), CHAT, Category.BAD_REQUEST),
    "max_tokens of zero": (
        400,
        error("max_tokens must be at least 1, got 0."),
        CHAT,
        Category.MAX_TOKENS_TOO_SMALL,
    ),
    "output limit reached": (
        400,
        error("Could not finish the message because max_tokens or model output limit was reached."),
        CHAT,
        Category.MAX_TOKENS_TOO_SMALL,
    ),
    "dead engine": (
        500,
        error("EngineCore encountered an issue. See stack trace (above) for the root cause."),
        CHAT,
        Category.ENGINE_DIED,
    ),
    "dead engine as a 503": (
        503,
        error("EngineCore encountered an issue.", type="InternalServerError", param=None, code=503),
        CHAT,
        Category.ENGINE_DIED,
    ),
    "vLLM that takes no more": (
        503,
        error("Request failed; please retry", type="ServiceUnavailableError", param=None, code=503),
        CHAT,
        Category.RATE_LIMITED,
    ),
    "vLLM that takes no more, flat": (
        503,
        {"object": "error", "message": "The queue is full.", "type": "ServiceUnavailableError", "code": 503},
        CHAT,
        Category.RATE_LIMITED,
    ),
    "vLLM that scales": (
        503,
        {"error": "The model is currently scaling. Please try again later."},
        CHAT,
        Category.RATE_LIMITED,
    ),
    "vLLM that failed on one": (
        503,
        error("KV cache load failure", type="ServiceUnavailableError", param=None, code=503),
        CHAT,
        Category.SERVER_ERROR,
    ),
    "gateway without a server": (
        503,
        error("No healthy upstream", type="server_error", code="503"),
        CHAT,
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
    ),
    "gateway that quotes vLLM's word": (
        503,
        error("litellm.ServiceUnavailableError: x", type="ServiceUnavailableError", code="503"),
        CHAT,
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
    ),
    "plain 500": (500, "Internal Server Error", CHAT, Category.SERVER_ERROR),
    "json 500": (500, error("boom", type="InternalServerError", code=500), CHAT, Category.SERVER_ERROR),
    "gateway timeout": (
        504,
        "<html><title>504 Gateway Time-out</title></html>",
        CHAT,
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
    ),
    "right path, wrong server": (404, '{"detail":"Not Found"}', CHAT, Category.NOT_FOUND),
    "endpoint of another kind": (
        405,
        '{"detail":"Method Not Allowed"}',
        "http://h/v1/models/chat/completions",
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "version twice": (
        404,
        '{"detail":"Not Found"}',
        "http://h/v1/v1/chat/completions",
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "other version": (
        404,
        '{"detail":"Not Found"}',
        "http://h/api/paas/v4/chat/completions",
        Category.NOT_FOUND,
    ),
    "plain http to a TLS port": (
        400,
        "<html><title>400 The plain HTTP request was sent to HTTPS port</title></html>",
        CHAT,
        Category.SCHEME_MISMATCH,
    ),
    "Go server with TLS": (
        400,
        "Client sent an HTTP request to an HTTPS server.\n",
        CHAT,
        Category.SCHEME_MISMATCH,
    ),
    "nonsense": (299, "]]", CHAT, Category.UNKNOWN),
}


@pytest.mark.parametrize(("status", "body", "url", "category"), ANSWERS.values(), ids=ANSWERS.keys())
def test_answer_gets_its_category(status: int, body: Any, url: str, category: Category) -> None:
    assert ask(status, body, url).category is category


def test_h51_key_in_the_wrong_header_may_be_the_right_key() -> None:
    found = ask(401, {"error": "Unauthorized"}, hints=Hints(key_header="x-api-key"))
    assert found.category is Category.AUTH_WRONG_HEADER
    assert "Authorization: Bearer" in found.remedy


def test_retry_after_seconds_are_a_figure() -> None:
    found = ask(429, error("slow down"), headers={"Retry-After": "7"})
    assert found.figures["retry_after_s"] == 7.0
    assert found.remedy.startswith("wait 7 s")


def test_retry_after_milliseconds_are_read_too() -> None:
    assert ask(429, error("slow"), headers={"retry-after-ms": "1500"}).figures["retry_after_s"] == 1.5


def test_unreadable_retry_after_is_no_figure() -> None:
    assert "retry_after_s" not in ask(429, error("slow"), headers={"Retry-After": "soon"}).figures


def test_503_of_vllm_itself_is_not_blamed_on_a_gateway() -> None:
    body = error("Request failed; please retry", type="ServiceUnavailableError", param=None, code=503)
    found = ask(503, body, headers={"Content-Type": "application/json", "Retry-After": "3"})
    assert "not a gateway's" in found.cause
    assert found.remedy.startswith("wait 3 s")
    assert found.figures["retry_after_s"] == 3.0


def test_used_up_quota_does_not_advise_to_wait() -> None:
    assert "waiting will not help" in ask(429, error("x", code="insufficient_quota")).cause


def test_redirect_to_https_asks_for_https() -> None:
    found = ask(
        307,
        "",
        headers={"Location": "https://h:8000/v1/chat/completions"},
        url="http://h:8000/v1/chat/completions",
    )
    assert found.category is Category.SCHEME_MISMATCH
    assert "https://h:8000/v1" in found.remedy


@pytest.mark.parametrize("status", [502, 503])
def test_h84_proxy_that_answers_for_loopback_is_named(status: int) -> None:
    env = {"HTTP_PROXY": "http://user:pw@proxy:3128"}
    found = ask(status, "", hints=Hints(env=env))
    assert found.category is Category.PROXY_INTERCEPT
    assert found.figures["variable"] == "HTTP_PROXY"
    assert "pw" not in found.paragraph()


def test_proxy_that_no_proxy_excludes_is_not_blamed() -> None:
    env = {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "localhost,127.0.0.1"}
    assert ask(502, "", hints=Hints(env=env)).category is Category.UPSTREAM_DOWN_BEHIND_PROXY


def test_known_secret_in_an_echoing_body_is_hidden() -> None:
    found = ask(400, error("what is correct-horse-7 doing here"), hints=Hints(secrets=("correct-horse-7",)))
    assert "correct-horse" not in found.paragraph()
