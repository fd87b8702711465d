# SPDX-License-Identifier: Apache-2.0
"""The error bodies of real servers and gateways, by the id of their case, and their variations."""

import json
from typing import Any

import pytest

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

CHAT = "http://gpu-box:8000/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
HTML = {"Content-Type": "text/html; charset=utf-8"}
HASH = "0af9" * 16
TOO_LONG = (
    "This model's maximum context length is 2048 tokens. However, you requested 2723 tokens (1699 in "
    "the messages, "
    "1024 in the completion). Please reduce the length of the messages or completion."
)
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat "
    "template if "
    "the tokenizer does not define one."
)
NGINX = (
    "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center>"
    "<hr><center>nginx</center></body></html>"
)
CLOUDFLARE = (
    "<!DOCTYPE html>\n<html lang='en'><head><title>box.example | 502: Bad gateway</title></head><body>"
    + "x" * 9000
)


def nested(message: str, **fields: Any) -> str:
    return json.dumps({"error": {"message": message, **fields}})


def flat(message: str, **fields: Any) -> str:
    return json.dumps({"object": "error", "message": message, **fields})


def ask(
    status: int, body: str, url: str = CHAT, headers: dict[str, str] | None = None, **known: Any
) -> Diagnosis:
    known.setdefault("key_sent", True)
    return classify_response(status, JSON if headers is None else headers, body.encode(), url=url, **known)


CASES: dict[str, tuple[int, str, str, dict[str, str], Category]] = {
    "H01": (401, '{"error":"Unauthorized"}', CHAT, JSON, Category.AUTH_WRONG_OR_MISSING_KEY),
    "H02": (401, '{"error":"Unauthorized"}', CHAT, JSON, Category.AUTH_WRONG_OR_MISSING_KEY),
    "H03 new": (
        401,
        nested(
            f"Authentication Error, Invalid proxy server token passed. Received API Key = sk-...abcd, "
            f"Key Hash "
            f"(Token) ={HASH}. Unable to find token in cache or `LiteLLM_VerificationTokenTable`",
            type="token_not_found_in_db",
            param="key",
            code="401",
        ),
        CHAT,
        JSON,
        Category.AUTH_WRONG_OR_MISSING_KEY,
    ),
    "H03 old": (
        401,
        nested(
            "Authentication Error, Invalid proxy server token passed. valid_token=None.",
            type="auth_error",
            param="None",
            code="401",
        ),
        CHAT,
        JSON,
        Category.AUTH_WRONG_OR_MISSING_KEY,
    ),
    "H04": (
        404,
        '{"detail":"Not Found"}',
        "http://h:8000/chat/completions",
        JSON,
        Category.BASE_URL_MISSING_V1,
    ),
    "H05 flat": (
        404,
        flat("The model `Qwen1.5-14B-Chat` does not exist.", type="NotFoundError", param=None, code=404),
        CHAT,
        JSON,
        Category.MODEL_NOT_FOUND,
    ),
    "H05 nested": (
        404,
        nested("The model `x` does not exist.", type="NotFoundError", param="model", code=404),
        CHAT,
        JSON,
        Category.MODEL_NOT_FOUND,
    ),
    "H05 with the served names": (
        404,
        nested(
            "The model `x` does not exist. Served models: my-model.",
            type="NotFoundError",
            param=None,
            code=404,
        ),
        CHAT,
        JSON,
        Category.MODEL_NOT_FOUND,
    ),
    "H06 doubled": (
        404,
        nested(
            "Invalid URL (POST /v1/chat/completions/chat/completions)",
            type="invalid_request_error",
            code=None,
        ),
        CHAT + "/chat/completions",
        JSON,
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "H06 missing": (
        404,
        nested(
            "Unknown request URL: POST /chat/completions.", type="invalid_request_error", code="unknown_url"
        ),
        "https://h/chat/completions",
        JSON,
        Category.BASE_URL_MISSING_V1,
    ),
    "H06 doubled on the way": (
        404,
        nested(
            "Invalid URL (POST /v1/chat/completions/chat/completions)",
            type="invalid_request_error",
            param=None,
            code=None,
        ),
        CHAT,
        JSON,
        Category.BASE_URL_HAS_ENDPOINT,
    ),
    "H06 lost on the way": (
        404,
        nested(
            "Unknown request URL: POST /chat/completions. Please check the URL for typos.",
            type="invalid_request_error",
            code="unknown_url",
        ),
        CHAT,
        JSON,
        Category.BASE_URL_MISSING_V1,
    ),
    "H07 flat": (
        400,
        flat(TOO_LONG, type="BadRequestError", param=None, code=400),
        CHAT,
        JSON,
        Category.CONTEXT_OVERFLOW,
    ),
    "H07 nested": (
        400,
        nested(TOO_LONG, type="BadRequestError", param=None, code=400),
        CHAT,
        JSON,
        Category.CONTEXT_OVERFLOW,
    ),
    "H08 flat": (400, flat(NO_TEMPLATE, type="BadRequestError"), CHAT, JSON, Category.CHAT_TEMPLATE_MISSING),
    "H08 nested": (
        400,
        nested(NO_TEMPLATE + " None", type="BadRequestError"),
        CHAT,
        JSON,
        Category.CHAT_TEMPLATE_MISSING,
    ),
    "H09 nginx": (502, NGINX, CHAT, HTML, Category.UPSTREAM_DOWN_BEHIND_PROXY),
    "H09 cloudflare": (502, CLOUDFLARE, CHAT, HTML, Category.UPSTREAM_DOWN_BEHIND_PROXY),
    "H10": (
        200,
        nested("upstream overloaded", type="server_error", code="500"),
        CHAT,
        JSON,
        Category.IN_BAND_ERROR,
    ),
    "H11 401": (401, "", CHAT, {}, Category.AUTH_WRONG_OR_MISSING_KEY),
    "H11 404": (404, "", "http://h:8000/chat/completions", {}, Category.BASE_URL_MISSING_V1),
}


@pytest.mark.parametrize(("status", "body", "url", "headers", "category"), CASES.values(), ids=CASES.keys())
def test_case_gets_its_category(
    status: int, body: str, url: str, headers: dict[str, str], category: Category
) -> None:
    assert ask(status, body, url, headers).category is category


def test_h01_says_whether_a_key_was_sent_and_that_the_server_is_up() -> None:
    with_key, without = (
        ask(401, '{"error":"Unauthorized"}'),
        ask(401, '{"error":"Unauthorized"}', key_sent=False),
    )
    assert with_key.cause.startswith("a key was sent, and refused")
    assert without.cause.startswith("no key was sent")
    assert "the server itself is up" in without.cause


def test_h02_names_the_variable_that_makes_a_keyless_server_ask_for_a_key() -> None:
    found = ask(401, '{"error":"Unauthorized"}', hints=Hints(keyless_server=True))
    assert "VLLM_API_KEY" in found.cause
    assert "unset VLLM_API_KEY" in found.remedy


def test_h03_blames_the_gateway_and_hides_key_and_hash() -> None:
    status, body, url, headers, _ = CASES["H03 new"]
    text = ask(status, body, url, headers).paragraph()
    assert "from a gateway, not from vLLM" in text
    assert "abcd" not in text
    assert HASH not in text


def test_h04_prints_the_corrected_url() -> None:
    found = ask(404, '{"detail":"Not Found"}', "http://h:8000/chat/completions")
    assert found.remedy == "use http://h:8000/v1"


def test_h05_names_the_nearest_served_model() -> None:
    body = flat("The model `qwen2.5-7b-instruct` does not exist.", type="NotFoundError", code=404)
    served = ("Qwen2.5-7B-Instruct-AWQ", "other")
    found = ask(404, body, model="qwen2.5-7b-instruct", served_models=served)
    assert found.figures["nearest_model"] == "Qwen2.5-7B-Instruct-AWQ"
    assert "served: Qwen2.5-7B-Instruct-AWQ, other" in found.remedy


def test_h05_takes_the_served_names_from_the_refusal_itself() -> None:
    message = "The model `qwen` does not exist. Valid aliases: qwen-7b, other."
    found = ask(404, nested(message, type="NotFoundError", param="model", code=404), model="qwen")
    assert found.figures["nearest_model"] == "qwen-7b"
    assert "(served: qwen-7b, other)" in found.remedy


@pytest.mark.parametrize("name", ["H06 doubled on the way", "H06 lost on the way"])
def test_h06_path_that_changed_on_the_way_is_not_blamed_on_the_url_here(name: str) -> None:
    status, body, url, headers, _ = CASES[name]
    found = ask(status, body, url, headers)
    assert "the server was asked for /" in found.cause
    assert "where the request was sent on" in found.remedy


def test_h07_reads_limit_prompt_and_completion() -> None:
    found = ask(400, flat(TOO_LONG, type="BadRequestError", code=400))
    assert found.figures == {"status": 400, "max_model_len": 2048, "prompt_tokens": 1699, "max_tokens": 1024}
    # 2048 - 1699
    assert "lower max_tokens to at most 349" in found.remedy


def test_h09_shows_one_short_line_of_the_page() -> None:
    nginx, cloudflare = ask(502, NGINX, headers=HTML), ask(502, CLOUDFLARE, headers=HTML)
    assert nginx.evidence == f"HTTP 502 text/html from {CHAT}: 502 Bad Gateway"
    assert cloudflare.evidence.endswith("box.example | 502: Bad gateway")


def test_h11_does_not_render_an_empty_reason() -> None:
    assert ask(401, "", headers={}).evidence.endswith("an empty body")
