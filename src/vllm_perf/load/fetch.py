# SPDX-License-Identifier: Apache-2.0
"""Ask a server one small question outside the load (tokenize, metrics, models), never through a proxy of
the environment and never twice."""

import contextlib
import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

from vllm_perf.load.address import Address, parse_address
from vllm_perf.load.plan import Target


class FetchError(OSError):
    """Say that a side question got no answer: ``url``, what was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer, read whole."""

    status: int
    body: bytes

    @property
    def ok(self) -> bool:
        """Tell whether the status is 2xx."""
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body as JSON, or ``None`` where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def fetch(target: Target, url: str, *, body: bytes | None = None, timeout_s: float = 10.0) -> Answer:
    """GET ``url``, or POST ``body`` as JSON; ``timeout_s`` bounds each socket operation.

    Raises:
        FetchError: no connection, no TLS, or no HTTP answer in time.
    """
    address = parse_address(url)
    headers = {"Accept": "application/json, text/plain"}
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        with contextlib.closing(_connection(address, target, timeout_s)) as connection:
            path, hop = _path(address, target)
            connection.request("GET" if body is None else "POST", path, body=body, headers=headers | hop)
            response = connection.getresponse()
            return Answer(status=response.status, body=response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        # ValueError: a header value with a line break; its text would show the key.
        seen = "the key holds a character no header may hold" if isinstance(error, ValueError) else f"{error}"
        raise FetchError(f"{url}: {type(error).__name__}: {seen}") from None


def post_json(target: Target, url: str, data: Any, *, timeout_s: float = 10.0) -> Answer:
    """POST ``data`` as JSON; raises as ``fetch`` does."""
    return fetch(target, url, body=json.dumps(data).encode(), timeout_s=timeout_s)


def tls_context(target: Target) -> ssl.SSLContext:
    """Return the context that trusts ``target.ca_file`` where given, else the system's store."""
    return ssl.create_default_context(cafile=target.ca_file)


def _connection(address: Address, target: Target, timeout_s: float) -> http.client.HTTPConnection:
    hop = parse_address(target.proxy, what="proxy") if target.proxy else address
    if not address.tls:
        return http.client.HTTPConnection(hop.host, hop.port, timeout=timeout_s)
    secure = http.client.HTTPSConnection(hop.host, hop.port, timeout=timeout_s, context=tls_context(target))
    if target.proxy:
        secure.set_tunnel(address.host, address.port)
    return secure


def _path(address: Address, target: Target) -> tuple[str, dict[str, str]]:
    if target.proxy and not address.tls:
        return f"http://{address.host_header}{address.path}", {"Host": address.host_header}
    return address.path or "/", {}
