# SPDX-License-Identifier: Apache-2.0
"""Replay of a Mooncake trace: when, how long in, how long out, and which 512-token blocks are shared."""

import json
import random
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vllm_perf.load.drafts import Draft, Fitted, Source, verified
from vllm_perf.spec.base import SpecError

BLOCK_TOKENS = 512
MS_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLine:
    """One request of a trace; ``timestamp_ms`` counts from the trace's own start."""

    timestamp_ms: float
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


def trace(source: Source) -> list[Draft]:
    """Return the trace's first requests: equal hash ids give equal text, at the trace's own times.

    The first block is shorter by what the template adds, so that the total is the trace's input length.
    """
    path = source.workload.prompt.path
    if path is None:
        raise SpecError("prompt kind 'trace' needs path")
    lines = read_trace(Path(path))[: source.count]
    start = lines[0].timestamp_ms
    fitted = [_fitted(source, index, line) for index, line in enumerate(lines)]
    return [
        Draft(
            prompt_id=draft.prompt_id,
            prompt=draft.prompt,
            prompt_tokens=draft.prompt_tokens,
            output_tokens=line.output_length,
            offset_ns=round((line.timestamp_ms - start) * MS_NS) if source.phase == "measured" else None,
        )
        for draft, line in zip(verified(source, fitted), lines, strict=True)
    ]


def read_trace(path: Path) -> list[TraceLine]:
    """Read a trace, sorted by time.

    Raises:
        SpecError: unreadable, empty, or a line without the four fields (with its number).
    """
    try:
        rows = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    lines = [_line(row, f"{path}, line {number}") for number, row in enumerate(rows, 1) if row.strip()]
    if not lines:
        raise SpecError(f"{path}: holds no request")
    return sorted(lines, key=lambda line: line.timestamp_ms)


def _line(row: str, where: str) -> TraceLine:
    try:
        data: Any = json.loads(row)
        line = TraceLine(
            timestamp_ms=float(data["timestamp"]),
            input_length=int(data["input_length"]),
            output_length=int(data["output_length"]),
            hash_ids=tuple(int(item) for item in data["hash_ids"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise SpecError(
            f"{where}: a trace line needs timestamp, input_length, output_length and hash_ids: {error!r}"
        ) from error
    blocks = -(-line.input_length // BLOCK_TOKENS)
    if line.output_length < 1 or not 0 < blocks <= len(line.hash_ids):
        raise SpecError(
            f"{where}: {line.input_length} tokens need {blocks} hash ids and an output of 1 or more"
        )
    return line


def _fitted(source: Source, index: int, line: TraceLine) -> Fitted:
    first = _block_word(source, line.hash_ids[0])
    make = partial(source.fitter.prompt, "")
    overhead = source.fitter.count(make(first))
    words = [first, *_blocks(source, line, overhead)]
    return Fitted(
        prompt_id=source.prompt_id(index),
        make=make,
        text=" ".join(words),
        tokens=line.input_length,
        seed=source.seeded(index),
    )


def _blocks(source: Source, line: TraceLine, overhead: int) -> list[str]:
    """Return the words of all blocks after the first word; the first block gives up ``overhead`` tokens."""
    words: list[str] = []
    left, spent = line.input_length, overhead
    for hash_id in line.hash_ids:
        tokens = min(BLOCK_TOKENS, left)
        if tokens <= 0:
            break
        words += source.fitter.filler(spent, (), max(tokens, spent), f"{source.seed}:block:{hash_id}")
        left, spent = left - tokens, 0
    return words


def _block_word(source: Source, hash_id: int) -> str:
    return random.Random(f"{source.seed}:first:{hash_id}").choice(source.leads())
