# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a run as the server counted it: caches, foreign traffic, another configuration."""

from collections.abc import Iterator

from vllm_perf.load.sample import Run
from vllm_perf.metrics import server_side
from vllm_perf.metrics.latency import NS_PER_MS, ttft_ns
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.percentiles import median
from vllm_perf.metrics.reasons import InvalidCode, InvalidReason, RunFacts
from vllm_perf.spec.workload import WorkloadSpec

Reasons = Iterator[InvalidReason]
# Kinds whose prompts are all different, so that a warm-up can and must use others.
OWN_PROMPTS = ("shared_prefix", "unique", "multi_turn")


def times_agree(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse times in which the client has a token before the server made it."""
    outside = [
        ttft - sample.server.queue_ns - sample.server.first_token_ns
        for sample in run.samples
        if sample.ok
        and sample.server is not None
        and sample.server.queue_ns is not None
        and sample.server.first_token_ns is not None
        and (ttft := ttft_ns(sample)) is not None
    ]
    if outside and (typical := median(outside)) < 0:
        yield InvalidReason(
            code=InvalidCode.TIMES_CONTRADICT,
            sentence=f"the client's TTFT is {-typical / NS_PER_MS:.2f} ms shorter than the server's own"
            " queue and first-token time (median)",
            remedy="one of the two clocks or definitions is wrong; report it with the raw samples",
        )


def hit_rate_in_band(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a cache state other than the workload says; an engine without prefix caching has none."""
    low, high = workload.hit_rate_min, workload.hit_rate_max
    if (low is None and high is None) or facts.prefix_caching is False:
        return
    band = f"{0.0 if low is None else low:.0%} to {1.0 if high is None else high:.0%}"
    rate = hit_rate(run)
    if rate is None and not facts.hit_rate_hidden:
        yield InvalidReason(
            code=InvalidCode.HIT_RATE,
            sentence=f"the prefix cache hit rate should be {band} but nobody reported it",
            remedy="serve /metrics, or start vLLM with --enable-prompt-tokens-details",
        )
    elif rate is not None and ((low is not None and rate < low) or (high is not None and rate > high)):
        yield InvalidReason(
            code=InvalidCode.HIT_RATE,
            sentence=f"the prefix cache hit rate was {rate:.1%}, the workload expects {band}",
            remedy="reset the caches before the run, and check that prompts are shared or unique as meant",
        )


def hit_rate(run: Run) -> float | None:
    """Return the share of prompt tokens found in the cache, by the server's counters or else by usage."""
    try:
        return server_side.prefix_hit_rate(run)
    except MetricUnavailable:
        pass
    pairs = [
        (sample.cached_tokens, sample.prompt_tokens)
        for sample in run.samples
        if sample.ok and sample.cached_tokens is not None and sample.prompt_tokens
    ]
    return sum(cached for cached, _ in pairs) / sum(prompt for _, prompt in pairs) if pairs else None


def counters_agree(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a run whose requests or tokens the server counted differently from the client.

    A failed request may or may not have been counted, and in part, so that failures widen what agrees.
    """
    done = [sample for sample in run.samples if sample.ok]
    yield from _compare(run, server_side.FINISHED, "requests", len(done), run.sent)
    if all(sample.token_source == "usage" for sample in done):
        output = sum(sample.output_tokens or 0 for sample in done)
        yield from _compare(run, server_side.OUTPUT_TOKENS, "output tokens", output, _or_more(run, output))
    if all(sample.prompt_tokens is not None for sample in done):
        prompt = sum(sample.prompt_tokens or 0 for sample in done)
        yield from _compare(run, server_side.PROMPT_TOKENS, "prompt tokens", prompt, _or_more(run, prompt))


def _or_more(run: Run, count: int) -> float:
    return float("inf") if run.failed else count


def _compare(run: Run, names: server_side.Names, what: str, least: float, most: float) -> Reasons:
    try:
        server_side.read(run.counters_after, names)
    except MetricUnavailable:
        return
    if not run.counters_before:
        return
    try:
        counted = server_side.delta(run, names)
    except MetricUnavailable as error:
        yield InvalidReason(
            code=InvalidCode.SERVER_RESTARTED,
            sentence=str(error),
            remedy="read the server's log for why it restarted, then measure again",
        )
        return
    if counted > most:
        yield InvalidReason(
            code=InvalidCode.FOREIGN_TRAFFIC,
            sentence=f"the server counted {counted:.0f} {what}, this client only {most:.0f}",
            remedy="someone else uses this server: measure when it is alone",
        )
    elif counted < least:
        yield InvalidReason(
            code=InvalidCode.LOST_REQUESTS,
            sentence=f"the server counted {counted:.0f} {what}, this client {least:.0f}",
            remedy="check that /metrics is that of the server under test, with all of its workers",
        )


def caches_fresh(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse caches that were to be reset and were not, and warm-ups that plant the measured prompts."""
    if workload.reset_caches and run.caches_reset is False:
        yield InvalidReason(
            code=InvalidCode.CACHES_NOT_RESET,
            sentence="the caches could not be reset before this repetition",
            remedy="start vLLM with VLLM_SERVER_DEV_MODE=1, or set reset_caches = false and say why",
        )
    measured = {sample.prompt_id for sample in run.samples}
    shared = measured & {sample.prompt_id for sample in run.warmup_samples}
    if shared and workload.prompt.kind in OWN_PROMPTS:
        yield InvalidReason(
            code=InvalidCode.WARMUP_SHARES_PROMPTS,
            sentence=f"{len(shared)} measured prompts had been sent as warm-up ({min(shared)})",
            remedy="warm up with prompts of the same shape that are not measured",
        )


def engine_as_asked(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse an engine that runs something else than its configuration says."""
    for problem in facts.engine_problems:
        yield InvalidReason(
            code=InvalidCode.ENGINE_NOT_AS_ASKED,
            sentence=problem,
            remedy="change the configuration to what the engine can run, or the machine",
        )


def gpu_clean(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a GPU that throttled, was shared, or changed its clocks."""
    for problem in facts.gpu_problems:
        yield InvalidReason(
            code=InvalidCode.GPU,
            sentence=problem,
            remedy="let the GPU cool, fix its clocks or free it, then measure again",
        )
