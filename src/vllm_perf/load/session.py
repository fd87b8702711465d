# SPDX-License-Identifier: Apache-2.0
"""Measure one workload on one server: warm up, reset, scrape, load, wait for quiet, scrape again."""

from dataclasses import replace

from vllm_perf.load.counting import TokenCounter
from vllm_perf.load.generator import run_load
from vllm_perf.load.loop import Progress
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.prompts import build_requests, prompt_set_hash
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.load.scrape import SCRAPE_EMPTY, scrape
from vllm_perf.load.server import max_model_len, reset_prefix_cache, wait_until_idle
from vllm_perf.load.shards import run_sharded
from vllm_perf.spec.client import Means
from vllm_perf.spec.workload import ArrivalSpec, WorkloadSpec

WARMUP_CONCURRENCY_OPEN = 8
ONE_SOCKET_CLIENT = Means()


def measure(
    workload: WorkloadSpec,
    target: Target,
    *,
    counter: TokenCounter,
    on_progress: Progress | None = None,
    repetition: int = 0,
    means: Means = ONE_SOCKET_CLIENT,
) -> Run:
    """Run one repetition of ``workload``; its warm-up is in ``Run.warmup_samples`` and counts nowhere.

    The warm-up is always sent by our own client.

    Order: warm-up, quiet, prefix cache reset, scrape, load, quiet, scrape.

    Raises:
        SpecError: the prompts cannot be made, or do not fit into the server's max_model_len.
    """
    limit = max_model_len(target)
    requests = build_requests(
        workload, model=target.model, counter=counter, repetition=repetition, max_model_len=limit
    )
    warmup = warm_up(workload, target, counter=counter, repetition=repetition)
    noise = [] if wait_until_idle(target) else ["the server had requests of its own before the load"]
    reset = reset_prefix_cache(target) if workload.reset_caches else None
    before = scrape(target)
    if before == {}:
        noise.append(SCRAPE_EMPTY)
    plan = replace(make_plan(workload, target, requests), client=means.client)
    run = run_sharded(plan, processes=means.processes, on_progress=on_progress)
    if not wait_until_idle(target):
        noise.append("the server still had requests of its own after the load")
    return replace(
        run,
        counters_before=before,
        counters_after=scrape(target),
        caches_reset=reset,
        warmup_samples=warmup,
        warnings=(*run.warnings, *noise),
    )


def warm_up(
    workload: WorkloadSpec, target: Target, *, counter: TokenCounter, repetition: int = 0
) -> tuple[RequestSample, ...]:
    """Send the warm-up: same lengths, same concurrency, other text than what is measured."""
    requests = build_requests(
        workload, model=target.model, counter=counter, phase="warmup", repetition=repetition
    )
    if not requests:
        return ()
    most = workload.arrival.concurrency if workload.arrival.kind == "closed" else WARMUP_CONCURRENCY_OPEN
    arrival = ArrivalSpec(kind="closed", concurrency=min(most, len(requests)))
    plan = replace(make_plan(workload, target, requests), arrival=arrival, duration_s=None)
    return run_load(plan).samples


def make_plan(workload: WorkloadSpec, target: Target, requests: tuple[PlannedRequest, ...]) -> LoadPlan:
    """Return the plan for requests that ``build_requests`` made."""
    return LoadPlan(
        workload=workload.name,
        endpoint=workload.endpoint,
        target=target,
        requests=requests,
        arrival=workload.arrival,
        pinned_output_tokens=_pinned(workload),
        request_timeout_s=workload.request_timeout_s,
        duration_s=workload.duration_s,
        prompt_set_hash=prompt_set_hash(requests),
    )


def _pinned(workload: WorkloadSpec) -> int | None:
    """Return the common output length; a trace's requests have each their own."""
    return workload.output_tokens if workload.ignore_eos and workload.prompt.kind != "trace" else None
