# SPDX-License-Identifier: Apache-2.0
"""What must hold: absolute limits and gains, per hardware, as data."""

from pydantic import Field, model_validator

from vllm_perf.spec.base import SpecModel


class Budget(SpecModel):
    """One limit on one metric of one (engine, workload).

    ``min``/``max`` are in the metric's own unit (ms, tokens/s, ratio). ``relative_to`` names the engine
    whose value the metric is divided by first (a gain). ``engine`` and ``workload`` may be ``*``;
    ``engine = "@last"`` and ``"@first"`` mean the ladder's last and first rung.
    """

    metric: str
    engine: str = "*"
    workload: str = "*"
    min: float | None = None
    max: float | None = None
    relative_to: str | None = None

    @model_validator(mode="after")
    def _one_limit_at_least(self) -> "Budget":
        if self.min is None and self.max is None:
            raise ValueError("a budget needs min or max")
        return self


class BudgetFile(SpecModel):
    """Budgets of one kind of hardware; ``gpu`` is matched as a substring of the GPU's name, "" is the CPU."""

    name: str
    platform: str
    gpu: str = ""
    budgets: tuple[Budget, ...] = Field(min_length=1)
