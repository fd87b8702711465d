# SPDX-License-Identifier: Apache-2.0
"""Token counts by the server's tokenizer or by its usage."""

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.load.scripted import Asked, Play, Scripted
from vllm_perf.load.counting import CountRefused, TokenizeCounter, UsageCounter, counter_for
from vllm_perf.load.fetch import FetchError, fetch
from vllm_perf.load.plan import Target

MESSAGES = [{"role": "user", "content": "a b"}]


def answering(reply: Callable[[str, Any], tuple[int, Any]]) -> Play:
    """Return a play that answers JSON by path and question."""

    def play(sock: socket.socket, asked: Asked) -> bool:
        path = asked.line.split(" ")[1]
        status, data = reply(path, json.loads(asked.body) if asked.body else None)
        body = json.dumps(data).encode()
        sock.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))
        return True

    return play


def target(server: Scripted) -> Target:
    """Return the target of a scripted server."""
    return Target(base_url=server.base_url, model="m", api_key="k123456")


def tokenizer(path: str, data: Any) -> tuple[int, Any]:
    """Answer ``/tokenize`` with the length of the question, and no other path."""
    if path != "/tokenize":
        return 404, {"detail": "Not Found"}
    return 200, {"count": len(json.dumps(data)), "max_model_len": 4096}


def usage_only(path: str, data: Any) -> tuple[int, Any]:
    """Answer completions, as a server that is not vLLM."""
    if path == "/v1/chat/completions":
        return 200, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": data["max_tokens"]}}
    if path == "/v1/completions":
        return 200, {"choices": [], "usage": {"prompt_tokens": 3}}
    return 404, {"detail": "Not Found"}


def test_messages_are_counted_with_the_generation_prompt_a_request_has() -> None:
    with Scripted(answering(tokenizer)) as server:
        TokenizeCounter(target(server)).count(MESSAGES)
    assert json.loads(server.asked[0].body) == {
        "model": "m",
        "messages": MESSAGES,
        "add_generation_prompt": True,
    }
    assert server.asked[0].headers["authorization"] == "Bearer k123456"


def test_a_text_is_counted_as_a_prompt() -> None:
    with Scripted(answering(tokenizer)) as server:
        TokenizeCounter(target(server)).count("a b")
    assert json.loads(server.asked[0].body) == {"model": "m", "prompt": "a b"}


def test_counting_the_same_twice_asks_once() -> None:
    with Scripted(answering(tokenizer)) as server:
        counter = TokenizeCounter(target(server))
        assert counter.count(MESSAGES) == counter.count(MESSAGES)
    assert len(server.asked) == 1


def test_the_tokenizer_says_how_long_prompts_may_be() -> None:
    with Scripted(answering(tokenizer)) as server:
        counter = TokenizeCounter(target(server))
        counter.count("a")
    assert counter.max_model_len == 4096


def test_usage_is_read_from_a_request_for_one_token() -> None:
    with Scripted(answering(usage_only)) as server:
        assert UsageCounter(target(server)).count(MESSAGES) == 7
        assert UsageCounter(target(server)).count("text") == 3
    assert json.loads(server.asked[0].body)["max_tokens"] == 1


def test_a_server_with_a_tokenizer_is_asked_that_way() -> None:
    with Scripted(answering(tokenizer)) as server:
        assert counter_for(target(server)).sends_prompts is False


def test_a_server_without_one_is_asked_by_its_usage() -> None:
    with Scripted(answering(usage_only)) as server:
        assert counter_for(target(server)).sends_prompts is True


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_no_reason_to_try_another_way(status: int) -> None:
    with Scripted(answering(lambda path, data: (status, {"error": "no"}))) as server:
        with pytest.raises(CountRefused, match=str(status)):
            counter_for(target(server))
        assert len(server.asked) == 1


def test_a_dead_server_is_said_at_once() -> None:
    with pytest.raises(CountRefused, match="Connection refused"):
        counter_for(Target(base_url="http://127.0.0.1:9/v1", model="m"))


def test_an_answer_without_a_count_is_refused() -> None:
    with (
        Scripted(answering(lambda path, data: (200, {"tokens": []}))) as server,
        pytest.raises(CountRefused, match="holds no count"),
    ):
        TokenizeCounter(target(server)).count("a")


def test_an_answer_without_usage_is_refused() -> None:
    with (
        Scripted(answering(lambda path, data: (200, {"choices": []}))) as server,
        pytest.raises(CountRefused, match=r"holds no usage\.prompt_tokens"),
    ):
        UsageCounter(target(server)).count("a")


def test_usage_cannot_count_without_the_generation_prompt() -> None:
    with pytest.raises(CountRefused, match="without its generation prompt"):
        UsageCounter(Target(base_url="http://127.0.0.1:9/v1", model="m")).count(
            MESSAGES, generation_prompt=False
        )


def test_a_side_question_does_not_go_through_proxies_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Scripted(answering(tokenizer)) as server:
        assert TokenizeCounter(target(server)).count("a") > 0


def test_a_side_question_goes_through_the_proxy_asked_for() -> None:
    with Scripted(answering(lambda path, data: (200, {"path": path}))) as server:
        asked = Target(base_url="http://far.invalid/v1", model="m", proxy=f"http://127.0.0.1:{server.port}")
        assert fetch(asked, "http://far.invalid/metrics").json() == {"path": "http://far.invalid/metrics"}
    assert server.asked[0].headers["host"] == "far.invalid"


def test_a_key_no_header_may_hold_is_not_shown() -> None:
    with Scripted(answering(tokenizer)) as server:
        bad = Target(base_url=server.base_url, model="m", api_key="hunter2\n")
        with pytest.raises(FetchError) as caught:
            fetch(bad, server.base_url + "/models")
    assert "hunter2" not in str(caught.value)


def test_a_ca_file_that_is_not_there_is_an_answer_too() -> None:
    missing = Target(base_url="https://127.0.0.1:9/v1", model="m", ca_file="/nowhere/ca.pem")
    with pytest.raises(FetchError, match="No such file"):
        fetch(missing, "https://127.0.0.1:9/metrics")
