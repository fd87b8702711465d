# SPDX-License-Identifier: Apache-2.0
"""What is sent to an engine: prompts, arrivals, lengths and limits, as data."""

from typing import Literal

from pydantic import Field, model_validator

from vllm_perf.spec.base import SpecModel

ArrivalKind = Literal["closed", "constant", "poisson", "gamma", "ramp"]
PromptKind = Literal["shared_prefix", "unique", "text", "multi_turn", "jsonl", "trace"]
Endpoint = Literal["chat", "completions"]


class ArrivalSpec(SpecModel):
    """When requests start.

    ``closed`` keeps ``concurrency`` requests in flight; the open kinds follow an absolute schedule of
    ``rate_per_s``. ``burstiness`` is the shape of the gamma distribution (1 is Poisson). ``ramp`` goes
    linearly from ``rate_per_s`` to ``end_rate_per_s``. ``ramp_s`` spreads the starts of a closed loop.
    ``rate_share`` asks for that share of the request throughput measured under workload ``capacity_from``
    on the same engine, instead of an absolute rate.
    ``max_rate_per_s`` keeps the starts of a closed loop at least that far apart (a channel's rate limit).
    """

    kind: ArrivalKind = "closed"
    concurrency: int = Field(default=1, ge=1)
    rate_per_s: float | None = Field(default=None, gt=0)
    end_rate_per_s: float | None = Field(default=None, gt=0)
    rate_share: float | None = Field(default=None, gt=0)
    capacity_from: str = "chat"
    burstiness: float = Field(default=1.0, gt=0)
    ramp_s: float = Field(default=0.0, ge=0)
    max_rate_per_s: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _open_loop_needs_a_rate(self) -> "ArrivalSpec":
        if self.kind != "closed" and self.rate_per_s is None and self.rate_share is None:
            raise ValueError(f"arrival kind '{self.kind}' needs rate_per_s or rate_share")
        if self.kind == "ramp" and self.end_rate_per_s is None:
            raise ValueError("arrival kind 'ramp' needs end_rate_per_s")
        return self


class PromptSpec(SpecModel):
    """What the prompts hold; lengths are exact tokens of the served model, chat template included.

    ``shared_prefix``: one system prompt of ``shared_tokens`` common to all, then ``unique_tokens`` of its
    own. ``unique``: ``unique_tokens``, different from the first token on. ``text``: ``text`` as it stands.
    ``multi_turn``: conversations of ``turns`` requests, each ``unique_tokens`` longer than the one before.
    ``jsonl``: the user's own prompts from ``path``. ``trace``: replay of a Mooncake-style trace at ``path``.
    """

    kind: PromptKind
    shared_tokens: int = Field(default=0, ge=0)
    unique_tokens: int = Field(default=0, ge=0)
    text: str = ""
    turns: int = Field(default=1, ge=1)
    path: str | None = None


class SloSpec(SpecModel):
    """Limits a request must meet to count for goodput; ``None`` means no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2el_ms: float | None = None


class WorkloadSpec(SpecModel):
    """One workload: ``requests`` requests a repetition (or as many as fit in ``duration_s``)."""

    name: str
    title: str = ""
    endpoint: Endpoint = "chat"
    prompt: PromptSpec
    arrival: ArrivalSpec = ArrivalSpec()
    output_tokens: int = Field(default=128, ge=1)
    requests: int = Field(default=32, ge=1)
    duration_s: float | None = Field(default=None, gt=0)
    warmup_requests: int = Field(default=2, ge=0)
    repetitions: int = Field(default=1, ge=1)
    request_timeout_s: float = Field(default=300.0, gt=0)
    seed: int = 0
    temperature: float = 0.0
    top_p: float = 1.0
    ignore_eos: bool = True
    reset_caches: bool = True
    max_failed_share: float = Field(default=0.0, ge=0, lt=1)
    hit_rate_min: float | None = None
    hit_rate_max: float | None = None
    slo: SloSpec = SloSpec()
