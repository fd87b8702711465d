# SPDX-License-Identifier: Apache-2.0
"""Rules for failures on the way to the server: TLS, names, proxies, closed ports, timeouts."""

import errno
import ssl
from urllib.parse import urlsplit

from vllm_perf.diagnosis.base_url import host_and_port, is_loopback, suggest, with_scheme
from vllm_perf.diagnosis.failure import Failure
from vllm_perf.diagnosis.proxies import proxy_for
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "PACKET_LENGTH_TOO_LONG",
    "UNKNOWN_PROTOCOL",
)
_TLS_BYTES = ("\\x15\\x03", "\x15\x03")
_TIMEOUTS = ("TimeoutError", "TimeoutException", "APITimeoutError", "Timeout", "ServerTimeoutError")
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN)


def tls_trust(failure: Failure) -> Diagnosis | None:
    """The server's certificate is not trusted."""
    refused = failure.is_a("SSLCertVerificationError", "ClientConnectorCertificateError", "CertificateError")
    if not refused and not failure.says("certificate verify failed", "certificate_verify_failed"):
        missing = failure.env.get("SSL_CERT_FILE") and failure.is_a("FileNotFoundError", "SSLError")
        if not missing or not failure.says("no such file", "no certificate", "x509"):
            return None
    return failure.diagnosis(
        Category.TLS_TRUST,
        "the server answers, but its certificate is not trusted by this client",
        "point SSL_CERT_FILE at the authority that signed it (a self-signed one signs itself), or use "
        "http://",
    )


def scheme_mismatch(failure: Failure) -> Diagnosis | None:
    """TLS was spoken to a server without TLS, or the other way round."""
    scheme = urlsplit(failure.url).scheme
    reasons = {getattr(error, "reason", None) for error in failure.errors if isinstance(error, ssl.SSLError)}
    if scheme == "https" and (reasons.intersection(_NOT_TLS) or _silent_to_tls(failure)):
        cause, other = "https was spoken to a server that does not use TLS (vLLM serves plain http)", "http"
    elif scheme == "http" and failure.says(*_TLS_BYTES):
        cause, other = "plain http was spoken to a server that wants TLS", "https"
    else:
        return None
    wanted = suggest(with_scheme(failure.url, other))
    return failure.diagnosis(
        Category.SCHEME_MISMATCH, cause, f"use {wanted} as the base URL", {"suggested_base_url": wanted}
    )


def _silent_to_tls(failure: Failure) -> bool:
    """Tell whether the port opens but never answers a TLS greeting: a plain server waits for more."""
    if not failure.is_a("ConnectTimeout", "ConnectionTimeoutError") and not failure.says(
        "handshake operation"
    ):
        return False
    host, port = host_and_port(failure.url)
    return (is_loopback(failure.url) or port != 443) and failure.connect(host, port)


def dns(failure: Failure) -> Diagnosis | None:
    """A host name does not resolve: the server's or the proxy's."""
    if not failure.is_a("gaierror", "ClientConnectorDNSError", "NameResolutionError"):
        return None
    proxy = proxy_for(failure.url, failure.env)
    if proxy is not None:
        return _through_proxy(failure, proxy.variable, proxy.address, "its name does not resolve")
    host, _ = host_and_port(failure.url)
    return failure.diagnosis(
        Category.DNS_FAILED,
        f"the host name {host} does not resolve",
        "correct the host in the base URL, or the DNS",
    )


def proxy_failed(failure: Failure) -> Diagnosis | None:
    """The proxy itself refused or failed."""
    if not failure.is_a(
        "ProxyError", "ClientProxyConnectionError", "ClientHttpProxyError", "ProxyConnectionError"
    ):
        return None
    proxy = proxy_for(failure.url, failure.env)
    variable, address = (proxy.variable, proxy.address) if proxy else ("the proxy setting", "the proxy")
    return _through_proxy(failure, variable, address, "it refused or failed")


def refused(failure: Failure) -> Diagnosis | None:
    """Nothing accepts the connection: the server is down, or a dead proxy looks like it."""
    closed = failure.has_errno(errno.ECONNREFUSED, *_UNREACHABLE)
    if not closed and not failure.says("all connection attempts failed"):
        return None
    host, port = host_and_port(failure.url)
    proxy = proxy_for(failure.url, failure.env)
    if proxy is not None and failure.connect(host, port):
        return _through_proxy(
            failure, proxy.variable, proxy.address, "nothing answers there, but the server does"
        )
    return failure.diagnosis(
        Category.SERVER_DOWN,
        f"nothing accepts connections at {host}:{port}",
        f"start the server, or correct host and port, then check with: curl {suggest(failure.url)}/models; "
        "if it died for lack of memory, lower --gpu-memory-utilization (0.8) or --max-model-len",
        {"host": host, "port": port},
    )


def _through_proxy(failure: Failure, variable: str, address: str, why: str) -> Diagnosis:
    return failure.diagnosis(
        Category.LOCAL_PROXY_FAILED,
        f"{variable} sends the request through the proxy {address}: {why}",
        f"start that proxy, unset {variable}, or add the server's host to NO_PROXY "
        "(NO_PROXY=localhost does not cover 127.0.0.1)",
        {"variable": variable},
    )


def timed_out(failure: Failure) -> Diagnosis | None:
    """No answer within the client's limit."""
    if not failure.is_a(*_TIMEOUTS) and not failure.has_errno(errno.ETIMEDOUT):
        return None
    if failure.is_a("PoolTimeout"):
        cause, remedy = "the client ran out of connections of its own", "give it a larger connection pool"
    elif failure.is_a("ConnectTimeout", "ConnectionTimeoutError") or failure.has_errno(errno.ETIMEDOUT):
        cause, remedy = "the connection did not open in time", "check host, port and firewall"
    elif failure.after_chunks:
        cause = f"the stream stopped after {failure.after_chunks} chunks and did not go on in time"
        remedy = "check the server: is the engine alive, is its queue full?"
    else:
        cause = "the server took the request and did not answer in time"
        remedy = "check the server's log (a hung engine still answers /health), or allow more time"
    return failure.diagnosis(Category.TIMEOUT, cause, remedy)


def reset(failure: Failure) -> Diagnosis | None:
    """The connection broke before an answer."""
    broken = failure.is_a(
        "ConnectionResetError",
        "BrokenPipeError",
        "ConnectionAbortedError",
        "RemoteProtocolError",
        "ReadError",
        "WriteError",
        "ServerDisconnectedError",
        "RemoteDisconnected",
        "ClientOSError",
        "SSLEOFError",
        "IncompleteReadError",
    )
    if not broken or failure.says("illegal status line", "bad status line"):
        return None
    return failure.diagnosis(
        Category.CONNECTION_RESET,
        "the other side closed the connection without an answer",
        "check whether the server process died (log, exit code), and what stands between it and you",
    )


def not_http(failure: Failure) -> Diagnosis | None:
    """Something answers, but not in HTTP."""
    if not failure.is_a("BadStatusLine") and not failure.says("illegal status line", "bad status line"):
        return None
    host, port = host_and_port(failure.url)
    return failure.diagnosis(
        Category.UNKNOWN,
        f"what listens at {host}:{port} does not speak HTTP",
        "check the port: vLLM also opens ports for its own processes",
    )
