# SPDX-License-Identifier: Apache-2.0
"""What the events of a streamed answer tell about the channel that sent them."""

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from vllm_perf.channel.line import Answer, Reply
from vllm_perf.load.chunk import REASONING
from vllm_perf.load.sse import Event

# Gaps this short between chunks are one read handed out in pieces: something on the way held them back.
BURST_GAP_NS = 100_000
BURST_SHARE = 0.5
LEAST_GAPS = 6


def model_ids(answer: Answer) -> tuple[str, ...]:
    """Return the ids in an answer of ``/v1/models``; none where it is no such answer."""
    try:
        data = json.loads(answer.body) if answer.ok else {}
    except ValueError:
        return ()
    items = data.get("data") if isinstance(data, dict) else None
    return tuple(str(item["id"]) for item in items or () if isinstance(item, dict) and item.get("id"))


def chunks(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Yield every event that is a JSON object."""
    for event in events:
        try:
            value = json.loads(event.data)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def deltas(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """Yield every delta of every choice."""
    for chunk in chunks(events):
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = choice.get("delta") if isinstance(choice, dict) else None
            if isinstance(delta, dict):
                yield delta


def answer_text(events: Sequence[Event]) -> str:
    """Return all generated text, reasoning first."""
    names = (*REASONING, "content")
    return "".join(str(delta[name]) for name in names for delta in deltas(events) if delta.get(name))


def reasoning_field(events: Sequence[Event]) -> str | None:
    """Return the name of the field that carries reasoning, or ``None`` where there is none."""
    return next((name for delta in deltas(events) for name in REASONING if delta.get(name)), None)


def hidden_reasoning(events: Sequence[Event]) -> bool:
    """Tell whether reasoning tokens were counted although none was shown."""
    if reasoning_field(events) is not None:
        return False
    return any(_reasoning_tokens(chunk) > 0 for chunk in chunks(events))


def _reasoning_tokens(chunk: dict[str, Any]) -> int:
    usage = chunk.get("usage")
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    count = details.get("reasoning_tokens") if isinstance(details, dict) else None
    return count if isinstance(count, int) else 0


def tokens_per_chunk(replies: Sequence[Reply]) -> float | None:
    """Return counted output tokens ÷ chunks that carried any, over all replies; ``None`` without counts."""
    counted = [reply.result for reply in replies if reply.result.token_source == "usage"]
    arrived = sum(len(result.chunk_ns) for result in counted)
    return sum(result.output_tokens or 0 for result in counted) / arrived if arrived else None


def looks_buffered(replies: Sequence[Reply]) -> bool | None:
    """Tell whether most chunk gaps are no gaps at all; ``None`` where too few chunks came to say."""
    gaps = [b - a for reply in replies for a, b in pairwise(reply.result.chunk_ns)]
    if len(gaps) < LEAST_GAPS:
        return None
    return sum(gap < BURST_GAP_NS for gap in gaps) >= BURST_SHARE * len(gaps)
