# SPDX-License-Identifier: Apache-2.0
"""One load for all channels: lowered to what the strictest of them allows, and said so."""

from collections.abc import Sequence

from vllm_perf.channel.manners import Manners
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import ChannelSpec
from vllm_perf.spec.workload import WorkloadSpec

SECONDS_A_MINUTE = 60.0


def common_load(
    workload: WorkloadSpec, channels: Sequence[tuple[ChannelSpec, Manners]], rate_per_min: float | None
) -> tuple[WorkloadSpec, tuple[str, ...]]:
    """Return the workload every channel can take, and a sentence for each thing that was lowered.

    ``rate_per_min`` is the user's own cap on requests a minute.

    Raises:
        SpecError: an open loop asks for more than a channel allows; its rate is not ours to change.
    """
    arrival, notes = workload.arrival, []
    for spec, _ in channels:
        most = spec.limits.max_concurrency
        if most is not None and arrival.kind == "closed" and arrival.concurrency > most:
            notes.append(
                f"concurrency {arrival.concurrency} was lowered to {most} for all: {spec.name} allows no more"
            )
            arrival = arrival.model_copy(update={"concurrency": most})
    gaps = {spec.name: manners.pacer.gap_s(tokens_a_request(workload)) for spec, manners in channels}
    if rate_per_min is not None:
        gaps["--most-per-min"] = SECONDS_A_MINUTE / rate_per_min
    strictest = max(gaps, key=lambda name: gaps[name])
    if gaps[strictest] > 0:
        rate = 1 / gaps[strictest]
        _refuse_faster(workload, rate, strictest)
        if arrival.kind == "closed":
            arrival = arrival.model_copy(update={"max_rate_per_s": rate})
            notes.append(
                f"requests start at least {gaps[strictest]:.2f} s apart on all channels, as {strictest} asks"
            )
    return workload.model_copy(update={"arrival": arrival}), tuple(notes)


def fitted(
    workload: WorkloadSpec, spec: ChannelSpec, manners: Manners
) -> tuple[WorkloadSpec, tuple[str, ...]]:
    """Return the workload as one channel alone can take it, and a sentence for each thing that was lowered.

    Raises:
        SpecError: an open loop asks for more than the channel allows.
    """
    lowered, notes = common_load(workload, [(spec, manners)], None)
    return lowered, tuple(f"{workload.name}: {note}" for note in notes)


def tokens_a_request(workload: WorkloadSpec) -> int:
    """Return the tokens that one request may have on any channel: its longest prompt and its output.

    The prompt counts twice: other tokenizers make up to two tokens of what is one in the reference's.
    """
    prompt = workload.prompt
    planned = prompt.shared_tokens + prompt.unique_tokens * prompt.turns + len(prompt.text.split())
    return 2 * planned + workload.output_tokens


def _refuse_faster(workload: WorkloadSpec, rate: float, who: str) -> None:
    wanted = workload.arrival.end_rate_per_s or workload.arrival.rate_per_s
    if workload.arrival.kind != "closed" and wanted is not None and wanted > rate:
        raise SpecError(
            f"workload '{workload.name}' sends {wanted:g} requests/s, {who} allows {rate:.3g}: lower its"
            " rate, or take a closed loop, which is paced by itself"
        )
