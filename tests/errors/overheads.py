# SPDX-License-Identifier: Apache-2.0
"""What a gateway adds in front of two servers, and whether that is the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vllm_perf.channel.difference import minus
from vllm_perf.metrics.percentiles import median, percentile_interval

# What two servers cannot be alike in, as a share of the overhead in front of the second.
ALLOWED_SHARE = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A median over rounds with its 95 % interval by order statistics, ms.

    A few rounds in which the machine did something else do not move it, as they would a mean.
    """

    median: float
    low: float
    high: float

    @classmethod
    def over(cls, values: Sequence[float]) -> "Interval":
        """Return the interval over rounds, of which there must be at least six."""
        low, high = percentile_interval(values, 0.5)
        assert low is not None
        assert high is not None
        return cls(median=median(values), low=low, high=high)

    def __str__(self) -> str:
        """Return it as a reader's text."""
        return f"{self.median:.1f} ms ({self.low:.1f}..{self.high:.1f})"


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
        allowed = ALLOWED_SHARE * self.golden.median
        return self.apart.low <= allowed and self.apart.high >= -allowed

    def __str__(self) -> str:
        """Return all three as a reader's text."""
        return f"real {self.real}, golden {self.golden}, apart {self.apart}"
