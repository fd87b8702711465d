# SPDX-License-Identifier: Apache-2.0
"""What real vLLM cannot be made to answer: gateways, cut streams and proxies, through all three ways to ask.

The three are ``vllm-perf probe``, ``vllm-perf doctor``, and the openai SDK whose error is then classified.
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from tests.errors.gateways import Gateway, running
from vllm_perf.cli import main
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.golden import GoldenServer
from vllm_perf.spec.category import Category

KEY = "tstKEY-planted-4711"
SDK_MAJOR = int(openai.__version__.partition(".")[0])
# A few requests to this very machine; the rest is what a busy machine adds.
NOTICED_WITHIN_S = 10.0
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(scope="module")
def golden() -> Iterator[GoldenServer]:
    with GoldenServer() as server:
        yield server


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the developer's proxies away, and give the key."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("LAB_KEY", KEY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What must be said; ``sdk`` is False where the SDK shows nothing at all, as if all were well."""

    category: Category
    evidence: str
    remedy: str
    sdk: bool = True


NEW_KEY = "for a channel make a new key"
FAULTS: dict[str, Expected] = {
    "H03": Expected(
        category=Category.AUTH_WRONG_OR_MISSING_KEY, evidence="token_not_found_in_db", remedy=NEW_KEY
    ),
    "H03-old": Expected(category=Category.AUTH_WRONG_OR_MISSING_KEY, evidence="auth_error", remedy=NEW_KEY),
    "H09": Expected(
        category=Category.UPSTREAM_DOWN_BEHIND_PROXY, evidence="502 Bad Gateway", remedy="server behind it"
    ),
    "H09-cloudflare": Expected(
        category=Category.UPSTREAM_DOWN_BEHIND_PROXY, evidence="502: Bad gateway", remedy="server behind it"
    ),
    "H62": Expected(category=Category.RATE_LIMITED, evidence="Too many requests", remedy="wait 7 s"),
    "H17": Expected(category=Category.IN_BAND_ERROR, evidence="boom", remedy="log"),
    "H18": Expected(category=Category.IN_BAND_ERROR, evidence="boom", remedy="log", sdk=False),
    "H19": Expected(
        category=Category.NULL_EVENT, evidence="JSON null as an event", remedy="gateway", sdk=False
    ),
    "H20": Expected(category=Category.NO_TOKEN, evidence="HTTP 200", remedy="log", sdk=False),
    "empty-200": Expected(category=Category.NO_TOKEN, evidence="HTTP 200", remedy="log", sdk=False),
    "not-json": Expected(category=Category.MALFORMED_STREAM, evidence="JSON", remedy="gateway"),
    "H22": Expected(category=Category.TRUNCATED_STREAM, evidence="the connection", remedy="last ERROR"),
    "H22-reset": Expected(category=Category.TRUNCATED_STREAM, evidence="reset", remedy="last ERROR"),
    "reset-at-once": Expected(
        category=Category.CONNECTION_RESET,
        evidence="closed the connection without an answer",
        remedy="whether the server process died",
    ),
}


def _probe(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    found = _run(["probe", "--base-url", url, "--model", "golden"], capsys)
    return found["outcome"], found["detail"], found["remedy"]


def _doctor(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    found = _run(["doctor", "--timeout", "5", "--base-url", url, "--model", "golden"], capsys)
    return found["category"], f"{found['cause']} {found['evidence']}", found["remedy"]


def _run(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code = main([*words, "--json", "--api-key-env", "LAB_KEY"])
    captured = capsys.readouterr()
    assert KEY not in captured.out + captured.err
    assert code == 1
    found: dict[str, Any] = json.loads(captured.out)
    return found


def _sdk(url: str) -> Diagnosis:
    """Run the loop that everybody writes; return what its exception means."""
    chunks = 0
    try:
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=5) as client:
            messages: Any = [{"role": "user", "content": "hi"}]
            for _ in client.chat.completions.create(model="golden", messages=messages, stream=True):
                chunks += 1
    except Exception as error:  # noqa: BLE001 - whatever an SDK raises is the question
        where = f"{url}/chat/completions"
        return classify_exception(error, url=where, env=dict(os.environ), key=KEY, after_chunks=chunks)
    pytest.fail("the SDK noticed nothing")


def _check(url: str, expected: Expected, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    for category, evidence, remedy in (_probe(url, capsys), _doctor(url, capsys)):
        assert category == expected.category, evidence
        assert expected.evidence in evidence
        assert expected.remedy in remedy
    assert time.monotonic() - started < NOTICED_WITHIN_S
    if expected.sdk:
        found = _sdk(url)
        assert found.category is expected.category, found.paragraph()
        assert expected.evidence in found.evidence + found.cause
        assert expected.remedy in found.remedy
        assert KEY not in found.paragraph()


@pytest.mark.parametrize(("fault", "expected"), FAULTS.items(), ids=FAULTS.keys())
def test_misbehaving_server_is_named_by_all_three(
    golden: GoldenServer, fault: str, expected: Expected, capsys: pytest.CaptureFixture[str]
) -> None:
    _check(golden.base_url_for(fault=fault), expected, capsys)


GATEWAYS: dict[str, tuple[Gateway, Expected]] = {
    "expired key": (
        Gateway(
            status=401,
            body='{"error":{"message":"Authentication Error - Expired Key. Key Expiry time 2026-01-01",'
            '"type":"expired_key","param":"KEY","code":"401"}}',
        ),
        Expected(
            category=Category.AUTH_WRONG_OR_MISSING_KEY,
            evidence="expired_key",
            remedy="new key at the issuer",
        ),
    ),
    "key repeated": (
        Gateway(
            status=401,
            body='{"error":{"message":"Incorrect API key provided: KEY.","code":"invalid_api_key"}}',
        ),
        Expected(category=Category.AUTH_WRONG_OR_MISSING_KEY, evidence="invalid_api_key", remedy=NEW_KEY),
    ),
    "key refused with 403": (
        Gateway(status=403, body='{"error":{"message":"key KEY may not use this","type":"forbidden"}}'),
        Expected(category=Category.AUTH_WRONG_OR_MISSING_KEY, evidence="forbidden", remedy=NEW_KEY),
    ),
    "quota used up": (
        Gateway(
            status=429,
            body='{"error":{"message":"You exceeded your current quota","type":"insufficient_quota",'
            '"param":null,"code":"insufficient_quota"}}',
        ),
        Expected(category=Category.RATE_LIMITED, evidence="insufficient_quota", remedy="top up"),
    ),
    "504 page": (
        Gateway(
            status=504,
            body="<html><head><title>504 Gateway Time-out</title></head><body>nginx</body></html>",
            headers={"Content-Type": "text/html"},
        ),
        Expected(
            category=Category.UPSTREAM_DOWN_BEHIND_PROXY,
            evidence="504 Gateway Time-out",
            remedy="server behind it",
        ),
    ),
}


@pytest.mark.parametrize(("gateway", "expected"), GATEWAYS.values(), ids=GATEWAYS.keys())
def test_gateway_is_named_by_all_three(
    gateway: Gateway, expected: Expected, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(gateway) as url:
        _check(url, expected, capsys)


# What probe and doctor call it: the probe only knows that no stream came, the doctor what stands there.
NOT_AN_ANSWER: dict[str, tuple[Gateway, Category, Category, str]] = {
    "null": (Gateway(status=200, body="null"), Category.NULL_EVENT, Category.NULL_EVENT, "null"),
    "a page": (
        Gateway(status=200, body="<html><body>Log in</body></html>", headers={"Content-Type": "text/html"}),
        Category.MALFORMED_STREAM,
        Category.NOT_FOUND,
        "Log in",
    ),
}


@pytest.mark.parametrize(
    ("gateway", "probed", "examined", "shown"), NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER.keys()
)
def test_body_that_is_no_answer_never_passes(
    gateway: Gateway, probed: Category, examined: Category, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(gateway) as url:
        found = (_probe(url, capsys), _doctor(url, capsys))
    assert [category for category, _, _ in found] == [probed, examined]
    for _, evidence, remedy in found:
        assert shown in evidence
        assert remedy


def _dead_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# {dead} is a proxy on a port where nothing listens. The last of each: what the SDK's failure is called.
PROXY_SETTINGS: dict[str, tuple[dict[str, str], str, Category, Category]] = {
    "dead proxy": (
        {"HTTP_PROXY": "{dead}"},
        "HTTP_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "dead proxy for everything": (
        {"ALL_PROXY": "{dead}"},
        "ALL_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "NO_PROXY with the name alone": (
        {"HTTP_PROXY": "{dead}", "NO_PROXY": "localhost"},
        "HTTP_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "brackets in NO_PROXY": (
        {"HTTP_PROXY": "{dead}", "NO_PROXY": "[::1]"},
        "NO_PROXY",
        Category.PROXY_ENV_INVALID,
        # httpx2 reads the brackets, and then meets the dead proxy; a client on httpx cannot be built.
        Category.LOCAL_PROXY_FAILED if SDK_MAJOR >= 3 else Category.PROXY_ENV_INVALID,
    ),
    "SOCKS without its package": (
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        "ALL_PROXY",
        Category.PROXY_ENV_INVALID,
        Category.PROXY_ENV_INVALID,
    ),
    "no such scheme": (
        {"ALL_PROXY": "socks://127.0.0.1:9"},
        "ALL_PROXY",
        Category.PROXY_ENV_INVALID,
        Category.PROXY_ENV_INVALID,
    ),
}


@pytest.mark.parametrize(
    ("settings", "variable", "category", "in_sdk"), PROXY_SETTINGS.values(), ids=PROXY_SETTINGS.keys()
)
def test_proxy_variable_is_named_by_doctor_and_sdk_and_left_alone_by_the_probe(
    golden: GoldenServer,
    settings: dict[str, str],
    variable: str,
    category: Category,
    in_sdk: Category,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = f"http://127.0.0.1:{_dead_port()}"
    for name, value in settings.items():
        monkeypatch.setenv(name, value.format(dead=dead))
    found, evidence, remedy = _doctor(golden.base_url, capsys)
    assert found == category, evidence
    assert evidence.count(variable) >= 2, "in the cause and in the evidence"
    assert "unset" in remedy
    seen = _sdk(golden.base_url)
    assert seen.category is in_sdk, seen.paragraph()
    assert str(seen.figures["variable"]) in settings
    assert "unset" in seen.remedy
    assert main(["probe", "--base-url", golden.base_url, "--model", "golden", "--max-tokens", "2"]) == 0


def test_proxy_that_does_not_stand_in_the_way_is_no_finding(
    golden: GoldenServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{_dead_port()}")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1,::1")
    assert main(["doctor", "--json", "--base-url", golden.base_url, "--model", "golden"]) == 0
    assert json.loads(capsys.readouterr().out)["category"] == Category.OK
