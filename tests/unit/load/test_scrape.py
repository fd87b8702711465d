# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` in every dialect."""

import pytest

from tests.unit.load.scripted import Scripted, saying
from vllm_perf.load.plan import Target
from vllm_perf.load.scrape import cache_config, parse_metrics, running, scrape

COUNTERS = """\
# TYPE vllm:prompt_tokens counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 100.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 50.0
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7e+09
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 4.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 1.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.1
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 2.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 3.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.6
vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 3.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",engine="0"} 1.0
# TYPE python_gc_objects_collected counter
python_gc_objects_collected_total{generation="0"} 9.0
"""


def gauge(name: str, value: float) -> str:
    """Return a gauge in the text format."""
    return f'# TYPE {name} gauge\n{name}{{model_name="m"}} {value}\n'


def test_labels_are_summed() -> None:
    assert parse_metrics(COUNTERS)["vllm:prompt_tokens_total"] == 150


def test_reasons_of_finishing_also_have_numbers_of_their_own() -> None:
    found = parse_metrics(COUNTERS)
    assert found["vllm:request_success_total"] == 5
    assert found['vllm:request_success_total{finished_reason="length"}'] == 4


def test_shares_are_averaged_over_engines() -> None:
    assert parse_metrics(COUNTERS)["vllm:kv_cache_usage_perc"] == pytest.approx(0.3)


def test_histograms_are_their_sum_and_count() -> None:
    found = parse_metrics(COUNTERS)
    assert found["vllm:time_to_first_token_seconds_sum"] == 0.6
    assert found["vllm:time_to_first_token_seconds_count"] == 3
    assert not any("bucket" in name or "created" in name for name in found)


def test_only_series_of_vllm_are_kept() -> None:
    assert all(name.startswith("vllm:") for name in parse_metrics(COUNTERS))


def test_the_cache_configuration_is_read_from_its_labels() -> None:
    assert cache_config(COUNTERS)["enable_prefix_caching"] == "True"


def test_h54_the_old_name_of_kv_usage_is_the_new_one() -> None:
    assert parse_metrics(gauge("vllm:gpu_cache_usage_perc", 0.4))["vllm:kv_cache_usage_perc"] == 0.4


def test_h54_with_both_names_the_new_one_counts() -> None:
    text = gauge("vllm:gpu_cache_usage_perc", 0.4) + gauge("vllm:kv_cache_usage_perc", 0.7)
    assert parse_metrics(text)["vllm:kv_cache_usage_perc"] == 0.7


def test_h54_with_neither_name_it_is_absent() -> None:
    assert "vllm:kv_cache_usage_perc" not in parse_metrics(gauge("vllm:num_requests_running", 0))


def test_h55_old_names_of_the_prefix_cache_counters_are_the_new_ones() -> None:
    text = (
        "# TYPE vllm:gpu_prefix_cache_queries counter\n"
        'vllm:gpu_prefix_cache_queries_total{engine="0"} 7000.0\n'
        "# TYPE vllm:gpu_prefix_cache_hits counter\n"
        'vllm:gpu_prefix_cache_hits_total{engine="0"} 3000.0\n'
    )
    found = parse_metrics(text)
    assert found["vllm:prefix_cache_hits_total"] / found["vllm:prefix_cache_queries_total"] == 3 / 7


def test_h55_the_hit_rate_gauge_of_v0_does_not_become_a_counter() -> None:
    found = parse_metrics(gauge("vllm:gpu_prefix_cache_hit_rate", 0.43))
    assert found == {"vllm:gpu_prefix_cache_hit_rate": 0.43}


@pytest.mark.parametrize("text", ["", "python_gc_objects_collected_total 1.0\n"])
def test_h56_metrics_without_vllm_series_are_empty_and_not_an_error(text: str) -> None:
    assert parse_metrics(text) == {}


@pytest.mark.parametrize("text", ["<html>busy</html>", "vllm:x{a=\n", "\x00\x01"])
def test_text_that_is_no_metrics_is_empty(text: str) -> None:
    assert parse_metrics(text) == {}


def test_running_and_waiting_requests_are_added() -> None:
    found = parse_metrics(gauge("vllm:num_requests_running", 2) + gauge("vllm:num_requests_waiting", 3))
    assert running(found) == 5


def test_a_server_that_does_not_say_what_runs_is_not_idle_by_that() -> None:
    assert running({}) is None


def answer(status: int, text: str) -> bytes:
    """Return a whole HTTP answer."""
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text.encode())


def test_the_scrape_goes_to_the_servers_root_with_the_key() -> None:
    with Scripted(saying(answer(200, COUNTERS))) as server:
        found = scrape(Target(base_url=server.base_url, model="m", api_key="k123456"))
    assert found is not None
    assert found["vllm:prompt_tokens_total"] == 150
    assert server.asked[0].line == "GET /metrics HTTP/1.1"
    assert server.asked[0].headers["authorization"] == "Bearer k123456"


def test_a_server_without_metrics_gives_none() -> None:
    with Scripted(saying(answer(404, "{}"))) as server:
        assert scrape(Target(base_url=server.base_url, model="m")) is None


def test_a_scrape_that_gets_no_answer_is_given_up() -> None:
    with Scripted(lambda sock, asked: False) as server:
        server.play = lambda sock, asked: server.gate.wait()
        assert scrape(Target(base_url=server.base_url, model="m"), timeout_s=0.1) is None


def test_a_dead_server_gives_none() -> None:
    assert scrape(Target(base_url="http://127.0.0.1:9/v1", model="m")) is None
