# SPDX-License-Identifier: Apache-2.0
"""Hold requests apart so that a channel's limits are kept, and wait when it says so."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from vllm_perf.spec.channel import RateLimits

MINUTE_S = 60.0


@dataclass(slots=True, kw_only=True)
class Pacer:
    """Even spacing keeps a limit a minute whether the channel counts in fixed or in sliding windows.

    ``slowdown`` grows with every refusal. ``sleep`` and ``clock`` (seconds, monotonic) are there for tests.
    """

    limits: RateLimits
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    slowdown: float = 1.0
    waited_s: float = 0.0
    _free_at_s: float | None = None

    def gap_s(self, tokens: float) -> float:
        """Return the least time between the starts of two requests of so many tokens; 0 without limits."""
        gaps = [0.0]
        if self.limits.requests_per_min is not None:
            gaps.append(MINUTE_S / self.limits.requests_per_min)
        if self.limits.tokens_per_min is not None:
            gaps.append(MINUTE_S * tokens / self.limits.tokens_per_min)
        return max(gaps) * self.slowdown

    def wait(self, tokens: float) -> None:
        """Wait until a request of so many tokens may start, and take its turn."""
        self.wait_for_turn()
        self.took_turn(tokens)

    def wait_for_turn(self) -> None:
        """Wait until the last request's gap has passed."""
        if self._free_at_s is not None:
            self._pause(self._free_at_s - self.clock())

    def took_turn(self, tokens: float) -> None:
        """Take note that a request of so many tokens starts now."""
        self._free_at_s = self.clock() + self.gap_s(tokens)

    def back_off(self, seconds: float) -> None:
        """Wait as long as the channel asked for, and go half as fast from now on."""
        self.slowdown *= 2
        self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        if seconds > 0:
            self.waited_s += seconds
            self.sleep(seconds)
