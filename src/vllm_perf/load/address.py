# SPDX-License-Identifier: Apache-2.0
"""Read a base URL into the parts a socket and a request line need."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from vllm_perf.spec.base import SpecError

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One server: ``path`` is what the base URL adds to it (``/v1``), without a slash at its end."""

    scheme: str
    host: str
    port: int
    path: str = ""
    user: str | None = None
    password: str | None = None

    @property
    def tls(self) -> bool:
        """Tell whether the socket speaks TLS."""
        return self.scheme == "https"

    @property
    def netloc(self) -> str:
        """Return ``host:port`` as a CONNECT line needs it, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def host_header(self) -> str:
        """Return the Host header: the port is left out where it is the scheme's own."""
        return self.netloc.rpartition(":")[0] if self.port == DEFAULT_PORTS[self.scheme] else self.netloc

    @property
    def root(self) -> str:
        """Return the server's root URL: the base URL without its ``/v1``."""
        return f"{self.scheme}://{self.host_header}{self.path.removesuffix('/v1')}"

    @property
    def loopback(self) -> bool:
        """Tell whether the server is on this machine."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse_address(url: str, *, what: str = "base URL") -> Address:
    """Split ``url``.

    Raises:
        SpecError: no http(s) scheme, no host, or a port that is none.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise SpecError(f"{what} '{_shown(url)}' cannot be read: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise SpecError(f"{what} '{_shown(url)}' is not http://HOST:PORT/v1 or https://HOST/v1")
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or DEFAULT_PORTS[parts.scheme],
        path=parts.path.rstrip("/"),
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def _shown(url: str) -> str:
    """Leave out what stands before an ``@``: it may be a password."""
    head, at, tail = url.rpartition("@")
    return f"{SplitResult(head.partition('://')[0], '***@' + tail, '', '', '').geturl()}" if at else url
