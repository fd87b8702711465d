# SPDX-License-Identifier: Apache-2.0
"""Read a server's ``/metrics`` into plain numbers; a series that is not there is not in the result."""

import json
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from vllm_perf.load.address import parse_address
from vllm_perf.load.fetch import FetchError, fetch
from vllm_perf.load.plan import Target

PREFIX = "vllm:"
# Old names of series that vLLM renamed (with and without the suffix that counters have in the text format).
RENAMED = {
    "vllm:gpu_cache_usage_perc": "vllm:kv_cache_usage_perc",
    "vllm:gpu_prefix_cache_queries": "vllm:prefix_cache_queries",
    "vllm:gpu_prefix_cache_hits": "vllm:prefix_cache_hits",
    "vllm:gpu_prefix_cache_queries_total": "vllm:prefix_cache_queries_total",
    "vllm:gpu_prefix_cache_hits_total": "vllm:prefix_cache_hits_total",
    "vllm:time_per_output_token_seconds": "vllm:inter_token_latency_seconds",
}
# Labels that are worth a number of their own beside the sum.
KEPT_LABELS = ("finished_reason", "source", "position")
# Gauges whose value is a share: adding engines up would make 160 % of two at 80 %.
SHARES = ("vllm:kv_cache_usage_perc", "vllm:gpu_prefix_cache_hit_rate", "vllm:cpu_prefix_cache_hit_rate")
SCRAPE_EMPTY = "SCRAPE_EMPTY: /metrics holds no vllm: series"


def scrape(target: Target, *, timeout_s: float = 5.0) -> dict[str, float] | None:
    """Return the server's counters and gauges by name, or ``None`` where it has no ``/metrics``.

    An answer without any ``vllm:`` series gives an empty dict (H56).
    """
    try:
        answer = fetch(target, parse_address(target.base_url).root + "/metrics", timeout_s=timeout_s)
    except FetchError:
        return None
    if not answer.ok:
        return None
    return parse_metrics(answer.body.decode("utf-8", "replace"))


def parse_metrics(text: str) -> dict[str, float]:
    """Return ``vllm:`` samples summed over engines and models; histograms as their ``_sum`` and ``_count``.

    Renamed series appear under their new name; where a server shows both, the new one counts (H54). Shares
    are averaged over engines. A label of ``KEPT_LABELS`` also gives ``name{label="value"}``. Text that is no
    metrics at all gives an empty dict.
    """
    values: dict[str, list[float]] = defaultdict(list)
    try:
        _collect(text_string_to_metric_families(text), values)
    except ValueError:
        return {}
    for old, new in RENAMED.items():
        for name in [known for known in values if _base(known) == old or known.startswith(old + "_")]:
            values.setdefault(new + name[len(old) :], values[name])
    return {name: _merged(name, found) for name, found in values.items()}


def cache_config(text: str) -> dict[str, str]:
    """Return the labels of ``vllm:cache_config_info``, which say what the engine really runs with."""
    try:
        for family in text_string_to_metric_families(text):
            if family.name.startswith("vllm:cache_config"):
                return {key: value for sample in family.samples for key, value in sample.labels.items()}
    except ValueError:
        return {}
    return {}


def running(counters: dict[str, float]) -> float | None:
    """Return how many requests the server runs or keeps waiting; ``None`` where it does not say."""
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting")
    found = [counters[name] for name in names if name in counters]
    return sum(found) if found else None


def _collect(families: Iterable[Metric], values: dict[str, list[float]]) -> None:
    for family in families:
        if not family.name.startswith(PREFIX) or family.name.endswith("_info"):
            continue
        for sample in family.samples:
            if sample.name.endswith(("_bucket", "_created")):
                continue
            values[sample.name].append(float(sample.value))
            for label in KEPT_LABELS:
                if label in sample.labels:
                    key = f"{sample.name}{{{label}={json.dumps(sample.labels[label])}}}"
                    values[key].append(float(sample.value))


def _base(name: str) -> str:
    return name.partition("{")[0]


def _merged(name: str, found: list[float]) -> float:
    return sum(found) / len(found) if _base(name) in SHARES else sum(found)
