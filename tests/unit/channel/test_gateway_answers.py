# SPDX-License-Identifier: Apache-2.0
"""What LiteLLM 1.106 really answered, and what it means. Bodies are as the proxy sent them."""

import json

import pytest

from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

URL = "http://127.0.0.1:4000/v1/chat/completions"
ENDING = "\n\nLiteLLM: model group 'm' failed with the error above. No fallback was attempted."


def classify(status: int, message: str, kind: str, headers: dict[str, str] | None = None) -> Diagnosis:
    """Classify a body in LiteLLM's envelope."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": str(status)}}
    return classify_response(
        status, headers or {}, json.dumps(body).encode(), url=URL, key_sent=True, model="m"
    )


def test_no_connected_db_is_a_wrong_key() -> None:
    found = classify(400, "No connected db.", "no_db_connection")
    assert found.category is Category.AUTH_WRONG_OR_MISSING_KEY
    assert "master key" in found.remedy


def test_the_gateways_own_key_being_refused_blames_the_gateway() -> None:
    message = f'litellm.AuthenticationError: Hosted_vllmException - {{"error":"Unauthorized"}}{ENDING}'
    found = classify(401, message, "authentication_error")
    assert found.category is Category.AUTH_WRONG_OR_MISSING_KEY
    assert "ours is right" in found.remedy


@pytest.mark.parametrize(
    "said",
    [
        "OpenAIException - Connection error.",
        "Hosted_vllmException - Cannot connect to host REDACTED:1 [Connect call failed ('REDACTED', 1)]",
    ],
)
def test_a_dead_server_behind_litellm_is_upstream_down_although_it_says_500(said: str) -> None:
    found = classify(500, f"litellm.InternalServerError: {said}{ENDING}", "internal_server_error")
    assert found.category is Category.UPSTREAM_DOWN_BEHIND_PROXY


def test_another_500_of_litellm_stays_a_server_error() -> None:
    found = classify(500, f"litellm.InternalServerError: boom{ENDING}", "internal_server_error")
    assert found.category is Category.SERVER_ERROR


def test_an_unknown_model_at_litellm_is_a_400_that_means_model_not_found() -> None:
    said = (
        "/chat/completions: Invalid model name passed in model=m. Call `/v1/models` to view available models"
    )
    assert classify(400, said, "invalid_request_error").category is Category.MODEL_NOT_FOUND


def test_the_wait_behind_litellms_own_header_name_is_read() -> None:
    said = f"litellm.RateLimitError: Model rate limit exceeded. RPM limit=2, current usage=3{ENDING}"
    found = classify(429, said, "throttling_error", {"llm_provider-retry-after": "60"})
    assert found.category is Category.RATE_LIMITED
    assert found.figures["retry_after_s"] == 60.0
