# SPDX-License-Identifier: Apache-2.0
"""Make sides of a comparison by hand."""

from collections.abc import Sequence
from typing import Any

from tests.unit.metrics.making import WORKLOAD, request, run_of
from vllm_perf.channel.facts import Handshake
from vllm_perf.channel.manners import free_manners
from vllm_perf.channel.network import Network
from vllm_perf.channel.side import Side
from vllm_perf.load.sample import Run
from vllm_perf.spec.channel import ChannelSpec
from vllm_perf.spec.target import Target

URL = "http://127.0.0.1:1/v1"
FULL = {
    "usage": True,
    "stream_options": True,
    "pins_length": True,
    "tokens_per_chunk": 1.0,
    "buffered": False,
    "metrics": True,
}


def side(name: str, runs: Sequence[Run], *, rtts_ms: Sequence[float] = (), **facts: Any) -> Side:
    """Return a channel that gives everything, apart from ``facts``, with its runs and round trips."""
    trips = list(rtts_ms) or [0.1] * len(runs)
    return Side(
        spec=ChannelSpec(name=name, base_url=URL),
        target=Target(base_url=URL, model="m", name=name),
        manners=free_manners(name),
        facts=Handshake(channel=name, base_url=URL, model="m", **{**FULL, **facts}),
        network=Network(connects_ms=trips),
        runs=list(runs),
        rtts_ms=trips,
    )


def blocks(*ttfts_ms: float, tokens: int = 3) -> list[Run]:
    """Return one block for each TTFT: two requests of ``tokens`` tokens, 10 ms apart."""
    return [
        run_of(
            *(
                request(f"p{number}", chunks_ms=[ttft + 10 * token for token in range(tokens)])
                for number in range(2)
            ),
            workload=WORKLOAD.name,
        )
        for ttft in ttfts_ms
    ]
