# SPDX-License-Identifier: Apache-2.0
"""Whether both sides did the same work; time is compared only where they did."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vllm_perf.verdict.side import Work

SAME_SHARE = 0.005
SAME_HIT_RATE = 0.02
PREEMPTIONS_PER_REQUEST = 0.01


class WorkKind(StrEnum):
    """Name one part of the work."""

    PROMPTS = "prompts"
    PROMPT_TOKENS = "prompt tokens"
    OUTPUT_TOKENS = "output tokens"
    FINISH_REASONS = "finish reasons"
    FAILURES = "failures"
    CACHE_HITS = "cache hits"
    PREEMPTIONS = "preemptions"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkDifference:
    """One way in which head did other work than base."""

    kind: WorkKind
    sentence: str


def differences(base: Sequence[Work], head: Sequence[Work]) -> tuple[WorkDifference, ...]:
    """Return every way in which the work of all heads together differs from that of all bases."""
    found = (*_hashes(base, head), *_tokens(base, head), *_shares(base, head), *_server(base, head))
    return tuple(WorkDifference(kind=kind, sentence=sentence) for kind, sentence in found)


_Found = Iterator[tuple[WorkKind, str]]


def _hashes(base: Sequence[Work], head: Sequence[Work]) -> _Found:
    before, after = ({work.prompt_set_hash for work in side} - {""} for side in (base, head))
    if before and after and before != after:
        yield WorkKind.PROMPTS, f"prompt set {'/'.join(sorted(before))} -> {'/'.join(sorted(after))}"


def _tokens(base: Sequence[Work], head: Sequence[Work]) -> _Found:
    for kind, field in ((WorkKind.PROMPT_TOKENS, "prompt_tokens"), (WorkKind.OUTPUT_TOKENS, "output_tokens")):
        before, after = _mean(base, field), _mean(head, field)
        if before and after is not None and abs(after / before - 1) > SAME_SHARE:
            yield kind, f"{before:.1f} {kind} a request -> {after:.1f}"


def _shares(base: Sequence[Work], head: Sequence[Work]) -> _Found:
    before, after = (_failed_share(side) for side in (base, head))
    if abs(after - before) > SAME_SHARE:
        yield WorkKind.FAILURES, f"{before:.1%} of the requests failed -> {after:.1%}"
    reasons = sorted({reason for work in (*base, *head) for reason in work.finish})
    for reason in reasons:
        old, new = (
            math.fsum(work.finish.get(reason, 0.0) for work in side) / len(side) for side in (base, head)
        )
        if abs(new - old) > SAME_SHARE:
            yield WorkKind.FINISH_REASONS, f"{old:.1%} ended with '{reason}' -> {new:.1%}"


def _server(base: Sequence[Work], head: Sequence[Work]) -> _Found:
    before, after = _mean(base, "hit_rate"), _mean(head, "hit_rate")
    if before is not None and after is not None and abs(after - before) > SAME_HIT_RATE:
        yield WorkKind.CACHE_HITS, f"prefix cache hit rate {before:.1%} -> {after:.1%}"
    before, after = _mean(base, "preemptions"), _mean(head, "preemptions")
    sent = math.fsum(work.sent for work in head) / len(head)
    if before is not None and after is not None and abs(after - before) > PREEMPTIONS_PER_REQUEST * sent:
        yield WorkKind.PREEMPTIONS, f"{before:.1f} preemptions a boot -> {after:.1f}"


def _failed_share(side: Sequence[Work]) -> float:
    return sum(work.failed for work in side) / max(sum(work.sent for work in side), 1)


def _mean(side: Sequence[Work], field: str) -> float | None:
    values: list[float | None] = [getattr(work, field) for work in side]
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None
