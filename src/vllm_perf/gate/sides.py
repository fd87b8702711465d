# SPDX-License-Identifier: Apache-2.0
"""Turn a measured cell into one side of a comparison, as the history does with a stored one."""

from vllm_perf.history.sides import side_of_cell
from vllm_perf.lab.result import CellResult
from vllm_perf.verdict.side import Side


def side_of(result: CellResult) -> Side:
    """Return what one boot measured on one workload, ready to be compared.

    Raises:
        ValueError: the cell holds nothing (the boot failed).
    """
    if result.cell is None:
        raise ValueError(f"{result.engine}, {result.workload}: nothing was measured")
    return side_of_cell(result.cell, result.series)
