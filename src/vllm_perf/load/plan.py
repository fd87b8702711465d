# SPDX-License-Identifier: Apache-2.0
"""What a load is told to do: serializable, so that a shard can run anywhere."""

from dataclasses import dataclass

from vllm_perf.spec.client import DEFAULT_CLIENT, Client
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import ArrivalSpec, Endpoint

__all__ = ["LoadPlan", "PlannedRequest", "Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRequest:
    """One request, ready to send: ``body`` is the exact JSON, ``offset_ns`` its place in an open loop.

    ``output_tokens`` is the pinned length (``None``: not pinned); ``after`` the ``prompt_id`` it waits for.
    """

    prompt_id: str
    body: bytes
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    offset_ns: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """Everything one shard needs. ``duration_s`` bounds a closed loop by time as well as by requests.

    ``stop_when_refused``: after a 429 (or 529) nothing more is sent; what was not sent leaves no sample.
    ``kernel_stamps``: take arrival times from the kernel where it gives them (the socket client can).
    """

    workload: str
    endpoint: Endpoint
    target: Target
    requests: tuple[PlannedRequest, ...]
    arrival: ArrivalSpec
    pinned_output_tokens: int | None
    request_timeout_s: float
    duration_s: float | None = None
    prompt_set_hash: str = ""
    stop_when_refused: bool = False
    kernel_stamps: bool = True
    client: Client = DEFAULT_CLIENT
