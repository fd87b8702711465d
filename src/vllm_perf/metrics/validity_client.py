# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a run as the client saw it: failures, lengths, lateness, its own limits."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.metrics.latency import NS_PER_MS, chunk_gaps_ns, ttft_ns
from vllm_perf.metrics.percentiles import median
from vllm_perf.metrics.reasons import InvalidCode, InvalidReason, RunFacts
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import WorkloadSpec

Reasons = Iterator[InvalidReason]
LATE_SHARE_OF_TTFT = 0.01
RATE_SHARE = 0.98
FLOOR_SHARE_OF_BUDGET = 0.10
STARVED_SHARE = 0.01
# Gaps this short between chunks are one read handed out in pieces: something on the way held them back.
BURST_GAP_NS = 100_000
BURST_SHARE = 0.5
BURST_MIN_GAPS = 8
NS_PER_S = 1e9


def failed_share(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a run in which more requests failed than the workload allows."""
    share = run.failed / run.sent
    if not run.failed or share <= workload.max_failed_share:
        return
    kinds = Counter(str(sample.outcome) for sample in run.samples if not sample.ok)
    listed = ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common())
    example = next((sample.detail for sample in run.samples if not sample.ok and sample.detail), None)
    yield InvalidReason(
        code=InvalidCode.TOO_MANY_FAILED,
        sentence=f"{run.failed} of {run.sent} requests failed ({listed}), allowed are"
        f" {workload.max_failed_share:.1%}" + (f"; the first said: {example}" if example else ""),
        remedy="remove the cause of the failures first; times of the rest say little",
    )


def prompt_lengths(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse prompts that the server counted differently from what the workload asked for."""
    wrong = [
        (sample.prompt_id, expected, sample.prompt_tokens)
        for sample in run.samples
        if sample.ok
        and sample.prompt_tokens is not None
        and (expected := run.expected_prompt_tokens.get(sample.prompt_id)) is not None
        and sample.prompt_tokens != expected
    ]
    if wrong:
        prompt, expected, seen = wrong[0]
        yield InvalidReason(
            code=InvalidCode.PROMPT_LENGTH,
            sentence=f"{len(wrong)} prompts had another length than asked (prompt {prompt}: asked"
            f" {expected} tokens, the server counted {seen})",
            remedy="check that the served model's tokenizer and chat template are those the prompts were"
            " built with",
        )


def output_lengths(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse answers that are shorter or longer than the pinned length."""
    pinned = run.pinned_output_tokens
    wrong = [
        sample.output_tokens
        for sample in run.samples
        if sample.ok and sample.output_tokens is not None and sample.output_tokens != pinned
    ]
    if pinned is not None and wrong:
        yield InvalidReason(
            code=InvalidCode.OUTPUT_LENGTH,
            sentence=f"{len(wrong)} answers did not have the pinned {pinned} tokens (the first had"
            f" {wrong[0]})",
            remedy="check that the server honours ignore_eos and max_tokens and that the context is long"
            " enough",
        )


def generator_late(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a run whose requests left late: median lag above 1 % of the median TTFT."""
    ttfts = [ttft for sample in run.samples if sample.ok and (ttft := ttft_ns(sample)) is not None]
    if run.median_lag_ns is None or not ttfts:
        return
    typical = median(ttfts)
    if run.median_lag_ns > LATE_SHARE_OF_TTFT * typical:
        yield InvalidReason(
            code=InvalidCode.GENERATOR_LATE,
            sentence=f"half the requests left more than {run.median_lag_ns / NS_PER_MS:.2f} ms late, over"
            f" 1 % of the median TTFT ({typical / NS_PER_MS:.2f} ms)",
            remedy="give the load generator more CPU or more processes, or ask for less load",
        )


def rate_reached(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse an open loop that sent slower than 98 % of its own schedule."""
    if run.asked_rate_per_s is None:
        return
    sent = sorted(sample.sent_ns for sample in run.samples if sample.sent_ns is not None)
    scheduled = sorted(sample.scheduled_ns for sample in run.samples if sample.sent_ns is not None)
    if len(sent) < 2 or scheduled[-1] == scheduled[0]:
        return
    # The schedule's own rate, not the nominal one: 32 Poisson arrivals miss that by 18 % by chance.
    asked = (len(sent) - 1) / (scheduled[-1] - scheduled[0]) * NS_PER_S
    reached = (len(sent) - 1) / max(sent[-1] - sent[0], 1) * NS_PER_S
    if reached < RATE_SHARE * asked:
        yield InvalidReason(
            code=InvalidCode.RATE_NOT_REACHED,
            sentence=f"{reached:.2f} requests/s were sent, {asked:.2f} were asked for",
            remedy="give the load generator more CPU or more processes, or ask for a lower rate",
        )


def concurrency_reached(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse a closed loop that never had as many requests in flight as asked.

    One whose starts are held apart has as many as fit into that pace: the rate is the load then.
    """
    if run.asked_concurrency is None or workload.arrival.max_rate_per_s is not None:
        return
    asked = min(run.asked_concurrency, run.sent)
    if run.peak_in_flight < asked:
        yield InvalidReason(
            code=InvalidCode.CONCURRENCY_NOT_REACHED,
            sentence=f"at most {run.peak_in_flight} requests were in flight at once, asked were {asked}",
            remedy="raise the client's connection limit or spread fewer starts over ramp_s",
        )


def client_floor(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse to judge a limit that the client itself eats more than a tenth of."""
    floor, budget = facts.floor_ms, facts.budget_ms
    if floor is not None and budget is not None and floor > FLOOR_SHARE_OF_BUDGET * budget:
        yield InvalidReason(
            code=InvalidCode.CLIENT_FLOOR,
            sentence=f"the client alone adds {floor:.1f} ms of TTFT at this concurrency, over 10 % of the"
            f" {budget:g} ms budget",
            remedy="measure from a faster or less busy machine, or with more load processes",
        )


def client_starved(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse times of a client that was kept from its CPU: what came meanwhile bears one stamp."""
    if _starved(run):
        wall_ns = run.ended_ns - run.started_ns
        yield InvalidReason(
            code=InvalidCode.CLIENT_STARVED,
            sentence=f"the client was ready to run and had no CPU for {run.long_cpu_wait_ns / wall_ns:.1%} of"
            f" the time, up to {run.worst_cpu_wait_ns / NS_PER_MS:.0f} ms at once (scheduling:"
            f" {run.scheduling}): first tokens may have come earlier than they were seen",
            remedy="stop what else runs on this machine, measure from another one, or let the client have a"
            " real-time priority (root, CAP_SYS_NICE, or `ulimit -r 1`)",
        )


def _starved(run: Run) -> bool:
    return run.long_cpu_wait_ns > STARVED_SHARE * (run.ended_ns - run.started_ns)


def stream_buffered(run: Run, workload: WorkloadSpec, facts: RunFacts) -> Reasons:
    """Refuse streams that arrive in bursts: something on the way collected the chunks (case H89)."""
    if facts.allow_buffered or _starved(run):
        return
    marked = sum(_marked_buffered(sample) for sample in run.samples)
    gaps = [chunk_gaps_ns(sample) for sample in run.samples if sample.ok]
    total = sum(gap.size for gap in gaps)
    short = sum(int(np.count_nonzero(gap < BURST_GAP_NS)) for gap in gaps)
    bursts = total >= BURST_MIN_GAPS and short > BURST_SHARE * total
    if bursts or marked > BURST_SHARE * run.sent:
        yield InvalidReason(
            code=InvalidCode.STREAM_BUFFERED,
            sentence=f"{short} of {total} gaps between chunks are under 0.1 ms, {marked} of {run.sent}"
            " streams came in one piece: TTFT is too long and ITL too short",
            remedy="switch buffering off in the proxy on the way (nginx: proxy_buffering off,"
            " proxy_http_version 1.1) or measure past it; where there is none, this machine was too busy to"
            " take chunks in as they came",
        )


def _marked_buffered(sample: RequestSample) -> bool:
    word = str(Category.STREAM_BUFFERED)
    return sample.outcome is Category.STREAM_BUFFERED or any(word in text for text in sample.warnings)
