# SPDX-License-Identifier: Apache-2.0
"""Turn a workload into requests: exact in tokens, seeded, and refused where they could not fit."""

import hashlib
from collections.abc import Callable, Iterable

from vllm_perf.load.arrivals import schedule
from vllm_perf.load.bodies import body
from vllm_perf.load.counting import TokenCounter
from vllm_perf.load.datasets import jsonl
from vllm_perf.load.drafts import Draft, Phase, Source
from vllm_perf.load.fitting import Fitter
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.synthetic import multi_turn, shared_prefix, text, unique
from vllm_perf.load.trace import trace
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import WorkloadSpec

KINDS: dict[str, Callable[[Source], list[Draft]]] = {
    "shared_prefix": shared_prefix,
    "unique": unique,
    "text": text,
    "multi_turn": multi_turn,
    "jsonl": jsonl,
    "trace": trace,
}


def build_requests(
    workload: WorkloadSpec,
    *,
    model: str,
    counter: TokenCounter,
    phase: Phase = "measured",
    repetition: int = 0,
    max_model_len: int | None = None,
) -> tuple[PlannedRequest, ...]:
    """Return the requests of one phase, in the order they are to start.

    Repetitions share their prompts, so that they pair; only where the workload does not reset caches does
    each have text of its own. Prompt ids are the same in every run.

    Raises:
        SpecError: a prompt cannot be made at its length, or prompt + output exceed ``max_model_len``.
    """
    count = workload.warmup_requests if phase == "warmup" else workload.requests
    if count == 0:
        return ()
    source = Source(
        workload=workload,
        fitter=Fitter(counter, workload.endpoint),
        phase=phase,
        seed=_seed(workload, phase, repetition),
        count=count,
    )
    drafts = KINDS[workload.prompt.kind](source)
    _refuse_overflow(drafts, workload, max_model_len)
    offsets = schedule(workload.arrival, len(drafts), workload.seed) if phase == "measured" else None
    return tuple(_planned(workload, model, draft, offsets, i) for i, draft in enumerate(drafts))


def prompt_set_hash(requests: Iterable[PlannedRequest]) -> str:
    """Return the SHA-256 over all bodies, in order: equal hashes mean equal bytes sent."""
    digest = hashlib.sha256()
    for request in requests:
        digest.update(len(request.body).to_bytes(8, "big"))
        digest.update(request.body)
    return digest.hexdigest()


def _seed(workload: WorkloadSpec, phase: Phase, repetition: int) -> str:
    own = "" if workload.reset_caches else f":{repetition}"
    return f"{workload.seed}:{phase}{own}"


def _planned(
    workload: WorkloadSpec, model: str, draft: Draft, offsets: tuple[int, ...] | None, index: int
) -> PlannedRequest:
    output = draft.output_tokens or workload.output_tokens
    return PlannedRequest(
        prompt_id=draft.prompt_id,
        body=body(workload, model, draft.prompt, output),
        prompt_tokens=draft.prompt_tokens,
        output_tokens=output if workload.ignore_eos else None,
        offset_ns=draft.offset_ns if draft.offset_ns is not None else offsets[index] if offsets else None,
        after=draft.after,
    )


def _refuse_overflow(drafts: list[Draft], workload: WorkloadSpec, max_model_len: int | None) -> None:
    """H93: such a request would end early, and tools that multiply lengths would overstate throughput."""
    if max_model_len is None:
        return
    for draft in drafts:
        output = draft.output_tokens or workload.output_tokens
        if draft.prompt_tokens is not None and draft.prompt_tokens + output > max_model_len:
            raise SpecError(
                f"workload '{workload.name}': prompt {draft.prompt_id} of {draft.prompt_tokens} tokens plus "
                f"{output} output tokens is {draft.prompt_tokens + output}, more than the server's "
                f"max_model_len {max_model_len}: shorten one, or serve with a larger --max-model-len"
            )
