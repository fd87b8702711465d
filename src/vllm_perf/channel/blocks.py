# SPDX-License-Identifier: Apache-2.0
"""One block of requests as a channel takes it, and the warm-up before the first."""

from dataclasses import replace

from vllm_perf.channel.prompts import adapted
from vllm_perf.channel.side import Side, send_block
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.session import WARMUP_CONCURRENCY_OPEN, make_plan
from vllm_perf.spec.workload import ArrivalSpec, WorkloadSpec


def block_plan(
    side: Side, requests: tuple[PlannedRequest, ...], workload: WorkloadSpec, *, pinned: bool, exact: bool
) -> LoadPlan:
    """Return the plan for one block on one channel: its model, without the fields that it refuses.

    ``pinned``: the output length is pinned on every channel. ``exact``: prompts were counted by this one.
    """
    left_out = set(side.facts.left_out)
    if not pinned:
        left_out |= {"ignore_eos", "min_tokens"}
    fitting = adapted(requests, model=side.target.model, left_out=tuple(left_out), exact=exact)
    plan = make_plan(workload, side.target, fitting)
    return plan if "ignore_eos" not in left_out else replace(plan, pinned_output_tokens=None)


def warm_up(side: Side, plan: LoadPlan) -> tuple[RequestSample, ...]:
    """Send a plan's requests as a warm-up: in a closed loop, whatever the load itself is.

    Raises:
        Stopped: they do not fit into the spend cap, or the channel's refusals do not end.
    """
    closed = plan.arrival.kind == "closed"
    most = min(plan.arrival.concurrency if closed else WARMUP_CONCURRENCY_OPEN, len(plan.requests))
    return send_block(side, replace(plan, arrival=ArrivalSpec(concurrency=most), duration_s=None)).samples
