# SPDX-License-Identifier: Apache-2.0
"""The golden engine's own counters, written out under vLLM's series names."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from vllm_perf.golden.profile import ServerOptions

FINISHED = ("stop", "length", "abort", "error", "repetition")
HISTOGRAMS = {
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per request.",
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
}


@dataclass(slots=True, kw_only=True)
class Counters:
    """What was served; ``sums`` holds (count, sum) of each histogram."""

    options: ServerOptions
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    cache_queries: int = 0
    cache_hits: int = 0
    preemptions: int = 0
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FINISHED, 0))
    sums: dict[str, tuple[int, float]] = field(default_factory=lambda: dict.fromkeys(HISTOGRAMS, (0, 0.0)))

    def observe(self, name: str, value: float, count: int = 1) -> None:
        """Add ``count`` observations that sum to ``value``."""
        before, total = self.sums[name]
        self.sums[name] = (before + count, total + value)

    def prompt(self, tokens: int, cached: int) -> None:
        """Count a prompt that was scheduled."""
        self.prompt_tokens += tokens
        self.cache_queries += tokens if self.options.prefix_caching else 0
        self.cache_hits += cached

    def render(self) -> bytes:
        """Return the Prometheus text exposition."""
        return ("\n".join(self._lines()) + "\n").encode()

    def _lines(self) -> Iterator[str]:
        labels = f'engine="0",model_name="{self.options.model}"'
        blocks = self.options.cache_blocks * self.options.block_size
        usage = min(1.0, self.running * 1.0 / blocks)
        yield from _series("num_requests_running", "gauge", labels, self.running)
        yield from _series("num_requests_waiting", "gauge", labels, self.waiting)
        yield from _series("kv_cache_usage_perc", "gauge", labels, usage)
        yield from _series("prefix_cache_queries", "counter", labels, self.cache_queries)
        yield from _series("prefix_cache_hits", "counter", labels, self.cache_hits)
        yield from _series("num_preemptions", "counter", labels, self.preemptions)
        yield from _series("prompt_tokens", "counter", labels, self.prompt_tokens)
        yield from _series("prompt_tokens_cached", "counter", labels, self.cache_hits)
        yield from _series("generation_tokens", "counter", labels, self.generation_tokens)
        yield from _head("request_success", "counter", "Count of successfully processed requests.")
        for reason, count in self.finished.items():
            both = f'engine="0",finished_reason="{reason}",model_name="{self.options.model}"'
            yield f"vllm:request_success_total{{{both}}} {float(count)}"
        for name, text in HISTOGRAMS.items():
            yield from _head(name, "histogram", text)
            count, total = self.sums[name]
            yield f'vllm:{name}_bucket{{{labels},le="+Inf"}} {float(count)}'
            yield f"vllm:{name}_count{{{labels}}} {float(count)}"
            yield f"vllm:{name}_sum{{{labels}}} {total}"
        yield from _head("cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        yield f"vllm:cache_config_info{{{self._cache_labels()}}} 1.0"

    def _cache_labels(self) -> str:
        options = self.options
        return (
            f'block_size="{options.block_size}",cache_dtype="auto",'
            f'enable_prefix_caching="{options.prefix_caching}",engine="0",gpu_memory_utilization="0.92",'
            f'kv_cache_size_tokens="{options.cache_blocks * options.block_size}",'
            f'num_cpu_blocks="None",num_gpu_blocks="{options.cache_blocks}"'
        )


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    total = "_total" if kind == "counter" else ""
    yield f"# HELP vllm:{name}{total} {text}"
    yield f"# TYPE vllm:{name}{total} {kind}"


def _series(name: str, kind: str, labels: str, value: float) -> Iterator[str]:
    yield from _head(name, kind, f"The golden engine's {name.replace('_', ' ')}.")
    yield f"vllm:{name}{'_total' if kind == 'counter' else ''}{{{labels}}} {float(value)}"
