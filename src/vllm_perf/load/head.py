# SPDX-License-Identifier: Apache-2.0
"""Write request heads: all that does not change is written once for the whole load."""

from vllm_perf import __version__
from vllm_perf.load.address import Address
from vllm_perf.load.opening import Route, proxy_authorization
from vllm_perf.load.plan import Target
from vllm_perf.spec.workload import Endpoint

PATHS: dict[Endpoint, str] = {"chat": "/chat/completions", "completions": "/completions"}


class RequestWriter:
    """Join head and body of a request into one piece of bytes."""

    __slots__ = ("_fixed",)

    def __init__(self, route: Route, target: Target, endpoint: Endpoint) -> None:
        """Write the part that all requests share."""
        address = route.address
        lines = [
            f"POST {_request_target(route, address)}{PATHS[endpoint]} HTTP/1.1",
            f"Host: {address.host_header}",
            f"User-Agent: vllm-perf/{__version__}",
            "Accept: text/event-stream",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
        ]
        if target.api_key:
            lines.append(f"Authorization: Bearer {target.api_key}")
        if route.proxy is not None and not route.tunnels:
            lines += proxy_authorization(route.proxy)
        self._fixed = "\r\n".join(lines).encode("latin-1")

    def write(self, request_id: str, body: bytes) -> bytes:
        """Return the whole request as it goes over the wire."""
        return b"%b\r\nX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._fixed,
            request_id.encode("latin-1"),
            len(body),
            body,
        )


def _request_target(route: Route, address: Address) -> str:
    """Return what stands before the endpoint's path: a proxy that forwards needs the whole URL."""
    if route.proxy is not None and not route.tunnels:
        return f"http://{address.host_header}{address.path}"
    return address.path
