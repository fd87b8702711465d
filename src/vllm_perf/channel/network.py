# SPDX-License-Identifier: Apache-2.0
"""The network between here and a channel, measured apart from everything the channel does."""

import socket
import time
from dataclasses import dataclass, field

from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.line import Broken, Line
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.load.address import parse_address
from vllm_perf.metrics.percentiles import median, percentile_interval
from vllm_perf.spec.target import Target

CONNECT_TIMEOUT_S = 10.0
NS_PER_MS = 1e6


@dataclass(slots=True, kw_only=True)
class Network:
    """Round trips to one channel, in ms.

    ``connects_ms``: TCP handshakes, which the other side's kernel answers: one round trip and nothing else.
    ``gets_ms``: small GETs over an open connection: a round trip plus what the server does for it.
    ``through_proxy``: only the way to the proxy can be seen, so that nothing may be subtracted.
    """

    through_proxy: bool = False
    connects_ms: list[float] = field(default_factory=list)
    gets_ms: list[float] = field(default_factory=list)

    @property
    def rtt_ms(self) -> float | None:
        """Return the median TCP round trip, ``None`` where a proxy hides it or nothing was measured."""
        return None if self.through_proxy or not self.connects_ms else median(self.connects_ms)

    @property
    def rtt_interval_ms(self) -> tuple[float | None, float | None]:
        """Return the 95 % interval of that median."""
        if self.rtt_ms is None:
            return None, None
        return percentile_interval(self.connects_ms, 0.5)

    @property
    def http_ms(self) -> float | None:
        """Return the median time of a small GET over an open connection."""
        return median(self.gets_ms) if self.gets_ms else None


def measure_connects(target: Target, network: Network, times: int) -> float:
    """Time ``times`` TCP handshakes, keep them, and return their median in ms; names are resolved before.

    Raises:
        ChannelUnusable: a connection could not be opened.
    """
    hop = parse_address(target.proxy, what="proxy") if target.proxy else parse_address(target.base_url)
    try:
        seen = [_connect_ms(hop.host, hop.port) for _ in range(times)]
    except OSError as error:
        found = classify_exception(error, url=target.base_url, env={}, key=target.api_key)
        raise ChannelUnusable(target.name, found) from error
    network.connects_ms += seen
    return median(seen)


def measure_gets(target: Target, network: Network, times: int, timeout_s: float = 10.0) -> None:
    """Time ``times`` GETs of ``/v1/models`` over one open connection; the first only opens the way.

    Raises:
        ChannelUnusable: no answer.
    """
    try:
        with Line(target, timeout_s) as line:
            line.connect()
            for number in range(times + 1):
                answer = line.get(f"{target.base_url}/models")
                if number:
                    network.gets_ms.append(answer.elapsed_ns / NS_PER_MS)
    except Broken as error:
        raise ChannelUnusable(target.name, error.diagnosis) from error


def _connect_ms(host: str, port: int) -> float:
    last: OSError | None = None
    for family, kind, protocol, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as sock:
            sock.settimeout(CONNECT_TIMEOUT_S)
            started_ns = time.perf_counter_ns()
            try:
                sock.connect(place)
            except OSError as error:
                last = error
                continue
            return (time.perf_counter_ns() - started_ns) / NS_PER_MS
    raise last or OSError(f"{host} has no address")
