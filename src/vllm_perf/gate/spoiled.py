# SPDX-License-Identifier: Apache-2.0
"""Why a pair is worth nothing as it was measured, and whether measuring again may help."""

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


def spoiled(pair: Pair, workload: str) -> list[str]:
    """Return why the pair is not worth judging on a workload, a sentence for each reason."""
    cells = pair.cells(workload)
    if cells is None:
        return []
    said = [
        f"{side}: {reason}"
        for side, cell in zip(SIDES, cells, strict=True)
        for reason in (*cell.invalid, *((cell.failure,) if cell.failure else ()))
    ]
    return said + _unlike_clocks(*cells)


def passes_by_itself(reasons: list[str]) -> bool:
    """Tell whether a fresh run may be without them (a throttled card, someone else's requests)."""
    return any(f"{code}:" in reason for code in PASSING for reason in reasons)


def _unlike_clocks(base: CellResult, head: CellResult) -> list[str]:
    """Return how far the two sides' clocks lie apart, where that forbids a verdict."""
    said = []
    for index in range(64):
        before, after = _clock(base, index), _clock(head, index)
        if before is None or after is None:
            break
        slower = base if before < after else head
        # At its power cap a card clocks down by what it is asked to do: that is the change's own doing.
        if abs(after / before - 1) > CLOCK_DIFFERENCE_ALLOWED and not _capped(slower, index):
            said.append(
                f"{InvalidCode.GPU}: median SM clock of GPU {index} was {before:.0f} MHz for base, "
                f"{after:.0f} MHz for head ({after / before - 1:+.1%}, over {CLOCK_DIFFERENCE_ALLOWED:.0%})"
            )
    return said


def _clock(cell: CellResult, index: int) -> float | None:
    value = None if cell.cell is None else cell.cell.telemetry.get(f"gpus.{index}.sm_mhz.median")
    return float(value) if isinstance(value, int | float) and value else None


def _capped(cell: CellResult, index: int) -> bool:
    return cell.cell is not None and bool(cell.cell.telemetry.get(f"gpus.{index}.throttle.{POWER_CAP}"))
