# SPDX-License-Identifier: Apache-2.0
"""A channel as the one engine of a suite: planned within its cap, met by a handshake, loaded with manners."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vllm_perf.channel.blocks import block_plan, warm_up
from vllm_perf.channel.budget import Forecast, forecast_suite, refuse_beyond_caps
from vllm_perf.channel.comparable import own_reason
from vllm_perf.channel.compare import CONNECTS_AT_FIRST, Entrant
from vllm_perf.channel.errors import ChannelUnusable, Stopped
from vllm_perf.channel.facts import lines
from vllm_perf.channel.handshake import shake_hands
from vllm_perf.channel.load import fitted
from vllm_perf.channel.manners import manners_of
from vllm_perf.channel.network import Network, measure_connects
from vllm_perf.channel.prompts import PromptBook
from vllm_perf.channel.rough import RoughCounter
from vllm_perf.channel.rounds import arrives_in_bursts
from vllm_perf.channel.show import round_trip, spent
from vllm_perf.channel.side import Side, watched
from vllm_perf.channel.target import first_model, target_of
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import TargetUnusable
from vllm_perf.engine.external import describe
from vllm_perf.lab.result import CellResult
from vllm_perf.load.counting import TokenCounter, TokenizeCounter
from vllm_perf.load.loop import Progress
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.load.prompts import prompt_set_hash
from vllm_perf.load.sample import Run
from vllm_perf.metrics.table import METRICS
from vllm_perf.spec.channel import ChannelSpec
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlan:
    """What a suite would do on a channel: the loads as it can take them, what was lowered, and the cost."""

    spec: ChannelSpec
    spend_cap: float | None
    workloads: tuple[WorkloadSpec, ...]
    notes: tuple[str, ...]
    forecast: Forecast

    def entrant(self, env: Mapping[str, str], say: Callable[[str], None] = lambda _: None) -> Entrant:
        """Return the channel with its key and an untouched purse.

        Raises:
            SpecError: the key's variable is not set, or the channel's prices or cap are missing.
        """
        return _entrant(self.spec, self.spend_cap, env, say)


def plan_channel(
    spec: ChannelSpec, workloads: Sequence[WorkloadSpec], env: Mapping[str, str], spend_cap: float | None
) -> ChannelPlan:
    """Fit the workloads into the channel's limits and work out what they would cost; sends nothing.

    Raises:
        SpecError: a key, a price or a cap is missing, the cost exceeds the cap, or an open loop is too fast.
    """
    entrant = _entrant(spec, spend_cap, env, lambda _: None)
    pairs = [fitted(one, spec, entrant.manners) for one in workloads]
    lowered = tuple(one for one, _ in pairs)
    planned = forecast_suite(entrant, lowered)
    refuse_beyond_caps([planned])
    return ChannelPlan(
        spec=spec,
        spend_cap=spend_cap,
        workloads=lowered,
        notes=tuple(dict.fromkeys(note for _, notes in pairs for note in notes)),
        forecast=planned,
    )


def _entrant(
    spec: ChannelSpec, spend_cap: float | None, env: Mapping[str, str], say: Callable[[str], None]
) -> Entrant:
    return Entrant(
        spec=spec, target=target_of(spec, env), manners=manners_of(spec, spend_cap=spend_cap, say=say)
    )


@dataclass(slots=True, kw_only=True)
class SuiteChannel:
    """A channel that was met; every cell is measured through here, with one purse and one pace."""

    engine: Engine
    side: Side
    salt: int
    stopped: Stopped | None = None

    @classmethod
    def meet(cls, entrant: Entrant, spec: EngineSpec, *, timeout_s: float = 30.0) -> "SuiteChannel":
        """Shake hands and measure the way; ``spec`` is what the suite calls it.

        Raises:
            TargetUnusable: it cannot be measured at all.
            Stopped: the spend cap or a rate limit ended the handshake.
        """
        target = entrant.target
        try:
            target = target if target.model else replace(target, model=first_model(target))
            facts = shake_hands(target, entrant.manners, timeout_s=timeout_s)
            network = Network(through_proxy=target.proxy is not None)
            measure_connects(target, network, CONNECTS_AT_FIRST)
        except ChannelUnusable as error:
            raise TargetUnusable(f"channel '{target.name}' cannot be measured", error.diagnosis) from error
        side = Side(spec=entrant.spec, target=target, manners=entrant.manners, facts=facts, network=network)
        named = spec.model_copy(update={"model": target.model})
        engine = describe(named, target) if facts.metrics else Engine(spec=named, target=target)
        # Nobody can reset a channel's cache: a later run's prompts must not be those of an earlier one.
        return cls(engine=engine, side=side, salt=int(time.time()))

    def require_open(self) -> None:
        """Send nothing any more once a cap or a limit has stopped the suite.

        Raises:
            Stopped: the same as then.
        """
        if self.stopped is not None:
            raise Stopped(self.stopped.channel, self.stopped.reason)

    def handshake(self) -> tuple[str, ...]:
        """Return what the handshake found out, a line a fact."""
        facts = [f"{question}: {answer}" for question, answer in lines(self.side.facts)]
        trip = f"network round trip (TCP), ms: {round_trip(self.side)}"
        return (*facts, trip, *self.side.facts.notes)

    def account(self) -> str:
        """Return what was sent, refused, waited for and spent so far, as one line."""
        manners = self.side.manners
        return (
            f"{manners.requests} requests, {manners.refused} refused (429), waited"
            f" {manners.pacer.waited_s:.1f} s, spent {spent(self.side)}"
        )

    def counter(self) -> TokenCounter:
        """Return the channel's own tokenizer where it shows one; else count words, which costs nothing."""
        return TokenizeCounter(self.side.target) if self.side.facts.tokenize else RoughCounter()

    def send(
        self,
        workload: WorkloadSpec,
        target: Target,
        *,
        counter: TokenCounter,
        on_progress: Progress,
        repetition: int,
    ) -> Run:
        """Send one repetition, after its warm-up; the run's hash is that of the prompts without their salt.

        Raises:
            Stopped: the spend cap, or a rate limit that does not let up.
            SpecError: the prompts cannot be made.
        """
        exact = bool(self.side.facts.tokenize)
        plain = PromptBook(workload=workload, counter=counter, exact=exact)
        salted = PromptBook(workload=workload, counter=counter, exact=exact, salt=self.salt)
        first = salted.block(repetition, 0, "warmup")
        warmed = warm_up(self.side, self._plan(first, workload)) if first else ()
        plan = self._plan(salted.block(repetition, 0), workload)
        plan = replace(plan, prompt_set_hash=prompt_set_hash(plain.block(repetition, 0)))
        run = replace(watched(self.side, plan, on_progress), warmup_samples=warmed)
        if repetition == 0:
            self.side.runs.clear()
        self.side.runs.append(run)
        return run

    def _plan(self, requests: tuple[PlannedRequest, ...], workload: WorkloadSpec) -> LoadPlan:
        facts = self.side.facts
        pinned, exact = bool(facts.pins_length), bool(facts.tokenize)
        return block_plan(self.side, requests, workload, pinned=pinned, exact=exact)

    def judged(self, result: CellResult, workload: WorkloadSpec) -> CellResult:
        """Take out of the cell just measured what means nothing here, with the reason in its place.

        Whole blocks outweigh the handshake's few streams, which a busy machine may bunch up.
        """
        buffered = bool(self.side.facts.buffered) and arrives_in_bursts(self.side.runs, workload)
        side = replace(self.side, facts=replace(self.side.facts, buffered=buffered))
        found = {metric.name: own_reason(metric, side, workload) for metric in METRICS}
        reasons = {name: reason for name, reason in found.items() if reason is not None}
        return replace(
            result,
            series=tuple(one for one in result.series if one.metric not in reasons),
            unavailable={**result.unavailable, **reasons},
            not_comparable=reasons,
        )
