# SPDX-License-Identifier: Apache-2.0
"""Which metrics of two channels may stand side by side, and why the others may not."""

from collections.abc import Callable, Sequence

from vllm_perf.channel.side import Side
from vllm_perf.load.sample import Run
from vllm_perf.metrics.table import Metric
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import WorkloadSpec

SAME_LENGTH = 0.01
SAME_CHUNKS = 0.05
RATES = ("output_throughput", "request_throughput", "total_throughput", "goodput")
OF_SERVER = ("prefix_hit_rate", "preemptions", "kv_usage", "queue_mean", "prefill_mean", "decode_mean")
ARRIVALS = ("ttft", "ttfa", "tpot", "itl")
REPEATING_KINDS = ("text",)
Rule = Callable[[Metric, Side, WorkloadSpec], str | None]


def not_comparable(metric: Metric, base: Side, other: Side, workload: WorkloadSpec) -> str | None:
    """Return why this metric of two channels may not be compared, ``None`` where it may."""
    for side in (base, other):
        for rule in RULES:
            reason = rule(metric, side, workload)
            if reason is not None:
                return reason
    return _unlike(metric, base, other, workload)


def own_reason(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    """Return why one channel alone has no such value that means anything."""
    return next((reason for rule in RULES if (reason := rule(metric, side, workload)) is not None), None)


def _needs_usage(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    counts = metric.needs_tokens or metric.name.startswith(("output_throughput", "total_throughput"))
    return (
        f"{side.name} sends no usage: its tokens are not counted" if counts and not side.facts.usage else None
    )


def _needs_stream(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    if side.facts.buffered and metric.name.startswith(ARRIVALS):
        return f"{side.name}'s stream is buffered on the way: arrivals are not the server's"
    return None


def _needs_open_reasoning(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    if side.facts.hidden_reasoning and metric.name.startswith("ttft"):
        return f"{side.name} hides its reasoning: its first generated token is not shown"
    return None


def _needs_metrics(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    inside = metric.name in OF_SERVER or metric.name.startswith(("server_", "outside_server"))
    return f"{side.name} shows no /metrics" if inside and not side.facts.metrics else None


def _needs_free_run(metric: Metric, side: Side, workload: WorkloadSpec) -> str | None:
    if not metric.name.startswith(RATES):
        return None
    if any(one.outcome is Category.RATE_LIMITED for run in side.runs for one in run.samples):
        return f"{side.name} refused requests (429): the rate is that of its limit"
    if workload.arrival.max_rate_per_s is not None:
        return "the load kept to a rate limit, for all channels alike: the rate is that of the limit"
    return None


RULES: tuple[Rule, ...] = (
    _needs_usage,
    _needs_stream,
    _needs_open_reasoning,
    _needs_metrics,
    _needs_free_run,
)


def _unlike(metric: Metric, base: Side, other: Side, workload: WorkloadSpec) -> str | None:
    if metric.name.startswith(("e2el", *RATES)):
        return _lengths(base, other)
    if metric.name.startswith("itl"):
        return _chunks(base, other)
    if metric.name.startswith(("ttft", "ttfa")) and workload.prompt.kind in REPEATING_KINDS:
        return _caches(base, other)
    return None


def _lengths(base: Side, other: Side) -> str | None:
    """Work done must be equal before its time is compared."""
    a, b = mean_output(base.runs), mean_output(other.runs)
    if a is None or b is None:
        return f"the answers' lengths are not known on {base.name if a is None else other.name}"
    if abs(a - b) > SAME_LENGTH * max(a, b):
        return f"answers are {a:.1f} tokens long on {base.name}, {b:.1f} on {other.name}"
    return None


def _chunks(base: Side, other: Side) -> str | None:
    a, b = base.facts.tokens_per_chunk, other.facts.tokens_per_chunk
    if a is None or b is None:
        return f"tokens per chunk are not known on {base.name if a is None else other.name}"
    if abs(a - b) > SAME_CHUNKS * max(a, b):
        return (
            f"a chunk is {a:.2f} tokens on {base.name}, {b:.2f} on {other.name}: gaps are not between tokens"
        )
    return None


def _caches(base: Side, other: Side) -> str | None:
    if base.cache.caches != other.cache.caches and None not in (base.cache.caches, other.cache.caches):
        who = base.name if base.cache.caches else other.name
        return f"the workload repeats its prompt and only {who} caches prompts"
    return None


def mean_output(runs: Sequence[Run]) -> float | None:
    """Return the mean output length by ``usage`` of the requests that succeeded, ``None`` without counts."""
    done = [sample for run in runs for sample in run.samples if sample.ok]
    if not done or any(sample.token_source != "usage" for sample in done):
        return None
    return sum(sample.output_tokens or 0 for sample in done) / len(done)
