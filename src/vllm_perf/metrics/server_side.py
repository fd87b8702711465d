# SPDX-License-Identifier: Apache-2.0
"""What the server counted during a run: the difference of two scrapes of ``/metrics``.

A series that is missing, or that went backwards, makes the metric unavailable; it is never 0.
"""

from collections.abc import Mapping

from vllm_perf.load.sample import Run
from vllm_perf.metrics.measurement import MetricUnavailable

# Newest name first; where both are exposed the newer one is read (cases H54, H55).
HITS = ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits")
QUERIES = ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries")
PREEMPTIONS = ("vllm:num_preemptions",)
KV_USAGE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
PROMPT_TOKENS = ("vllm:prompt_tokens",)
OUTPUT_TOKENS = ("vllm:generation_tokens",)
FINISHED = ("vllm:request_success",)
QUEUE = ("vllm:request_queue_time_seconds", "vllm:time_in_queue_requests")
PREFILL = ("vllm:request_prefill_time_seconds",)
DECODE = ("vllm:request_decode_time_seconds",)
MS_PER_S = 1e3

Names = tuple[str, ...]


def read(scrape: Mapping[str, float] | None, names: Names) -> float:
    """Return the newest of ``names`` (with or without ``_total``) in one scrape.

    Raises:
        MetricUnavailable: there was no scrape, or it holds none of them.
    """
    if not scrape:
        raise MetricUnavailable("the server's /metrics were not read, or held nothing")
    for name in names:
        for key in (f"{name}_total", name):
            if key in scrape:
                return scrape[key]
    raise MetricUnavailable(f"/metrics has no series {' or '.join(names)}")


def delta(run: Run, names: Names) -> float:
    """Return by how much a counter grew over the run.

    Raises:
        MetricUnavailable: a scrape or the series is missing, or the counter went backwards.
    """
    after = read(run.counters_after, names)
    grown = after - _before(run, names)
    if grown < 0:
        raise MetricUnavailable(f"{names[0]} went backwards by {-grown:g}: the server was restarted")
    return grown


def _before(run: Run, names: Names) -> float:
    # A labelled counter appears with its first count (request_success has no child before the first
    # request), so a series that only the second scrape holds started at 0; no first scrape is unknown.
    if not run.counters_before:
        raise MetricUnavailable("the server's /metrics were not read before the run")
    try:
        return read(run.counters_before, names)
    except MetricUnavailable:
        return 0.0


def prefix_hit_rate(run: Run) -> float:
    """Return a share. Formula: delta of prefix cache hits / delta of prefix cache queries (in tokens).

    Raises:
        MetricUnavailable: a series is missing, or nothing was looked up.
    """
    queries = delta(run, QUERIES)
    if queries <= 0:
        raise MetricUnavailable("no prefix was looked up: prefix caching is off, or nothing ran")
    return delta(run, HITS) / queries


def preemptions(run: Run) -> float:
    """Return how many requests were preempted during the run."""
    return delta(run, PREEMPTIONS)


def kv_usage(run: Run) -> float:
    """Return the share of KV blocks in use at the scrape after the run (of running requests only)."""
    return read(run.counters_after, KV_USAGE)


def queue_mean_ms(run: Run) -> float:
    """Return ms. Formula: delta of the queue time's sum / delta of its count."""
    return _mean_ms(run, QUEUE)


def prefill_mean_ms(run: Run) -> float:
    """Return ms. Formula: delta of the prefill time's sum / delta of its count."""
    return _mean_ms(run, PREFILL)


def decode_mean_ms(run: Run) -> float:
    """Return ms. Formula: delta of the decode time's sum / delta of its count."""
    return _mean_ms(run, DECODE)


def _mean_ms(run: Run, names: Names) -> float:
    count = delta(run, tuple(f"{name}_count" for name in names))
    if count <= 0:
        raise MetricUnavailable(f"{names[0]} counted no request")
    return delta(run, tuple(f"{name}_sum" for name in names)) / count * MS_PER_S
