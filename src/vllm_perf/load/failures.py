# SPDX-License-Identifier: Apache-2.0
"""Name what went wrong on the way to the server: resolving, connecting, TLS, proxies."""

import errno
import socket
import ssl

from vllm_perf.load.address import Address
from vllm_perf.load.framing import FramingError
from vllm_perf.spec.category import Category

Failure = tuple[Category, str]
RESETS = (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED)


class ProxyRefused(OSError):
    """Say that a proxy did not open the tunnel asked of it."""


def malformed_key(key: str | None) -> Failure | None:
    """Return a failure for a key that no header may hold; its text shows no part of the key."""
    if not key or all("!" <= letter <= "~" for letter in key):
        return None
    if key != key.strip():
        seen = "begins or ends with white space, often a line break from a file"
    elif any(letter.isspace() for letter in key):
        seen = "holds white space"
    else:
        seen = "holds a control or non-ASCII character"
    return Category.KEY_MALFORMED, f"nothing was sent: the API key {seen}"


def opening_failure(error: BaseException, address: Address, proxy: Address | None) -> Failure:
    """Name why no connection could be opened to ``address``, or to ``proxy`` on the way."""
    hop = proxy or address
    if isinstance(error, ProxyRefused):
        return Category.LOCAL_PROXY_FAILED, f"the proxy {hop.netloc} refused a tunnel: {error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            Category.TLS_TRUST,
            f"the certificate of {address.netloc} is not trusted: {error.verify_message}",
        )
    if isinstance(error, ssl.SSLError | FramingError):
        return _no_tls(error, address)
    if isinstance(error, socket.gaierror):
        return Category.DNS_FAILED, f"the name {hop.host} does not resolve: {error.strerror}"
    if isinstance(error, TimeoutError):
        return Category.TIMEOUT, f"no connection to {hop.netloc} in time"
    category = Category.LOCAL_PROXY_FAILED if proxy else Category.SERVER_DOWN
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, OSError) and error.errno in RESETS and not proxy:
        category = Category.CONNECTION_RESET
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Category.UNKNOWN, f"this machine allows no more open files: {reason}; raise ulimit -n"
    return category, f"cannot connect to {'the proxy ' if proxy else ''}{hop.netloc}: {reason}"


def _no_tls(error: BaseException, address: Address) -> Failure:
    """A TLS error: most often plain HTTP behind an https:// URL, whose first bytes are no TLS record."""
    text = str(getattr(error, "reason", "") or error)
    if any(
        word in text for word in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER", "UNEXPECTED_EOF")
    ):
        return (
            Category.SCHEME_MISMATCH,
            f"{address.netloc} does not speak TLS ({text}): the base URL says https://, try http://",
        )
    return Category.TLS_TRUST, f"TLS to {address.netloc} failed: {text}"
