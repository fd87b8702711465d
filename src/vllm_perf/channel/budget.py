# SPDX-License-Identifier: Apache-2.0
"""What a comparison will send and cost, worked out before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from vllm_perf.channel.cache import PROMPTS
from vllm_perf.channel.compare import Entrant, Settings
from vllm_perf.channel.handshake import ASKED_TOKENS, SEEDS, question
from vllm_perf.channel.prompts import PromptBook, adapted
from vllm_perf.channel.purse import MILLION, Wanted
from vllm_perf.channel.rough import RoughCounter
from vllm_perf.channel.side import wanted_of
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec

HANDSHAKE_PROMPT_TOKENS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """One part of what is sent to a channel: how many requests, and their tokens in all.

    ``prompt_tokens`` is what the prompts are planned to have; ``most_prompt_tokens`` what they cannot exceed.
    """

    name: str
    requests: int
    prompt_tokens: int
    most_prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What one channel would be sent. ``least_s``: how long its rate limit alone makes it take."""

    channel: str
    base_url: str
    key: str
    currency: str
    purposes: tuple[Purpose, ...]
    cost: float
    most_cost: float
    cap: float | None
    least_s: float
    example: bytes

    @property
    def requests(self) -> int:
        """Return how many requests there are in all."""
        return sum(purpose.requests for purpose in self.purposes)


def forecast(entrant: Entrant, workload: WorkloadSpec, settings: Settings) -> Forecast:
    """Return what ``entrant`` would be sent; nothing is asked of anyone, so that prompts count as words.

    Raises:
        SpecError: the prompts cannot be made.
    """
    block, warmup, probe = _requests(entrant, workload)
    purposes = (
        _handshake(entrant),
        _purpose("cache probe", probe, 2),
        _purpose("warm-up", warmup, 1),
        _purpose("measured", block, settings.pairs),
    )
    return _forecast(entrant, purposes, workload.arrival.max_rate_per_s, block)


def forecast_suite(entrant: Entrant, workloads: Sequence[WorkloadSpec]) -> Forecast:
    """Return what a suite would send to ``entrant``: every workload, repetitions and warm-ups.

    Raises:
        SpecError: the prompts cannot be made.
    """
    purposes = [_handshake(entrant)]
    block: Sequence[PlannedRequest] = ()
    for workload in workloads:
        block, warmup, _ = _requests(entrant, workload)
        purposes.append(_purpose(f"{workload.name}: warm-up", warmup, workload.repetitions))
        purposes.append(_purpose(workload.name, block, workload.repetitions))
    rates = [one.arrival.max_rate_per_s for one in workloads if one.arrival.max_rate_per_s]
    return _forecast(entrant, tuple(purposes), min(rates, default=None), block)


def _requests(entrant: Entrant, workload: WorkloadSpec) -> tuple[Sequence[PlannedRequest], ...]:
    """Return one block, its warm-up and the prompts of the cache probe."""
    book = PromptBook(workload=workload, counter=RoughCounter(), exact=False)
    made = (book.block(0, 0), book.block(0, 0, "warmup"), book.probe(PROMPTS, 0))
    return tuple(adapted(one, model=entrant.target.model, left_out=(), exact=True) for one in made)


def _handshake(entrant: Entrant) -> Purpose:
    return Purpose(
        name="handshake",
        requests=len(SEEDS),
        prompt_tokens=len(SEEDS) * HANDSHAKE_PROMPT_TOKENS,
        most_prompt_tokens=len(SEEDS) * len(question(entrant.target.model, SEEDS[0])),
        output_tokens=len(SEEDS) * ASKED_TOKENS,
    )


def _forecast(
    entrant: Entrant, purposes: tuple[Purpose, ...], rate: float | None, block: Sequence[PlannedRequest]
) -> Forecast:
    prices = entrant.manners.purse.prices
    output = sum(one.output_tokens for one in purposes)

    def cost(prompt: int) -> float:
        return (prompt * prices.prompt_per_million + output * prices.output_per_million) / MILLION

    requests = sum(one.requests for one in purposes)
    return Forecast(
        channel=entrant.spec.name,
        base_url=entrant.target.base_url,
        key=f"key from {entrant.spec.key_env}" if entrant.spec.key_env else "no key",
        currency=prices.currency,
        purposes=purposes,
        cost=cost(sum(one.prompt_tokens for one in purposes)),
        most_cost=cost(sum(one.most_prompt_tokens for one in purposes)),
        cap=entrant.manners.purse.cap,
        least_s=requests / rate if rate else 0.0,
        example=block[0].body if block else b"",
    )


def refuse_beyond_caps(forecasts: Sequence[Forecast]) -> None:
    """Refuse a run that is planned to cost more than a channel's cap, before anything is sent.

    Raises:
        SpecError: with the figures, and what to lower.
    """
    for one in forecasts:
        if one.cap is not None and one.cost > one.cap:
            raise SpecError(
                f"channel '{one.channel}': the run would cost about {one.cost:.6f} {one.currency}, and the"
                f" spend cap is {one.cap:.6f}; nothing was sent. Lower --requests, --pairs or the output"
                " length, or raise the cap (--spend-cap)"
            )


def _purpose(name: str, requests: Sequence[PlannedRequest], times: int) -> Purpose:
    wanted: list[Wanted] = [wanted_of(one) for one in requests]
    return Purpose(
        name=name,
        requests=times * len(requests),
        prompt_tokens=times * sum(one.prompt_tokens or 0 for one in requests),
        most_prompt_tokens=times * sum(one.body_bytes for one in wanted),
        output_tokens=times * sum(one.max_tokens for one in wanted),
    )


def lines(one: Forecast) -> list[str]:
    """Return the forecast as a reader's lines."""
    found = [f"{one.channel}: {one.requests} requests to {one.base_url}, {one.key}"]
    for purpose in one.purposes:
        found.append(
            f"  {purpose.name:12} {purpose.requests:5} requests, about {purpose.prompt_tokens} prompt tokens"
            f" (at most {purpose.most_prompt_tokens}), at most {purpose.output_tokens} output tokens"
        )
    cap = "no cap" if one.cap is None else f"cap {one.cap:.6f} {one.currency}"
    if one.cost or one.most_cost:
        found.append(f"  cost: about {one.cost:.6f} {one.currency}, at most {one.most_cost:.6f}; {cap}")
    else:
        found.append("  cost: none")
    if one.least_s:
        found.append(f"  takes at least {one.least_s:.0f} s at this rate limit")
    shown = one.example[:400].decode("utf-8", "replace")
    found.append(f"  first measured request: {shown}{'…' if len(one.example) > 400 else ''}")
    return found
