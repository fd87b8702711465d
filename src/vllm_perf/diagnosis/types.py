# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis says."""

from dataclasses import dataclass, field

from vllm_perf.spec.category import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One root cause: what it is, what was seen, what to do; every text is redacted already.

    ``figures`` holds the numbers read from the evidence (``free_gib``, ``wanted_gib``, ``max_model_len``…).
    """

    category: Category
    cause: str
    evidence: str
    remedy: str
    figures: dict[str, float | int | str] = field(default_factory=dict)
    log_path: str | None = None

    def paragraph(self) -> str:
        """Return the one paragraph a user reads."""
        where = f" Whole log: {self.log_path}" if self.log_path else ""
        return f"{self.category}: {self.cause}\n  seen: {self.evidence}\n  do: {self.remedy}{where}"
