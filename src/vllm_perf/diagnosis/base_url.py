# SPDX-License-Identifier: Apache-2.0
"""Find what is wrong with a base URL before anything is sent to it."""

import ipaddress
import re
from urllib.parse import SplitResult, urlsplit, urlunsplit

from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

ENDPOINTS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
)
# `/v1`, and what other services call it: `/api/paas/v4`, `/v1beta/openai`.
_VERSION = re.compile(r"/v\d+(?:alpha|beta)?\d*(?=/|$)")


def without_endpoint(url: str) -> str:
    """Return the base URL of a request to ``url``: without the one endpoint that the client appended."""
    appended = next((endpoint for endpoint in ENDPOINTS if url.endswith(endpoint)), "")
    return url.removesuffix(appended)


def check_base_url(url: str) -> Diagnosis | None:
    """Return what is wrong with the form of a base URL, or ``None``: scheme, missing ``/v1``, an endpoint."""
    shown = redact(url)
    invalid = _why_invalid(url)
    if invalid:
        return _bad(Category.BASE_URL_INVALID, invalid, repr(shown), suggest(url))
    path = urlsplit(url).path.rstrip("/")
    if len(_VERSION.findall(path)) > 1:
        return _bad(Category.BASE_URL_HAS_ENDPOINT, "the base URL holds /v1 twice", shown, suggest(url))
    if path.endswith(ENDPOINTS):
        cause = "the base URL already holds the endpoint, which clients append themselves"
        return _bad(Category.BASE_URL_HAS_ENDPOINT, cause, shown, suggest(url))
    if not _VERSION.search(path):
        return _bad(Category.BASE_URL_MISSING_V1, "the base URL lacks /v1", shown, suggest(url))
    return None


def suggest(url: str) -> str:
    """Return the base URL that ``url`` was meant to be; credentials in it are left out."""
    text = "".join(url.split())
    if not re.match(r"https?://", text):
        text = "http://" + text.removeprefix("//")
    parts = urlsplit(text)
    return urlunsplit((parts.scheme, _host_port(parts), _base_path(parts.path), "", ""))


def root_of(url: str) -> str:
    """Return ``scheme://host:port`` of ``url``, without credentials and path."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, _host_port(parts), "", "", ""))


def server_root(url: str) -> str:
    """Return what ``/health`` and ``/version`` hang under: the base URL without its version."""
    return suggest(url).rsplit("/v", 1)[0] if _VERSION.search(suggest(url)) else root_of(url)


def with_scheme(url: str, scheme: str) -> str:
    """Return ``url`` with another scheme, credentials left out."""
    parts = urlsplit(url)
    return urlunsplit((scheme, _host_port(parts), parts.path, "", ""))


def host_and_port(url: str) -> tuple[str, int]:
    """Return where ``url`` connects to; the port of its scheme where none is given."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Tell whether ``url`` points at this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _why_invalid(url: str) -> str | None:
    if any(character.isspace() for character in url):
        return "the base URL contains whitespace"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"the base URL cannot be read ({error})"
    if "@" in parts.netloc:
        return "the base URL holds a user or password, which is no way to give a key"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "the base URL does not start with http:// or https:// and a host"
    return None


def _host_port(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _base_path(path: str) -> str:
    base = path.rstrip("/")
    changed = True
    while changed:
        changed = False
        for ending in ENDPOINTS:
            if base.endswith(ending):
                base, changed = base.removesuffix(ending).rstrip("/"), True
    base = re.sub(r"(/v\d+(?:alpha|beta)?\d*)(?:/v\d+)+$", r"\1", base)
    return base if _VERSION.search(base) else f"{base}/v1"


def _bad(category: Category, cause: str, seen: str, wanted: str) -> Diagnosis:
    return Diagnosis(
        category=category,
        cause=cause,
        evidence=f"base URL {seen}",
        remedy=f"use {wanted}",
        figures={"suggested_base_url": wanted},
    )
