# SPDX-License-Identifier: Apache-2.0
"""Send one request through the load's own path, so that a probe and a load can never disagree."""

import json
from typing import Any

from vllm_perf.load.fetch import FetchError, fetch
from vllm_perf.load.generator import run_load
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import RequestSample
from vllm_perf.spec.workload import ArrivalSpec, Endpoint


def send_one(
    target: Target,
    body: bytes,
    *,
    endpoint: Endpoint = "chat",
    timeout_s: float = 60.0,
    pinned: int | None = None,
) -> RequestSample:
    """Send ``body`` once and return its sample; whatever fails becomes its outcome.

    ``pinned`` is the output length that the body pins, if it does.

    Raises:
        SpecError: the target's URL is malformed.
    """
    plan = LoadPlan(
        workload="one request",
        endpoint=endpoint,
        target=target,
        requests=(PlannedRequest(prompt_id="one", body=body),),
        arrival=ArrivalSpec(kind="closed", concurrency=1),
        pinned_output_tokens=pinned,
        request_timeout_s=timeout_s,
    )
    return run_load(plan).samples[0]


def model_ids(target: Target) -> list[str]:
    """Return the ids of ``/v1/models``, none where the server does not say."""
    try:
        found: Any = fetch(target, target.base_url.rstrip("/") + "/models").json()
    except FetchError:
        return []
    models = found.get("data") if isinstance(found, dict) else None
    return [str(model["id"]) for model in models or [] if isinstance(model, dict) and "id" in model]


def streamed_body(model: str, prompt: str, max_tokens: int, endpoint: Endpoint = "chat") -> bytes:
    """Return a streamed request that asks for usage and leaves the rest to the server."""
    body: dict[str, Any] = {"model": model, "stream": True, "stream_options": {"include_usage": True}}
    if endpoint == "chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    return json.dumps({**body, "max_tokens": max_tokens}).encode()
