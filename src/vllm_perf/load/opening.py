# SPDX-License-Identifier: Apache-2.0
"""Open one connection without ever blocking: TCP, a tunnel where asked, TLS."""

import base64
import errno
import os
import select
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from vllm_perf.clock import stamp_socket
from vllm_perf.load.address import Address, parse_address
from vllm_perf.load.failures import ProxyError, TrustUnreadable
from vllm_perf.load.fetch import tls_context
from vllm_perf.load.framing import Framing
from vllm_perf.load.plan import Target
from vllm_perf.load.wire import READ_BYTES, PlainWire, TlsWire, Wire

SocketAddress = tuple[int, tuple[str, int] | tuple[str, int, int, int]]


@dataclass(slots=True, kw_only=True)
class Route:
    """The way to a server, worked out once: where to connect, through what, with which TLS context."""

    address: Address
    proxy: Address | None
    context: ssl.SSLContext | None
    places: tuple[SocketAddress, ...]
    stamps: bool
    buffer: bytearray = field(default_factory=lambda: bytearray(READ_BYTES))

    @property
    def tunnels(self) -> bool:
        """Tell whether a proxy must open a tunnel first."""
        return self.proxy is not None and self.address.tls


def plan_route(target: Target, *, stamps: bool) -> Route:
    """Resolve names and prepare TLS; environment proxies are never looked at.

    Raises:
        SpecError: the URL, or the proxy's, is malformed.
        OSError: the name does not resolve, or ``ca_file`` cannot be read.
    """
    address = parse_address(target.base_url)
    proxy = parse_address(target.proxy, what="proxy") if target.proxy else None
    hop = proxy or address
    found = socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM)
    places = tuple((family, place) for family, _, _, _, place in found)
    context = _context(target) if address.tls else None
    return Route(address=address, proxy=proxy, context=context, places=places, stamps=stamps)  # type: ignore[arg-type]


def _context(target: Target) -> ssl.SSLContext:
    try:
        return tls_context(target)
    except OSError as error:
        raise TrustUnreadable(f"{target.ca_file}: {error.strerror or error}") from error


class Opening:
    """One connection on its way; ``step`` is called whenever the events it waits for have come."""

    __slots__ = ("_steps", "mask", "sock", "wire")

    def __init__(self, route: Route, place: SocketAddress) -> None:
        """Start to connect.

        Raises:
            OSError: refused at once, or no file descriptor left.
        """
        self.wire: Wire | None = None
        self.mask = 0
        self.sock = socket.socket(place[0], socket.SOCK_STREAM)
        try:
            self.sock.setblocking(False)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if route.stamps:
                stamp_socket(self.sock)
            code = self.sock.connect_ex(place[1])
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, os.strerror(code))
        except BaseException:
            self.sock.close()
            raise
        self._steps = _steps(self, route)
        self.mask = next(self._steps)

    def step(self) -> bool:
        """Go on; return whether ``wire`` is there. Otherwise ``mask`` says what to wait for.

        Raises:
            OSError: refused, reset, no tunnel, no TLS.
        """
        try:
            self.mask = next(self._steps)
        except StopIteration:
            return True
        return False

    def close(self) -> None:
        """Give up."""
        self._steps.close()  # type: ignore[attr-defined]
        self.sock.close()


def _steps(opening: Opening, route: Route) -> Iterator[int]:
    yield select.EPOLLOUT
    code = opening.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    if route.tunnels and route.proxy is not None:
        yield from _tunnel(opening.sock, route.address, route.proxy)
    if route.context is None:
        opening.wire = PlainWire(opening.sock, route.buffer)
        return
    tls = TlsWire(opening.sock, route.buffer, route.context, route.address.host)
    while not tls.shake_hands():
        yield select.EPOLLIN
        try:
            tls.take_in()
        except BlockingIOError:
            continue
    opening.wire = tls


def _tunnel(sock: socket.socket, address: Address, proxy: Address) -> Iterator[int]:
    lines = [f"CONNECT {address.netloc} HTTP/1.1", f"Host: {address.netloc}", *proxy_authorization(proxy)]
    sock.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    framing = Framing()
    while not framing.status:
        yield select.EPOLLIN
        try:
            data = sock.recv(65_536)
        except BlockingIOError:
            continue
        if not data:
            raise ProxyError("it closed the connection")
        framing.feed(data)
    if framing.status != 200:
        raise ProxyError(f"it answered {framing.status}")


def proxy_authorization(proxy: Address) -> tuple[str, ...]:
    """Return the header line that names the proxy's user, where its URL holds one."""
    if proxy.user is None:
        return ()
    pair = f"{proxy.user}:{proxy.password or ''}".encode()
    return (f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}",)
