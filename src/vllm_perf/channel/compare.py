# SPDX-License-Identifier: Apache-2.0
"""Run one comparison: handshake, network, caches, then blocks of the same load in turn, A B B A."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vllm_perf.channel.blocks import block_plan, warm_up
from vllm_perf.channel.cache import PROMPTS, CacheProbe, doubled
from vllm_perf.channel.cache import judge as judge_cache
from vllm_perf.channel.errors import ChannelUnusable, Stopped
from vllm_perf.channel.handshake import shake_hands
from vllm_perf.channel.manners import Manners
from vllm_perf.channel.network import Network, measure_connects, measure_gets
from vllm_perf.channel.prompts import PromptBook
from vllm_perf.channel.rough import RoughCounter
from vllm_perf.channel.rounds import invalid_reasons, keep_good_rounds
from vllm_perf.channel.side import Side, watched
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.counting import TokenizeCounter
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.remedies import remedy_for
from vllm_perf.load.sample import Run
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.metrics.server_side import prefix_hit_rate
from vllm_perf.spec.channel import ChannelSpec
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import ArrivalSpec, WorkloadSpec

CONNECTS_AT_FIRST = 7
CONNECTS_A_BLOCK = 3
GETS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A channel before anything was asked of it."""

    spec: ChannelSpec
    target: Target
    manners: Manners


@dataclass(slots=True, kw_only=True)
class Comparison:
    """What a comparison leaves. ``failure``, ``stopped`` or ``interrupted`` (Ctrl-C): it ended early, and
    whole rounds are kept.

    ``unfit``: why nothing that was measured may be compared. ``reference`` is the channel whose own
    tokenizer counted the prompts (``None``: words were counted).
    """

    workload: WorkloadSpec
    pairs_asked: int
    sides: list[Side] = field(default_factory=list)
    reference: str | None = None
    unfit: str | None = None
    failure: ChannelUnusable | None = None
    stopped: Stopped | None = None
    interrupted: bool = False
    notes: list[str] = field(default_factory=list)
    started_s: float = field(default_factory=time.time)

    @property
    def rounds(self) -> int:
        """Return how many blocks every channel has."""
        return min((len(side.runs) for side in self.sides), default=0)

    @property
    def failing(self) -> bool:
        """Tell whether more requests failed on some channel than the workload allows."""
        checked = (invalid_reasons(side, self.workload) for side in self.sides)
        return any(one.code is InvalidCode.TOO_MANY_FAILED for reasons in checked for one in reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a comparison is run: rounds of one block a channel, the time limit of a side question."""

    pairs: int = 6
    timeout_s: float = 30.0
    say: Callable[[str], None] = lambda _: None


def compare(entrants: Sequence[Entrant], workload: WorkloadSpec, settings: Settings) -> Comparison:
    """Measure all channels under one load; what ends it early is in the result, never an exception.

    Raises:
        SpecError: the prompts cannot be made.
        KeyboardInterrupt: before the first round was whole.
    """
    done = Comparison(workload=workload, pairs_asked=settings.pairs)
    try:
        _meet(entrants, done, settings)
        _measure(done, settings)
    except ChannelUnusable as error:
        done.failure = error
    except Stopped as error:
        done.stopped = error
    except KeyboardInterrupt:
        if not done.rounds:
            raise
        done.interrupted = True  # what was paid for is worth showing
    for side in done.sides:
        # A round that not all channels finished pairs with nothing.
        del side.runs[done.rounds :]
        del side.rtts_ms[len(side.runs) :]
    sentences, done.unfit = keep_good_rounds(done.sides, workload)
    done.notes += sentences
    return done


def _meet(entrants: Sequence[Entrant], done: Comparison, settings: Settings) -> None:
    """Shake hands with all and measure the way to each, before the first load."""
    for entrant in entrants:
        settings.say(f"{entrant.spec.name}: handshake with {entrant.target.base_url}")
        facts = shake_hands(entrant.target, entrant.manners, timeout_s=settings.timeout_s)
        side = Side(
            spec=entrant.spec,
            target=entrant.target,
            manners=entrant.manners,
            facts=facts,
            network=Network(through_proxy=entrant.target.proxy is not None),
        )
        measure_connects(side.target, side.network, CONNECTS_AT_FIRST)
        measure_gets(side.target, side.network, GETS, settings.timeout_s)
        done.sides.append(side)


def _measure(done: Comparison, settings: Settings) -> None:
    book = _book(done)
    pinned = all(side.facts.pins_length for side in done.sides)
    if not pinned:
        done.notes.append(
            "not every channel can pin the output length: answers end where the models end them"
        )
    for place, side in enumerate(done.sides):
        # First of all the warm-up: a cold server's first prompts are slow, and look like a cache afterwards.
        settings.say(f"{side.name}: warm-up, and does it cache prompts?")
        _warm_up(side, book.block(0, place, "warmup"), done)
        side.cache = _probe_cache(side, book.probe(PROMPTS, place), done)
    for number in range(settings.pairs):
        # A B B A: whatever drifts meets both alike.
        order = list(enumerate(done.sides))
        for place, side in order if number % 2 == 0 else reversed(order):
            settings.say(f"{side.name}: block {number + 1} of {settings.pairs}")
            rtt_ms = measure_connects(side.target, side.network, CONNECTS_A_BLOCK)
            run = watched(side, _plan(side, book.block(number, place), done))
            _require_some(side, run)
            side.runs.append(run)
            side.rtts_ms.append(rtt_ms)


def _require_some(side: Side, run: Run) -> None:
    """End the comparison at a block of which nothing came back.

    Raises:
        ChannelUnusable: not one of its requests succeeded.
    """
    if any(sample.ok for sample in run.samples):
        return
    last = run.samples[-1]
    raise ChannelUnusable(
        side.name,
        Diagnosis(
            category=last.outcome,
            cause=f"none of the {run.sent} requests of a block succeeded",
            evidence=last.detail or "nothing was said",
            remedy=last.remedy or remedy_for(last.outcome, None) or "look at the server's log",
        ),
    )


def _book(done: Comparison) -> PromptBook:
    """Make prompts with the tokenizer of the first channel that shows its own."""
    known = next((side for side in done.sides if side.facts.tokenize), None)
    if known is None:
        done.notes.append("no channel counts prompts (/tokenize): prompt lengths are words, not tokens")
        return PromptBook(workload=done.workload, counter=RoughCounter(), exact=False)
    done.reference = known.name
    return PromptBook(workload=done.workload, counter=TokenizeCounter(known.target), exact=True)


def _plan(side: Side, requests: tuple[PlannedRequest, ...], done: Comparison) -> LoadPlan:
    pinned = all(one.facts.pins_length for one in done.sides)
    return block_plan(side, requests, done.workload, pinned=pinned, exact=side.name == done.reference)


def _probe_cache(side: Side, prompts: tuple[PlannedRequest, ...], done: Comparison) -> CacheProbe:
    plan = _plan(side, doubled(prompts), done)
    one_by_one = replace(plan, arrival=ArrivalSpec(), pinned_output_tokens=None, duration_s=None)
    loose = tuple(replace(one, output_tokens=None) for one in one_by_one.requests)
    run = watched(side, replace(one_by_one, requests=loose))
    try:
        hit_rate: float | None = prefix_hit_rate(run)
    except MetricUnavailable:
        hit_rate = None
    return judge_cache(run.samples, hit_rate)


def _warm_up(side: Side, requests: tuple[PlannedRequest, ...], done: Comparison) -> None:
    if requests:
        warm_up(side, _plan(side, requests, done))
