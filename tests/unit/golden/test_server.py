# SPDX-License-Identifier: Apache-2.0
"""The golden engine's endpoints answer as vLLM's do, and its counters are true."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from vllm_perf.golden import GoldenServer, Profile, ServerOptions

KEY = "not-a-real-key"
QUICK = Profile(ttft_ms=1, itl_ms=0.5)
CHAT = "/v1/chat/completions"


@pytest.fixture
def server() -> Iterator[GoldenServer]:
    with GoldenServer(QUICK) as running:
        yield running


def _ask(
    server: GoldenServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(server.options.host, server.port, timeout=10)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, body=data, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _json(server: GoldenServer, method: str, path: str, body: Any = None) -> Any:
    return json.loads(_ask(server, method, path, body)[1])


def _chat(words: str = "hello there", **more: Any) -> dict[str, Any]:
    return {"model": "golden", "messages": [{"role": "user", "content": words}], **more}


def _metric(server: GoldenServer, name: str) -> float:
    text = _ask(server, "GET", "/metrics")[1].decode()
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith((f"{name}{{", f"{name} "))
    )


def test_health_and_version_answer(server: GoldenServer) -> None:
    assert _ask(server, "GET", "/health") == (200, b"")
    assert "golden" in _json(server, "GET", "/version")["version"]


def test_models_name_the_model_and_its_length(server: GoldenServer) -> None:
    (model,) = _json(server, "GET", "/v1/models")["data"]
    assert (model["id"], model["max_model_len"], model["owned_by"]) == ("golden", 131_072, "vllm")


def test_an_unknown_path_and_a_wrong_method_answer_as_fastapi_does(server: GoldenServer) -> None:
    assert _ask(server, "POST", "/chat/completions", _chat()) == (404, b'{"detail":"Not Found"}')
    assert _ask(server, "GET", CHAT) == (405, b'{"detail":"Method Not Allowed"}')


def test_a_wrong_model_answers_vllms_own_body(server: GoldenServer) -> None:
    status, body = _ask(server, "POST", CHAT, _chat() | {"model": "x"})
    assert status == 404
    inner = b'"message":"The model `x` does not exist.","type":"NotFoundError","param":"model","code":404'
    assert body == b'{"error":{' + inner + b"}}"


def test_only_v1_asks_for_the_key_and_the_scheme_is_read_in_any_case() -> None:
    with GoldenServer(QUICK, ServerOptions(api_key=KEY)) as server:
        assert _ask(server, "GET", "/v1/models") == (401, b'{"error":"Unauthorized"}')
        assert _ask(server, "GET", "/v1/models", headers={"Authorization": f"bearer {KEY}"})[0] == 200
        assert _ask(server, "GET", "/v1/models", headers={"Authorization": "Bearer other"})[0] == 401
        assert _ask(server, "GET", "/health")[0] == 200


def test_a_prompt_counts_its_words_and_the_template(server: GoldenServer) -> None:
    # system: 3 + 2 words; user: 3 + 3 words; 2 to open the answer.
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one two three"}]
    found = _json(server, "POST", "/tokenize", {"messages": messages})
    assert (found["count"], len(found["tokens"]), found["max_model_len"]) == (13, 13, 131_072)
    assert _json(server, "POST", "/tokenize", {"prompt": "one two three"})["count"] == 3


def test_tokens_can_be_turned_back_into_words(server: GoldenServer) -> None:
    tokens = _json(server, "POST", "/tokenize", {"prompt": "hello t123 world"})["tokens"]
    assert tokens[1] == 123
    assert _json(server, "POST", "/detokenize", {"tokens": tokens})["prompt"] == "hello t123 world"


def test_an_answer_without_stream_has_exact_usage(server: GoldenServer) -> None:
    answer = _json(server, "POST", CHAT, _chat(max_tokens=4))
    assert answer["usage"]["prompt_tokens"] == 2 + 3 + 2
    assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (4, "length")
    assert len(answer["choices"][0]["message"]["content"].split()) == 4


def test_the_model_stops_by_itself_unless_told_to_ignore_the_end() -> None:
    with GoldenServer(Profile(ttft_ms=1, itl_ms=0.5, stop_after=3)) as server:
        stopped = _json(server, "POST", CHAT, _chat(max_tokens=8))
        forced = _json(server, "POST", CHAT, _chat(max_tokens=8, ignore_eos=True))
    assert (stopped["usage"]["completion_tokens"], stopped["choices"][0]["finish_reason"]) == (3, "stop")
    assert (forced["usage"]["completion_tokens"], forced["choices"][0]["finish_reason"]) == (8, "length")


def test_a_prompt_that_does_not_fit_is_refused_and_an_output_is_cut_to_fit() -> None:
    with GoldenServer(QUICK, ServerOptions(max_model_len=16)) as server:
        status, body = _ask(server, "POST", CHAT, _chat("w " * 20))
        assert (status, b"maximum context length is 16 tokens" in body) == (400, True)
        fitted = _json(server, "POST", CHAT, _chat("w " * 5, max_tokens=100, ignore_eos=True))
        # 5 words + 3 + 2 leave 6 of 16.
        assert fitted["usage"]["completion_tokens"] == 6


def test_counters_tell_requests_tokens_and_cache_hits(server: GoldenServer) -> None:
    for _ in range(2):
        _ask(server, "POST", CHAT, _chat("w " * 60, max_tokens=4, stream=True))
    # 65 prompt tokens each; the second finds 4 whole blocks of 16, the last token never counts.
    assert _metric(server, "vllm:prompt_tokens_total") == 130
    assert _metric(server, "vllm:generation_tokens_total") == 8
    assert _metric(server, "vllm:prefix_cache_queries_total") == 130
    assert _metric(server, "vllm:prefix_cache_hits_total") == 64
    assert (
        _metric(server, 'vllm:request_success_total{engine="0",finished_reason="length",model_name="golden"}')
        == 2
    )
    assert _metric(server, "vllm:time_to_first_token_seconds_count") == 2
    assert _metric(server, "vllm:num_requests_running") == 0


def test_a_reset_cache_is_cold(server: GoldenServer) -> None:
    _ask(server, "POST", CHAT, _chat("w " * 60, max_tokens=1))
    assert _ask(server, "POST", "/reset_prefix_cache")[0] == 200
    _ask(server, "POST", CHAT, _chat("w " * 60, max_tokens=1))
    assert _metric(server, "vllm:prefix_cache_hits_total") == 0


def test_without_prefix_caching_nothing_is_queried() -> None:
    with GoldenServer(QUICK, ServerOptions(prefix_caching=False)) as server:
        for _ in range(2):
            _ask(server, "POST", CHAT, _chat("w " * 60, max_tokens=1))
        assert _metric(server, "vllm:prefix_cache_queries_total") == 0
        assert b'enable_prefix_caching="False"' in _ask(server, "GET", "/metrics")[1]


def test_requests_beyond_max_num_seqs_wait_their_turn() -> None:
    with GoldenServer(Profile(ttft_ms=20, itl_ms=1), ServerOptions(max_num_seqs=1)) as server:
        threads = [
            threading.Thread(target=_ask, args=(server, "POST", CHAT, _chat(max_tokens=2, stream=True)))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        records = sorted(server.records.all(), key=lambda record: record.scheduled_ns or 0)
        assert server.records.peak_in_flight == 1
        for before, after in pairwise(records):
            assert (after.scheduled_ns or 0) >= (before.ended_ns or 0) > 0


def test_a_client_that_leaves_is_counted_as_aborted(server: GoldenServer) -> None:
    body = json.dumps(_chat(max_tokens=1000, stream=True, golden={"itl_ms": 20})).encode()
    connection = http.client.HTTPConnection(server.options.host, server.port, timeout=10)
    connection.request("POST", CHAT, body=body, headers={"X-Request-Id": "gone"})
    connection.getresponse().read(1)
    connection.close()
    _until(lambda: not _metric(server, "vllm:num_requests_running"))
    assert server.record("gone").finish == "abort"
    assert server.counters.finished["abort"] == 1


def test_a_request_asks_for_its_timing_in_body_header_or_url(server: GoldenServer) -> None:
    asked: dict[str, Any] = {"stream": True, "max_tokens": 4, "golden": {"tokens_per_chunk": 4}}
    _ask(server, "POST", CHAT, _chat(**asked), {"X-Request-Id": "body"})
    _ask(
        server,
        "POST",
        CHAT,
        _chat(stream=True, max_tokens=4),
        {"X-Request-Id": "head", "X-Golden-Tokens-Per-Chunk": "2"},
    )
    _ask(
        server,
        "POST",
        f"/golden/tokens_per_chunk=3{CHAT}",
        _chat(stream=True, max_tokens=4),
        {"X-Request-Id": "url"},
    )
    assert [list(server.record(id).tokens) for id in ("body", "head", "url")] == [[4], [2, 2], [3, 1]]


@pytest.mark.parametrize(
    "wish", [{"ttft": 1}, {"ttft_ms": "soon"}, {"tokens_per_chunk": 1.5}, {"fault": "H999"}]
)
def test_a_wish_that_does_not_exist_is_refused(server: GoldenServer, wish: dict[str, Any]) -> None:
    status, body = _ask(server, "POST", CHAT, _chat(golden=wish))
    assert (status, b"golden: " in body) == (400, True)


def test_what_is_no_http_is_refused_and_the_engine_lives_on(server: GoldenServer) -> None:
    assert _ask(server, "POST", CHAT, [1, 2])[0] == 400
    assert _ask(server, "BREW", "/v1/models")[0] == 405
    assert _ask(server, "GET", "/health")[0] == 200


def test_records_come_as_json_lines_and_one_by_one(server: GoldenServer) -> None:
    _ask(server, "POST", CHAT, _chat(stream=True, max_tokens=3), {"X-Request-Id": "r1"})
    (line,) = _ask(server, "GET", "/golden/records")[1].splitlines()
    assert json.loads(line) == _json(server, "GET", "/golden/record?id=r1")
    assert len(json.loads(line)["sent_ns"]) == 3
    assert _ask(server, "GET", "/golden/record?id=none")[0] == 404


def test_the_port_is_free_after_the_context() -> None:
    with GoldenServer(QUICK) as server:
        port = server.port
    with GoldenServer(QUICK, ServerOptions(port=port)) as again:
        assert _ask(again, "GET", "/health")[0] == 200


@pytest.mark.parametrize("stream", [True, False])
def test_histograms_know_the_first_token_of_streamed_and_whole_answers(stream: bool) -> None:
    with GoldenServer(Profile(ttft_ms=20, itl_ms=10)) as server:
        _ask(server, "POST", CHAT, _chat(max_tokens=5, stream=stream))
        assert _metric(server, "vllm:inter_token_latency_seconds_count") == 4
        # 20 ms to the first token, then 4 gaps of 10 ms.
        assert 0.020 <= _metric(server, "vllm:time_to_first_token_seconds_sum") < 0.055
        assert _metric(server, "vllm:e2e_request_latency_seconds_sum") >= 0.060


def test_per_request_metrics_ride_on_the_usage_chunk() -> None:
    with GoldenServer(QUICK, ServerOptions(per_request_metrics=True)) as server:
        body = _chat(max_tokens=3, stream=True, stream_options={"include_usage": True})
        events = _ask(server, "POST", CHAT, body)[1].split(b"\n\n")
    usage = next(json.loads(event[6:]) for event in events if b'"usage":{' in event)
    assert usage["metrics"]["time_to_first_token_ms"] >= 1
    assert usage["metrics"]["queue_time_ms"] == 0


def test_a_request_that_leaves_the_queue_is_an_abort_and_takes_no_slot() -> None:
    with GoldenServer(Profile(ttft_ms=60, itl_ms=1), ServerOptions(max_num_seqs=1)) as server:
        holder = threading.Thread(target=_ask, args=(server, "POST", CHAT, _chat(max_tokens=2, stream=True)))
        holder.start()
        _until(lambda: server.counters.running == 1)
        waiting = http.client.HTTPConnection(server.options.host, server.port, timeout=10)
        waiting.request("POST", CHAT, body=json.dumps(_chat(max_tokens=2, stream=True)).encode())
        _until(lambda: server.counters.waiting == 1)
        waiting.close()
        _until(lambda: server.counters.waiting == 0)
        holder.join()
        assert server.counters.finished == {"stop": 0, "length": 1, "abort": 1, "error": 0, "repetition": 0}
        assert _ask(server, "POST", CHAT, _chat(max_tokens=1))[0] == 200


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
