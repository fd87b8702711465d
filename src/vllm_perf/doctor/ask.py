# SPDX-License-Identifier: Apache-2.0
"""Ask a server one HTTP question, without any SDK and, for this very machine, without any proxy."""

import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from vllm_perf.diagnosis.base_url import host_and_port, is_loopback
from vllm_perf.diagnosis.proxies import proxy_for

_MAX_BODY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer: status, headers, at most 4 MiB of body, and how long it took."""

    status: int
    headers: dict[str, str]
    body: bytes
    elapsed_s: float

    def json(self) -> Any:
        """Return the body as JSON, ``None`` where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def ask(
    url: str,
    *,
    key: str | None = None,
    data: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 10.0,
) -> Reply:
    """Send ``GET url``, or ``POST`` where there is ``data``, and return the answer, whatever its status.

    Raises:
        OSError, http.client.HTTPException, ValueError: there was none (the key may be unfit for a header).
    """
    headers = {"Accept": "application/json", "Connection": "close"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    connection, target = _connect(url, env or {}, timeout_s)
    started_ns = time.perf_counter_ns()
    try:
        if data is None:
            connection.request("GET", target, headers=headers)
        else:
            headers["Content-Type"] = "application/json"
            connection.request("POST", target, body=json.dumps(data).encode(), headers=headers)
        response = connection.getresponse()
        body = response.read(_MAX_BODY_BYTES)
        return Reply(
            status=response.status,
            headers={name.lower(): value for name, value in response.getheaders()},
            body=body,
            elapsed_s=(time.perf_counter_ns() - started_ns) / 1e9,
        )
    finally:
        connection.close()


def _connect(url: str, env: Mapping[str, str], timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
    """Return a connection, not open yet, and what to ask it for: the path, or the whole URL for a proxy."""
    parts = urlsplit(url)
    host, port = host_and_port(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    proxy = None if is_loopback(url) else proxy_for(url, env)
    through = urlsplit(env[proxy.variable]) if proxy else None
    if through is not None and through.hostname and (through.scheme in ("http", "https")):
        if parts.scheme == "http":
            plain = http.client.HTTPConnection(through.hostname, through.port or 80, timeout=timeout_s)
            return plain, url
        tunnel = http.client.HTTPSConnection(through.hostname, through.port or 80, timeout=timeout_s)
        tunnel.set_tunnel(host, port)
        return tunnel, path
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=env.get("SSL_CERT_FILE") or None)
        return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context), path
    return http.client.HTTPConnection(host, port, timeout=timeout_s), path
