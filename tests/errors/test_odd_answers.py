# SPDX-License-Identifier: Apache-2.0
"""What real vLLM cannot be made to answer: gateways' bodies, cut streams, null; asked in all three ways."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.errors.gateways import Gateway, running
from tests.errors.three_ways import KEY, doctor, prepare_environment, probe, sdk
from vllm_perf.golden import GoldenServer
from vllm_perf.spec.category import Category

# A few requests to this very machine; the rest is what a busy machine adds.
NOTICED_WITHIN_S = 10.0


@pytest.fixture(scope="module")
def golden() -> Iterator[GoldenServer]:
    with GoldenServer() as server:
        yield server


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_environment(monkeypatch)


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


def _check(url: str, expected: Expected, capsys: pytest.CaptureFixture[str]) -> None:
    started = time.monotonic()
    for category, evidence, remedy in (probe(url, capsys), doctor(url, capsys)):
        assert category == expected.category, evidence
        assert expected.evidence in evidence
        assert expected.remedy in remedy
    assert time.monotonic() - started < NOTICED_WITHIN_S
    if expected.sdk:
        found = sdk(url)
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
        found = (probe(url, capsys), doctor(url, capsys))
    assert [category for category, _, _ in found] == [probed, examined]
    for _, evidence, remedy in found:
        assert shown in evidence
        assert remedy
