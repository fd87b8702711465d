# SPDX-License-Identifier: Apache-2.0
"""Every case over the wire, golden engine to ``vllm-perf probe``, against the engine's own record."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer
from vllm_perf.golden.faults import FAULTS
from vllm_perf.golden.records import Record

# A client can never see a token before the engine wrote it; a busy machine may make it see it much later.
EARLIEST_MS, LATEST_MS = -1.0, 100.0
SCALES = {"H24": 0.02, "H24-reasoning_content": 0.02, "late-usage": 0.4}
TIMEOUTS_S = {"stall": 0.4, "no-answer": 0.2}

OUTCOMES = {
    "H17": "IN_BAND_ERROR",
    "H18": "IN_BAND_ERROR",
    "H19": "NULL_EVENT",
    "H20": "NO_TOKEN",
    "H22": "TRUNCATED_STREAM",
    "H22-reset": "TRUNCATED_STREAM",
    "H27": "MAX_TOKENS_TOO_SMALL",
    "H10": "IN_BAND_ERROR",
    "H60": "NO_TOKEN",
    "clean-cut": "TRUNCATED_STREAM",
    "no-finish": "NO_FINISH_REASON",
    "stall": "ENGINE_STALLED",
    "no-answer": "ENGINE_STALLED",
    "reset-at-once": "CONNECTION_RESET",
    "closed-at-once": "CONNECTION_RESET",
    "finished-then-cut": "TRUNCATED_STREAM",
    "not-json": "MALFORMED_STREAM",
    "empty-200": "NO_TOKEN",
    "page-200": "MALFORMED_STREAM",
    "whole-200": "MALFORMED_STREAM",
    "error-string": "IN_BAND_ERROR",
    "H01": "AUTH_WRONG_OR_MISSING_KEY",
    "H02": "AUTH_WRONG_OR_MISSING_KEY",
    "H03": "AUTH_WRONG_OR_MISSING_KEY",
    "H03-old": "AUTH_WRONG_OR_MISSING_KEY",
    "H05": "MODEL_NOT_FOUND",
    "H05-nested": "MODEL_NOT_FOUND",
    "H05-null-param": "MODEL_NOT_FOUND",
    "H05-served": "MODEL_NOT_FOUND",
    "H07": "CONTEXT_OVERFLOW",
    "H07-nested": "CONTEXT_OVERFLOW",
    "H08": "CHAT_TEMPLATE_MISSING",
    "H08-nested": "CHAT_TEMPLATE_MISSING",
    "H09": "UPSTREAM_DOWN_BEHIND_PROXY",
    "H09-cloudflare": "UPSTREAM_DOWN_BEHIND_PROXY",
    "H11": "NOT_FOUND",
    "H11-401": "AUTH_WRONG_OR_MISSING_KEY",
    "H62": "RATE_LIMITED",
    "500": "ENGINE_DIED",
}
# Their outcome hangs on the base URL (tests of their own below), or on what a 503 means (tests of diagnosis).
ELSEWHERE = {"H04", "H06", "H06-no-v1", "H62-503"}
CASES = sorted(id for id, fault in FAULTS.items() if fault.scope != "metrics" and id not in ELSEWHERE)


@pytest.fixture(scope="module")
def server() -> Iterator[GoldenServer]:
    with GoldenServer() as running:
        yield running


def _probe(base_url: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    code = main(["probe", "--base-url", base_url, "--model", "golden", "--json", *more])
    return code, json.loads(capsys.readouterr().out)


def _probe_case(server: GoldenServer, case: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    server.records.clear()
    url = server.base_url_for(fault=case, time_scale=SCALES.get(case, 1))
    code, result = _probe(url, capsys, "--timeout-s", str(TIMEOUTS_S.get(case, 10)))
    assert (code == 0) == (result["outcome"] == "ok")
    return result


def _only_record(server: GoldenServer) -> Record:
    (record,) = server.records.all()
    return record


def test_there_are_cases_and_every_expected_outcome_is_of_one() -> None:
    assert len(CASES) >= 60
    assert set(OUTCOMES) <= set(CASES)
    assert set(FAULTS) >= ELSEWHERE


@pytest.mark.parametrize("case", CASES)
def test_case(case: str, server: GoldenServer, capsys: pytest.CaptureFixture[str]) -> None:
    result, record = _probe_case(server, case, capsys), _only_record(server)
    assert result["outcome"] == OUTCOMES.get(case, "ok")
    assert (result["detail"] is None, result["remedy"] is None) == (result["outcome"] == "ok",) * 2
    assert result["chunks"] == (20 if case == "H89" else len(record.tokens))
    assert (result["ttft_ms"] is None, result["e2el_ms"] is None) == (not record.tokens,) * 2
    if record.tokens:
        _compare_times(result, record)


def _compare_times(result: dict[str, Any], record: Record) -> None:
    true = {"ttft_ms": record.sent_ns[0], "e2el_ms": record.sent_ns[-1]}
    if record.answer_index is None:
        assert result["ttfa_ms"] is None
    else:
        true["ttfa_ms"] = record.sent_ns[record.answer_index]
    for name, sent_ns in true.items():
        assert EARLIEST_MS < result[name] - (sent_ns - record.received_ns) / 1e6 < LATEST_MS
    if result["token_source"] == "usage":
        assert result["output_tokens"] == record.output_tokens


@pytest.mark.parametrize(
    ("case", "path", "outcome"),
    [
        ("H04", "", "BASE_URL_MISSING_V1"),
        ("H06-no-v1", "", "BASE_URL_MISSING_V1"),
        ("H06", "/v1/chat/completions", "BASE_URL_HAS_ENDPOINT"),
        ("H06", "/v1/v1", "BASE_URL_HAS_ENDPOINT"),
    ],
)
def test_a_wrong_base_url_is_named_with_the_right_one(
    case: str, path: str, outcome: str, server: GoldenServer, capsys: pytest.CaptureFixture[str]
) -> None:
    root = server.base_url_for(fault=case).removesuffix("/v1")
    _, result = _probe(root + path, capsys)
    assert result["outcome"] == outcome
    assert "/v1" in result["remedy"]
    assert not result["remedy"].rstrip("/").endswith(("completions", "/v1/v1"))


def test_h04_on_an_engine_that_is_well(server: GoldenServer, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = _probe(server.root_url, capsys)
    assert (result["outcome"], server.base_url in result["remedy"]) == ("BASE_URL_MISSING_V1", True)


def test_h05_names_the_model_that_is_served(server: GoldenServer, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["probe", "--base-url", server.base_url, "--model", "gold", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["outcome"]) == (1, "MODEL_NOT_FOUND")
    assert "--model golden" in result["remedy"]


def test_h62_nothing_is_ever_sent_twice(server: GoldenServer, capsys: pytest.CaptureFixture[str]) -> None:
    for case in ("H62", "H62-503", "500", "reset-at-once", "closed-at-once"):
        before = server.requests_seen
        _probe_case(server, case, capsys)
        assert server.requests_seen == before + 1


def test_text_completions_go_the_same_way(server: GoldenServer, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = _probe(server.base_url, capsys, "--endpoint", "completions", "--max-tokens", "3")
    assert (code, result["output_tokens"], result["chunks"]) == (0, 3, 3)
