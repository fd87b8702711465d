# SPDX-License-Identifier: Apache-2.0
"""Base URLs: what is wrong with them, and what they were meant to be."""

import pytest

from vllm_perf.diagnosis.base_url import check_base_url, is_loopback, root_of, server_root
from vllm_perf.diagnosis.keys import key_problem
from vllm_perf.diagnosis.proxies import find_problems, proxy_for
from vllm_perf.spec.category import Category

WRONG: dict[str, tuple[Category, str]] = {
    "http://h:8000": (Category.BASE_URL_MISSING_V1, "http://h:8000/v1"),
    "http://h:8000/": (Category.BASE_URL_MISSING_V1, "http://h:8000/v1"),
    "https://channel.example/api": (Category.BASE_URL_MISSING_V1, "https://channel.example/api/v1"),
    "http://h/v1/chat/completions": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/v1/chat/completions/": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/v1/completions": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/v1/responses": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/v1/models": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/chat/completions": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "http://h/v1/v1": (Category.BASE_URL_HAS_ENDPOINT, "http://h/v1"),
    "localhost:8000/v1": (Category.BASE_URL_INVALID, "http://localhost:8000/v1"),
    "http://h:8000/v1 ": (Category.BASE_URL_INVALID, "http://h:8000/v1"),
    "http://h:80 00/v1": (Category.BASE_URL_INVALID, "http://h:8000/v1"),
    "http://h:port/v1": (Category.BASE_URL_INVALID, "http://h:port/v1"),
    "": (Category.BASE_URL_INVALID, "http:///v1"),
}


@pytest.mark.parametrize(("url", "expected"), WRONG.items(), ids=WRONG.keys())
def test_wrong_base_url_is_named_and_corrected(url: str, expected: tuple[Category, str]) -> None:
    found = check_base_url(url)
    assert found is not None
    assert (found.category, found.figures["suggested_base_url"]) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://h:8000/v1",
        "http://h:8000/v1/",
        "https://channel.example/api/v1",
        "https://channel.example/api/paas/v4",
        "https://channel.example/v1beta/openai",
        "http://[::1]:8000/v1",
    ],
)
def test_right_base_url_passes(url: str) -> None:
    assert check_base_url(url) is None


def test_credentials_in_a_base_url_are_not_repeated() -> None:
    found = check_base_url("http://me:secret-9@h:8000")
    assert found is not None
    assert "secret-9" not in found.paragraph()


def test_credentials_in_a_base_url_are_no_key_and_the_url_without_them_is_suggested() -> None:
    found = check_base_url("http://me:secret-9@h:8000/v1")
    assert found is not None
    assert found.category is Category.BASE_URL_INVALID
    assert found.remedy == "use http://h:8000/v1"


def test_health_hangs_under_the_prefix_before_the_version() -> None:
    assert server_root("http://h:8000/prefix/v1") == "http://h:8000/prefix"
    assert root_of("http://me:pw@h:8000/prefix/v1") == "http://h:8000"


@pytest.mark.parametrize(
    "url", ["http://localhost:1/v1", "http://127.0.0.9/v1", "http://[::1]/v1", "http://0.0.0.0/v1"]
)
def test_this_machine_is_recognised(url: str) -> None:
    assert is_loopback(url)


def test_other_machines_are_not_this_one() -> None:
    assert not is_loopback("http://192.0.2.7:8000/v1")


PROXIES: dict[str, tuple[str, dict[str, str], str | None]] = {
    "http variable": ("http://h/v1", {"HTTP_PROXY": "http://p:1"}, "HTTP_PROXY"),
    "lower case first": (
        "http://h/v1",
        {"HTTP_PROXY": "http://p:1", "http_proxy": "http://q:1"},
        "http_proxy",
    ),
    "https variable does not touch http": ("http://h/v1", {"HTTPS_PROXY": "http://p:1"}, None),
    "all": ("https://h/v1", {"ALL_PROXY": "http://p:1"}, "ALL_PROXY"),
    "excluded by name": ("http://h/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "a,h"}, None),
    "excluded by domain": ("http://x.h.org/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": ".h.org"}, None),
    "excluded by star": ("http://h/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
    "excluded by port": ("http://h:8000/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "h:8000"}, None),
    "other port": ("http://h:8001/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "h:8000"}, "HTTP_PROXY"),
    "localhost is not 127.0.0.1": (
        "http://127.0.0.1/v1",
        {"HTTP_PROXY": "http://p:1", "NO_PROXY": "localhost"},
        "HTTP_PROXY",
    ),
    "part of a name": ("http://oh/v1", {"HTTP_PROXY": "http://p:1", "NO_PROXY": "h"}, "HTTP_PROXY"),
}


@pytest.mark.parametrize(("url", "env", "variable"), PROXIES.values(), ids=PROXIES.keys())
def test_proxy_is_chosen_as_clients_do(url: str, env: dict[str, str], variable: str | None) -> None:
    chosen = proxy_for(url, env)
    assert (chosen.variable if chosen else None) == variable


def test_usable_proxy_settings_are_no_problem() -> None:
    assert find_problems({"HTTP_PROXY": "http://p:1", "NO_PROXY": "localhost,127.0.0.1,::1"}) == ()


def test_unusable_proxy_settings_are_all_found() -> None:
    env = {"NO_PROXY": "[::1]", "ALL_PROXY": "socks://p:1", "https_proxy": "ftp://p:1"}
    assert {problem.variable for problem in find_problems(env)} == {"NO_PROXY", "ALL_PROXY", "https_proxy"}


KEYS = {
    "sk-abc\n": "the key ends with a newline",
    " sk-abc": "the key begins with whitespace",
    "": "the key is empty",
    "sk abc": "the key contains whitespace",
    "sk-abc\x00d": "the key contains a control character",
    "'sk-abc'": "the key is wrapped in quotation marks",
    "Bearer-sk-abc": "the key starts with the word Bearer, which clients add themselves",
}


@pytest.mark.parametrize(("key", "problem"), KEYS.items(), ids=KEYS.values())
def test_malformed_key_is_explained(key: str, problem: str) -> None:
    assert key_problem(key) == problem


def test_ordinary_key_and_no_key_are_fine() -> None:
    assert key_problem("sk-abc") is None
    assert key_problem(None) is None
