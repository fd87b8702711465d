# SPDX-License-Identifier: Apache-2.0
"""Make sides and comparisons by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

from vllm_perf.metrics.reasons import InvalidCode, InvalidReason
from vllm_perf.verdict.side import Side, Work

WORK = Work(sent=100, failed=0, prompt_tokens=512, output_tokens=64, finish={"length": 1.0})
THROTTLED = InvalidReason(code=InvalidCode.GPU, sentence="GPU 0 was throttled", remedy="let it cool")


def side(ttft_ms: float = 200.0, *, tpot_ms: float = 20.0, throughput: float = 400.0, **more: Any) -> Side:
    """Make a boot with these gating values and no prompts."""
    values = {
        "ttft_p50": ttft_ms,
        "ttft_p95": 1.5 * ttft_ms,
        "tpot_p50": tpot_ms,
        "output_throughput": throughput,
    }
    return Side(values=values, **{"work": WORK, **more})


def boots(factors: Sequence[float], slower: float = 1.0) -> list[Side]:
    """Make boots whose times are all multiplied by a factor, and by how much slower they are."""
    return [
        side(200 * factor * slower, tpot_ms=20 * factor * slower, throughput=400 / (factor * slower))
        for factor in factors
    ]


def prompts(times_ms: Mapping[str, float]) -> Side:
    """Make a boot that knows each prompt's time to first token."""
    return side(sorted(times_ms.values())[len(times_ms) // 2], by_prompt={"ttft": times_ms})
