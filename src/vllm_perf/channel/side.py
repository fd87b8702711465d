# SPDX-License-Identifier: Apache-2.0
"""One channel of a comparison, and sending it a block of requests with good manners."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vllm_perf.channel.cache import CacheProbe
from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.facts import Handshake
from vllm_perf.channel.manners import Manners, tokens_of
from vllm_perf.channel.network import Network
from vllm_perf.channel.prompts import max_tokens
from vllm_perf.channel.purse import Wanted
from vllm_perf.load.generator import run_load
from vllm_perf.load.loop import Progress
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.load.scrape import scrape
from vllm_perf.load.server import wait_until_idle
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import ChannelSpec
from vllm_perf.spec.target import Target

REJECTED_STATUS = 400


@dataclass(slots=True, kw_only=True)
class Side:
    """One channel under comparison: who it is, what is known of it, and its runs, one a block.

    ``rtts_ms`` holds the network round trip measured right before each block. ``refused`` counts, for each
    block, the requests that were answered 429.
    """

    spec: ChannelSpec
    target: Target
    manners: Manners
    facts: Handshake
    network: Network = field(default_factory=Network)
    cache: CacheProbe = field(default_factory=CacheProbe)
    runs: list[Run] = field(default_factory=list)
    rtts_ms: list[float] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Return the channel's name."""
        return self.spec.name


def send_block(side: Side, plan: LoadPlan, on_progress: Progress | None = None) -> Run:
    """Send one block and return it as one run; what was refused (429) is a failed sample in it.

    After a refusal nothing more is sent until the wait it asked for is over; then come the requests that
    were not sent yet and, as requests of their own, those that were refused.

    Raises:
        Stopped: the block's worst case does not fit into the spend cap, or the refusals do not end.
    """
    manners = side.manners
    parts: list[Run] = []
    left = plan.requests
    while left:
        wanted = [wanted_of(one) for one in left]
        manners.require(wanted)
        run = _send(side, replace(plan, requests=left), on_progress)
        parts.append(run)
        _settle(manners, left, run)
        left = _still_to_send(left, run)
        refused = [sample for sample in run.samples if sample.outcome is Category.RATE_LIMITED]
        if refused:
            waits = [one.retry_after_s for one in refused if one.retry_after_s is not None]
            manners.heed(max(waits, default=None), len(refused))
        elif left:
            raise Stopped(side.name, f"{len(left)} requests of a block were not sent")
    return joined(parts)


def watched(side: Side, plan: LoadPlan, on_progress: Progress | None = None) -> Run:
    """Send a block between two scrapes of the channel's ``/metrics``, where it has them."""
    if not side.facts.metrics:
        return send_block(side, plan, on_progress)
    idle = wait_until_idle(side.target)
    before = scrape(side.target)
    run = send_block(side, plan, on_progress)
    idle = wait_until_idle(side.target) and idle
    noise = () if idle else (f"{side.name} had requests of its own around a block",)
    return replace(
        run,
        counters_before=before,
        counters_after=scrape(side.target),
        warnings=(*run.warnings, *noise),
    )


def wanted_of(request: PlannedRequest) -> Wanted:
    """Return what a request can cost."""
    return Wanted(body_bytes=len(request.body), max_tokens=max_tokens(request))


def joined(parts: Sequence[Run]) -> Run:
    """Return several parts of one block as one run; its time includes the waits between them."""
    first, *others = parts
    if not others:
        return first
    samples = tuple(sample for part in parts for sample in part.samples)
    return replace(
        first,
        samples=samples,
        ended_ns=max(part.ended_ns for part in parts),
        peak_in_flight=max(part.peak_in_flight for part in parts),
        cpu_wait_ns=sum(part.cpu_wait_ns for part in parts),
        long_cpu_wait_ns=sum(part.long_cpu_wait_ns for part in parts),
        worst_cpu_wait_ns=max(part.worst_cpu_wait_ns for part in parts),
        max_lag_ns=max((part.max_lag_ns for part in parts if part.max_lag_ns is not None), default=None),
        warnings=tuple(dict.fromkeys(warning for part in parts for warning in part.warnings)),
    )


def _send(side: Side, plan: LoadPlan, on_progress: Progress | None) -> Run:
    """Keep the channel's pace within the block, and between it and what came before."""
    pacer = side.manners.pacer
    tokens = max(tokens_of(wanted_of(one), side.manners.purse) for one in plan.requests)
    pacer.wait_for_turn()
    # The rate all channels agreed on where there is one: this channel's own would be another load.
    agreed, gap_s = plan.arrival.max_rate_per_s, pacer.gap_s(tokens)
    rate = agreed / pacer.slowdown if agreed else 1 / gap_s if gap_s else None
    arrival = plan.arrival.model_copy(update={"max_rate_per_s": rate})
    run = run_load(replace(plan, arrival=arrival, stop_when_refused=True), on_progress=on_progress)
    pacer.took_turn(tokens)
    side.manners.requests += run.sent
    return run


def _settle(manners: Manners, requests: Sequence[PlannedRequest], run: Run) -> None:
    wanted = {one.prompt_id: wanted_of(one) for one in requests}
    for sample in run.samples:
        if _costs(sample):
            counted = sample.token_source == "usage"
            output = sample.output_tokens if counted else None
            manners.after(wanted[sample.prompt_id], sample.prompt_tokens, output)


def _costs(sample: RequestSample) -> bool:
    """Tell whether a request may be charged: it was sent, and not turned away by an HTTP error."""
    return sample.sent_ns is not None and (sample.status is None or sample.status < REJECTED_STATUS)


def _still_to_send(requests: Sequence[PlannedRequest], run: Run) -> tuple[PlannedRequest, ...]:
    done = {sample.prompt_id for sample in run.samples if sample.outcome is not Category.RATE_LIMITED}
    return tuple(one for one in requests if one.prompt_id not in done)
