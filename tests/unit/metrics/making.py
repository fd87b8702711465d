# SPDX-License-Identifier: Apache-2.0
"""Make samples and runs by hand, in whole milliseconds."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.category import Category
from vllm_perf.spec.workload import PromptSpec, WorkloadSpec

MS = 1_000_000
WORKLOAD = WorkloadSpec(name="chat", prompt=PromptSpec(kind="unique", unique_tokens=10))


def request(
    name: str = "r", *, sent_ms: float = 0, chunks_ms: Sequence[float] = (100, 110, 120), **more: Any
) -> RequestSample:
    """Make a request that succeeded, with one token a chunk unless told otherwise."""
    chunks = array("q", (int(chunk * MS) for chunk in chunks_ms))
    fields: dict[str, Any] = {
        "scheduled_ns": int(sent_ms * MS),
        "sent_ns": int(sent_ms * MS),
        "chunk_ns": chunks,
        "first_token_ns": chunks[0],
        "first_answer_ns": chunks[0],
        "last_token_ns": chunks[-1],
        "end_ns": chunks[-1],
        "output_tokens": len(chunks),
        "prompt_tokens": 10,
        "token_source": "usage",
        "finish_reason": "length",
    }
    return RequestSample(id=name, prompt_id=name, **{**fields, **more})


def failed(name: str = "f", *, sent_ms: float = 0, outcome: Category = Category.TIMEOUT) -> RequestSample:
    """Make a request that never answered."""
    at = int(sent_ms * MS)
    return RequestSample(
        id=name, prompt_id=name, scheduled_ns=at, sent_ns=at, outcome=outcome, detail="nothing came"
    )


def with_ttft(ttft_ms: float, name: str = "r") -> RequestSample:
    """Make a request whose first token came ``ttft_ms`` after sending, then two more 10 ms apart."""
    return request(name, chunks_ms=(ttft_ms, ttft_ms + 10, ttft_ms + 20))


def run_of(*samples: RequestSample, seconds: float = 1.0, **more: Any) -> Run:
    """Make a run of that length from its samples."""
    made = Run(
        workload="chat",
        target="http://127.0.0.1:1",
        samples=samples,
        started_ns=0,
        ended_ns=int(seconds * 1000 * MS),
        peak_in_flight=len(samples),
    )
    return replace(made, **more)
