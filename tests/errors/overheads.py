# SPDX-License-Identifier: Apache-2.0
"""What a gateway adds in front of two servers, and whether that is the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vllm_perf.channel.difference import minus, paired

# What two servers cannot be alike in, as a share of the overhead in front of the second.
ALLOWED_SHARE = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean over rounds with its 95 % interval, ms."""

    mean: float
    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> "Interval":
        """Return the interval over rounds, of which there must be at least two."""
        found = paired(values)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        return cls(mean=found.mean, low=found.low, high=found.high)

    def __str__(self) -> str:
        """Return it as a reader's text."""
        return f"{self.mean:.1f} ms ({self.low:.1f}..{self.high:.1f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What a gateway adds to TTFT P50 before a server, before the golden engine, and how far these are apart.

    All three are paired round by round, so that a machine that is busy meanwhile meets both alike.
    """

    real: Interval
    golden: Interval
    apart: Interval

    @classmethod
    def of(cls, document: dict[str, Any], names: tuple[str, str, str, str]) -> "Overheads":
        """Read them off a comparison; ``names``: a server, the gateway before it, and the same for golden."""
        row = next(one for one in document["metrics"] if one["metric"] == "ttft_p50")
        assert all(one["comparable"] for one in row["against"]), row["against"]
        server, through, golden, golden_through = (row["rounds"][name] for name in names)
        real, truth = minus(through, server), minus(golden_through, golden)
        apart = Interval.over(minus(real, truth))
        return cls(real=Interval.over(real), golden=Interval.over(truth), apart=apart)

    @property
    def agree(self) -> bool:
        """Tell whether the two may be within the allowed share of each other."""
        allowed = ALLOWED_SHARE * self.golden.mean
        return self.apart.low <= allowed and self.apart.high >= -allowed

    def __str__(self) -> str:
        """Return all three as a reader's text."""
        return f"real {self.real}, golden {self.golden}, apart {self.apart}"
