# SPDX-License-Identifier: Apache-2.0
"""What an application sees of each shape through the openai SDK and the loop that everybody writes."""

import json
from collections.abc import Iterator

import openai
import pytest

from vllm_perf.golden import GoldenServer


@pytest.fixture(scope="module")
def server() -> Iterator[GoldenServer]:
    with GoldenServer() as running:
        yield running


def _naive(server: GoldenServer, case: str) -> tuple[str, BaseException | None]:
    """Return the text a naive loop collects, and what ended it."""
    text = ""
    url = server.base_url_for(fault=case)
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=10) as client:
        try:
            stream = client.chat.completions.create(
                model="golden", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            for chunk in stream:
                text += chunk.choices[0].delta.content or ""
        except Exception as error:  # noqa: BLE001 - older SDKs let httpx's own errors through
            return text, error
    return text, None


@pytest.mark.parametrize(
    ("case", "text", "error"),
    [
        ("H13", "AB", IndexError),
        ("H14", "", IndexError),
        ("H16", "", json.JSONDecodeError),
        ("H17", "A", openai.APIError),
        ("H18", "A", TypeError),
        ("H19", "", AttributeError),
        ("H20", "", None),
        ("H21", "A", None),
        ("H10", "", None),
        ("H23", "AB", IndexError),
        ("H28", "AB", None),
    ],
)
def test_case(case: str, text: str, error: type[BaseException] | None, server: GoldenServer) -> None:
    seen, ended = _naive(server, case)
    assert seen == text
    assert (type(ended) is error) if error is not None else (ended is None)


def test_h17_has_the_error_as_its_body_and_no_status(server: GoldenServer) -> None:
    _, error = _naive(server, "H17")
    assert isinstance(error, openai.APIError)
    assert (error.message, getattr(error, "status_code", None)) == ("boom", None)
    assert isinstance(error.body, dict)
    assert error.body["type"] == "InternalServerError"


def test_h19_is_the_message_that_users_report(server: GoldenServer) -> None:
    assert str(_naive(server, "H19")[1]) == "'NoneType' object has no attribute 'choices'"


@pytest.mark.parametrize("case", ["H22", "H22-reset"])
def test_h22_a_cut_body_is_an_error_of_the_transport_below_the_sdk(case: str, server: GoldenServer) -> None:
    text, error = _naive(server, case)
    names = {type(one).__name__ for one in (error, getattr(error, "__cause__", None)) if one is not None}
    assert text == "A"
    assert names & {"RemoteProtocolError", "ReadError"}


@pytest.mark.parametrize(
    ("case", "status"), [("H01", 401), ("H04", 404), ("H05", 404), ("H07", 400), ("H09", 502), ("H11", 404)]
)
def test_an_error_status_reaches_the_application(case: str, status: int, server: GoldenServer) -> None:
    _, error = _naive(server, case)
    assert isinstance(error, openai.APIStatusError)
    assert error.status_code == status
