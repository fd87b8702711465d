# SPDX-License-Identifier: Apache-2.0
"""Why a pair is worth nothing as it was measured, and whether measuring it again may help."""

from vllm_perf.engine.telemetry_summary import CLOCK_DIFFERENCE_ALLOWED
from vllm_perf.engine.throttle import POWER_CAP
from vllm_perf.gate.boot import SIDES, Pair
from vllm_perf.lab.result import CellResult
from vllm_perf.metrics.reasons import InvalidCode

# What passes by itself. Anything else (wrong lengths, failed requests, an engine that is not as asked) would
# come out the same again.
PASSING = (
    InvalidCode.GPU,
    InvalidCode.GENERATOR_LATE,
    InvalidCode.RATE_NOT_REACHED,
    InvalidCode.FOREIGN_TRAFFIC,
)


def spoiled(pair: Pair) -> list[str]:
    """Return why the pair is not worth judging, a sentence for each side and workload; empty if it is."""
    said = [
        f"{side}, {cell.workload}: {reason}"
        for side in SIDES
        for cell in pair.side(side).cells
        for reason in (*cell.invalid, *((cell.failure,) if cell.failure else ()))
    ]
    return said + [f"{InvalidCode.GPU}: {sentence}" for sentence in _clocks(pair)]


def passes_by_itself(reasons: list[str]) -> bool:
    """Tell whether a fresh run may be without them (a throttled card, someone else's requests)."""
    return any(f"{code}:" in reason for code in PASSING for reason in reasons)


def unlike_clocks(pair: Pair, workload: str) -> list[str]:
    """Return how far the two sides' clocks lie apart in one workload, where that forbids a verdict."""
    base, head = pair.base.cell(workload), pair.head.cell(workload)
    if base is None or head is None:
        return []
    return _unlike(base, head)


def _clocks(pair: Pair) -> list[str]:
    return [sentence for cell in pair.base.cells for sentence in unlike_clocks(pair, cell.workload)]


def _unlike(base: CellResult, head: CellResult) -> list[str]:
    said = []
    for index in range(64):
        before, after = _clock(base, index), _clock(head, index)
        if before is None or after is None:
            break
        slower = base if before < after else head
        # At its power cap a card clocks down by what it is asked to do: that is the change's own doing.
        if abs(after / before - 1) > CLOCK_DIFFERENCE_ALLOWED and not _capped(slower, index):
            said.append(
                f"{base.workload}: median SM clock of GPU {index} was {before:.0f} MHz for base, {after:.0f} "
                f"MHz for head ({after / before - 1:+.1%}; up to {CLOCK_DIFFERENCE_ALLOWED:.0%} is allowed)"
            )
    return said


def _clock(cell: CellResult, index: int) -> float | None:
    value = None if cell.cell is None else cell.cell.telemetry.get(f"gpus.{index}.sm_mhz.median")
    return float(value) if isinstance(value, int | float) and value else None


def _capped(cell: CellResult, index: int) -> bool:
    return cell.cell is not None and bool(cell.cell.telemetry.get(f"gpus.{index}.throttle.{POWER_CAP}"))
