# SPDX-License-Identifier: Apache-2.0
"""The golden engine's parts: tokenizer, prefix cache, noise, profiles, clock, fault tables."""

import math
import statistics
import time
from itertools import pairwise
from typing import Any

import pytest

from vllm_perf.golden.fault_errors import CASES as ERRORS
from vllm_perf.golden.faults import FAULTS
from vllm_perf.golden.noise import NoiseSource
from vllm_perf.golden.prefix_cache import PrefixCache
from vllm_perf.golden.profile import Noise, Profile, ProfileError, ServerOptions, override
from vllm_perf.golden.reactor import Reactor
from vllm_perf.golden.tokenizer import Tokenizer


def test_words_are_tokens_and_the_same_word_is_the_same_token() -> None:
    tokens = Tokenizer().encode("the cat\nand  the dog t7")
    assert len(tokens) == 6
    assert (tokens[0], tokens[5]) == (tokens[3], 7)
    assert Tokenizer().encode("the")[0] == tokens[0]


def test_a_conversation_begins_as_its_shorter_self() -> None:
    tokenizer = Tokenizer()
    short: list[dict[str, Any]] = [{"role": "system", "content": "a b"}, {"role": "user", "content": "c"}]
    longer = [
        *short,
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": [{"type": "text", "text": "e"}]},
    ]
    first = tokenizer.encode_chat(short, add_generation_prompt=False)
    assert tokenizer.encode_chat(longer)[: len(first)] == first
    # Two words and one, 3 more a message.
    assert len(first) == 2 + 1 + 2 * 3


@pytest.mark.parametrize(
    ("tokens", "hits"), [(range(64), 48), (range(65), 64), (range(40), 32), (range(1, 65), 0), (range(16), 0)]
)
def test_whole_blocks_hit_but_never_the_last_token(tokens: range, hits: int) -> None:
    cache = PrefixCache(block_size=16, blocks=100)
    assert cache.take(range(80)) == 0
    assert cache.take(tokens) == hits


def test_a_full_cache_forgets_what_was_used_longest_ago() -> None:
    cache = PrefixCache(block_size=4, blocks=2)
    for start in (0, 100, 200):
        cache.take(range(start, start + 5))
    assert [cache.take(range(start, start + 5)) for start in (200, 100, 0)] == [4, 4, 0]


def test_no_noise_changes_nothing() -> None:
    source = NoiseSource(Noise(seed=1, boot=5))
    assert [source.request_factor() for _ in range(5)] == [1.0] * 5


def test_noise_has_the_spread_and_the_correlation_that_were_asked_for() -> None:
    source = NoiseSource(Noise(seed=1, request_sigma=0.1, autocorrelation=0.8))
    logs = [math.log(source.request_factor()) for _ in range(20_000)]
    assert statistics.stdev(logs) == pytest.approx(0.1, rel=0.1)
    assert statistics.correlation(logs[:-1], logs[1:]) == pytest.approx(0.8, abs=0.05)


def test_boots_differ_by_their_sigma_and_drift_grows_with_the_request() -> None:
    boots = [math.log(NoiseSource(Noise(boot=boot, boot_sigma=0.05)).boot_factor) for boot in range(2000)]
    assert statistics.stdev(boots) == pytest.approx(0.05, rel=0.1)
    source = NoiseSource(Noise(drift=0.01))
    assert [source.request_factor() for _ in range(3)] == pytest.approx([1.0, 1.01, 1.02])


def test_wishes_are_read_from_text_as_from_json() -> None:
    asked = override(
        Profile(), {"ttft_ms": "200", "tokens_per_chunk": "4", "role_ms": "none", "finish_apart": "true"}
    )
    assert asked == Profile(ttft_ms=200.0, tokens_per_chunk=4, role_ms=None, finish_apart=True)
    assert override(
        ServerOptions(), {"prefix_caching": False, "port": 8000, "api_key": "k"}
    ) == ServerOptions(prefix_caching=False, port=8000, api_key="k")


@pytest.mark.parametrize(
    "wish", [{"nope": 1}, {"ttft_ms": "soon"}, {"tokens_per_chunk": 1.5}, {"finish_apart": "yes"}]
)
def test_a_wrong_wish_is_named(wish: dict[str, object]) -> None:
    with pytest.raises(ProfileError, match=next(iter(wish))):
        override(Profile(), wish)


def test_timers_fire_in_the_order_of_their_times_and_never_early() -> None:
    reactor = Reactor()
    fired: list[tuple[int, int]] = []
    now = time.perf_counter_ns()
    for due in (now + 3_000_000, now + 1_000_000, now + 2_000_000):
        reactor.call_at(due, lambda due=due: fired.append((due, time.perf_counter_ns())))  # type: ignore[misc]
    reactor.call_at(now + 4_000_000, reactor.stop)
    reactor.run()
    reactor.close()
    assert [due - now for due, _ in fired] == [1_000_000, 2_000_000, 3_000_000]
    assert all(at >= due for due, at in fired)


def test_steps_of_every_fault_are_in_order_of_time_and_ids_are_unique() -> None:
    assert len(FAULTS) >= 70
    for fault in FAULTS.values():
        assert all(a.at_ms <= b.at_ms for a, b in pairwise(fault.steps)), fault.id


@pytest.mark.parametrize(
    ("id", "status", "body"),
    [
        ("H01", 401, '{"error":"Unauthorized"}'),
        ("H04", 404, '{"detail":"Not Found"}'),
        ("H05", 404, '{"object":"error","message":"The model `Qwen1.5-14B-Chat` does not exist.",'
         '"type":"NotFoundError","param":null,"code":404}'),
        ("H05-nested", 404, '{"error":{"message":"The model `x` does not exist.","type":"NotFoundError",'
         '"param":"model","code":404}}'),
        ("H11", 404, ""),
    ],
)  # fmt: skip
def test_error_bodies_are_byte_for_byte_those_of_the_case_list(id: str, status: int, body: str) -> None:
    (fault,) = [case for case in ERRORS if case.id == id]
    assert (fault.status, fault.body.decode()) == (status, body)


def test_stream_bytes_are_those_of_the_case_list() -> None:
    role = (
        b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
        b'"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
    )
    assert FAULTS["H12"].steps[0].data == role
    assert FAULTS["H16"].body.startswith(b"retry: 3000\n\ndata: {")
    assert FAULTS["H19"].body == b"data: null\n\ndata: [DONE]\n\n"
    assert FAULTS["H20"].body == b"data: [DONE]\n\n"
    assert FAULTS["H23"].body == FAULTS["H13"].body.replace(b"\n", b"\r\n")
