# SPDX-License-Identifier: Apache-2.0
"""``/metrics`` in the dialects and states of the project's case list."""

from vllm_perf.golden.fault import TEXT, Fault, answer

PYTHON_ONLY = (
    "# HELP python_gc_objects_collected_total Objects collected during gc\n"
    "# TYPE python_gc_objects_collected_total counter\n"
    'python_gc_objects_collected_total{generation="0"} 24137.0\n'
    "# HELP process_open_fds Number of open file descriptors.\n"
    "# TYPE process_open_fds gauge\n"
    "process_open_fds 61.0\n"
)


def _gauge(name: str, value: str) -> str:
    return f'# HELP vllm:{name} x\n# TYPE vllm:{name} gauge\nvllm:{name}{{model_name="m"}} {value}\n'


def _counter(name: str, value: str) -> str:
    return f'# HELP vllm:{name} x\n# TYPE vllm:{name} counter\nvllm:{name}{{model_name="m"}} {value}\n'


def _case(id: str, title: str, body: str) -> Fault:
    return answer(id, title, 200, body, headers=TEXT, scope="metrics")


CASES: tuple[Fault, ...] = (
    _case("H54", "KV usage under its new name", _gauge("kv_cache_usage_perc", "0.25")),
    _case("H54-old", "KV usage under its old name", _gauge("gpu_cache_usage_perc", "0.5")),
    _case(
        "H54-both",
        "KV usage under both names",
        _gauge("gpu_cache_usage_perc", "0.5") + _gauge("kv_cache_usage_perc", "0.25"),
    ),
    _case("H54-none", "no KV usage", _gauge("num_requests_running", "0.0")),
    _case(
        "H55",
        "prefix cache counters",
        _counter("prefix_cache_queries_total", "7000.0") + _counter("prefix_cache_hits_total", "3000.0"),
    ),
    _case(
        "H55-old",
        "prefix cache counters under their old names",
        _counter("gpu_prefix_cache_queries_total", "7000.0")
        + _counter("gpu_prefix_cache_hits_total", "3000.0"),
    ),
    _case("H55-v0", "hit rate as a gauge", _gauge("gpu_prefix_cache_hit_rate", "0.43")),
    _case("H56", "no series of vLLM", PYTHON_ONLY),
    _case("H56-empty", "an empty scrape", ""),
    _case(
        "H57",
        "no KV usage although blocks stay cached",
        _gauge("kv_cache_usage_perc", "0.0")
        + _counter("prefix_cache_queries_total", "100.0")
        + _counter("prefix_cache_hits_total", "96.0"),
    ),
    _case("H67", "preemptions", _counter("num_preemptions_total", "3.0")),
)
