# SPDX-License-Identifier: Apache-2.0
"""How requests behave on someone else's server: paced, within the spend cap, and heeding Retry-After."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.pacer import Pacer
from vllm_perf.channel.purse import Purse, Wanted
from vllm_perf.load.address import parse_address
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import ChannelSpec, Prices

# A refusal that names no time is given this long; one that asks for more than the most ends the run.
DEFAULT_WAIT_S = 5.0
MOST_WAIT_S = 120.0
MOST_REFUSALS_IN_A_ROW = 3
FREE = Prices(currency="")


@dataclass(slots=True, kw_only=True)
class Manners:
    """One channel's purse and pace. ``refused`` counts 429 answers; each is also a failed sample."""

    channel: str
    purse: Purse
    pacer: Pacer
    refused: int = 0
    requests: int = 0
    in_a_row: int = 0
    most_wait_s: float = MOST_WAIT_S
    say: Callable[[str], None] = lambda _: None

    def before(self, wanted: Wanted) -> None:
        """Wait for this request's turn.

        Raises:
            Stopped: its worst case does not fit into the spend cap any more.
        """
        self.require([wanted])
        self.pacer.wait(tokens_of(wanted, self.purse))
        self.requests += 1

    def require(self, wanted: Sequence[Wanted]) -> None:
        """Let a whole group of requests go, or none of it.

        Raises:
            Stopped: their worst case together does not fit into the spend cap.
        """
        if not self.purse.affords(wanted):
            raise Stopped(self.channel, self._cap_reason(wanted))

    def after(self, wanted: Wanted, prompt_tokens: int | None, output_tokens: int | None) -> None:
        """Charge what was answered."""
        self.in_a_row = 0
        self.purse.charge(wanted, prompt_tokens, output_tokens)

    def heed(self, retry_after_s: float | None, refusals: int = 1) -> None:
        """Wait as long as a 429 asked for.

        Raises:
            Stopped: it asks for more than ``most_wait_s``, or this is the fourth time in a row.
        """
        self.refused += refusals
        self.in_a_row += 1
        wait_s = DEFAULT_WAIT_S * 2 ** (self.in_a_row - 1) if retry_after_s is None else retry_after_s
        if wait_s > self.most_wait_s:
            raise Stopped(
                self.channel,
                f"RATE_LIMITED: it asks to wait {wait_s:.0f} s, more than the {self.most_wait_s:g} s this run"
                " would wait (--most-wait-s)",
            )
        if self.in_a_row > MOST_REFUSALS_IN_A_ROW:
            raise Stopped(
                self.channel,
                f"RATE_LIMITED: refused {self.in_a_row} times in a row although each wait was kept; lower the"
                " load (--most-per-min, --concurrency) or have the limit raised",
            )
        self.say(f"{self.channel}: rate limit reached; waiting {wait_s:.3g} s as it asks")
        self.pacer.back_off(wait_s)

    def _cap_reason(self, wanted: Sequence[Wanted]) -> str:
        purse, currency = self.purse, self.purse.prices.currency
        worst = sum(purse.worst(one) for one in wanted)
        return (
            f"spend cap: {purse.spent:.6f} {currency} are spent and the next {len(wanted)} requests may cost"
            f" up to {worst:.6f}, more than the cap of {purse.cap:.6f}; nothing more was sent"
        )


def manners_of(
    spec: ChannelSpec,
    *,
    spend_cap: float | None,
    most_wait_s: float = MOST_WAIT_S,
    say: Callable[[str], None] = lambda _: None,
) -> Manners:
    """Return the manners for one channel.

    Raises:
        SpecError: a channel elsewhere has no prices, or costs money and has no cap.
    """
    prices = spec.prices
    if prices is None:
        if not parse_address(spec.base_url).loopback:
            raise SpecError(
                f"channel '{spec.name}' has no prices, so its cost cannot be bounded; put"
                " prices = { prompt_per_million = …, output_per_million = … } into its entry (0 if free)"
            )
        prices = FREE
    cap = spend_cap if spend_cap is not None else spec.spend_cap
    if not prices.free and cap is None:
        raise SpecError(
            f"channel '{spec.name}' costs money and has no spend cap: give --spend-cap AMOUNT, in"
            f" {prices.currency}, or spend_cap in its entry"
        )
    return Manners(
        channel=spec.name,
        purse=Purse(prices=prices, cap=None if prices.free else cap),
        pacer=Pacer(limits=spec.limits),
        most_wait_s=most_wait_s,
        say=say,
    )


def free_manners(channel: str) -> Manners:
    """Return manners without any limit, for a server of one's own."""
    return manners_of(ChannelSpec(name=channel, base_url="http://127.0.0.1/v1", prices=FREE), spend_cap=None)


def tokens_of(wanted: Wanted, purse: Purse) -> float:
    """Return the tokens a rate limit may count for one request: its prompt and all it may bring back."""
    return purse.most_prompt(wanted) + wanted.max_tokens
