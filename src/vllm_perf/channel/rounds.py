# SPDX-License-Identifier: Apache-2.0
"""Which rounds are worth comparing: a spoiled one is left out by its evidence, never by its value."""

from collections.abc import Sequence
from dataclasses import replace

from vllm_perf.channel.side import Side
from vllm_perf.load.sample import Run
from vllm_perf.metrics.reasons import InvalidCode, InvalidReason, RunFacts
from vllm_perf.metrics.validity import check_runs, check_validity
from vllm_perf.spec.workload import WorkloadSpec

# Failed requests are not among them: a round that lost requests stays in, or failing would pay.
SPOILING = frozenset(
    (
        InvalidCode.STREAM_BUFFERED,
        InvalidCode.FOREIGN_TRAFFIC,
        InvalidCode.LOST_REQUESTS,
        InvalidCode.SERVER_RESTARTED,
        InvalidCode.TIMES_CONTRADICT,
        InvalidCode.GENERATOR_LATE,
    )
)
HALF = 0.5
LEAST_ROUNDS = 2


def keep_good_rounds(sides: Sequence[Side], workload: WorkloadSpec) -> tuple[list[str], str | None]:
    """Take spoiled rounds out of all sides; return a sentence for each, and why nothing may be compared.

    A channel whose blocks arrive in bursts half of the time is one that buffers: that is a fact about it and
    spoils no round. Whole blocks outweigh the handshake's few streams, which a busy machine may bunch up.
    """
    found = {side.name: [_spoiling(run, workload) for run in side.runs] for side in sides}
    for side in sides:
        bursts = [_has(reasons, InvalidCode.STREAM_BUFFERED) for reasons in found[side.name]]
        if not bursts:
            continue
        side.facts = replace(side.facts, buffered=sum(bursts) >= HALF * len(bursts))
        if side.facts.buffered:
            found[side.name] = [_without_bursts(reasons) for reasons in found[side.name]]
    rounds = range(min((len(side.runs) for side in sides), default=0))
    spoiled = {
        number: f"round {number + 1} is left out: {name}: {reasons[number][0]}"
        for number in rounds
        for name, reasons in found.items()
        if reasons[number]
    }
    good = [number for number in rounds if number not in spoiled]
    if len(good) < LEAST_ROUNDS <= len(rounds):
        return list(spoiled.values()), f"{len(spoiled)} of {len(rounds)} rounds were spoiled"
    for side in sides:
        side.runs = [side.runs[number] for number in good]
        side.rtts_ms = [side.rtts_ms[number] for number in good]
    return list(spoiled.values()), None


def known_of(side: Side) -> RunFacts:
    """Return what is known of a channel's runs beforehand: what it holds back, and what it does not tell."""
    return RunFacts(allow_buffered=bool(side.facts.buffered), hit_rate_hidden=not side.facts.metrics)


def invalid_reasons(side: Side, workload: WorkloadSpec) -> tuple[InvalidReason, ...]:
    """Return why a channel's runs give no verdict, apart from what it cannot tell at all."""
    return check_runs(side.runs, workload, known_of(side)) if side.runs else ()


def arrives_in_bursts(runs: Sequence[Run], workload: WorkloadSpec) -> bool:
    """Tell whether at least half of the blocks came in bursts."""
    bursts = [_has(check_validity(run, workload), InvalidCode.STREAM_BUFFERED) for run in runs]
    return bool(bursts) and sum(bursts) >= HALF * len(bursts)


def _spoiling(run: Run, workload: WorkloadSpec) -> list[InvalidReason]:
    return [reason for reason in check_validity(run, workload) if reason.code in SPOILING]


def _has(reasons: Sequence[InvalidReason], code: InvalidCode) -> bool:
    return any(reason.code is code for reason in reasons)


def _without_bursts(reasons: Sequence[InvalidReason]) -> list[InvalidReason]:
    return [reason for reason in reasons if reason.code is not InvalidCode.STREAM_BUFFERED]
