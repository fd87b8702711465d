# SPDX-License-Identifier: Apache-2.0
"""Read the proxy variables of an environment as HTTP clients do, and find what is wrong with them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from vllm_perf.diagnosis.base_url import host_and_port, is_loopback
from vllm_perf.diagnosis.redact import redact

_KNOWN_SCHEMES = ("http", "https", "socks4", "socks5", "socks5h")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyChoice:
    """The proxy that a request would take: the variable that says so, and its address without credentials."""

    variable: str
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyProblem:
    """One proxy setting that clients choke on."""

    variable: str
    entry: str
    why: str


def proxy_for(url: str, env: Mapping[str, str]) -> ProxyChoice | None:
    """Return the proxy that ``url`` would take; ``HTTPS_PROXY`` does not touch ``http://`` URLs."""
    if is_excluded(url, env):
        return None
    scheme = urlsplit(url).scheme
    for name in (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY"):
        if env.get(name, "").strip():
            return ProxyChoice(variable=name, address=redact(env[name].strip()))
    return None


def is_excluded(url: str, env: Mapping[str, str]) -> bool:
    """Tell whether ``NO_PROXY`` covers ``url``: by name, domain or ``*``; address ranges are not read."""
    host, port = host_and_port(url)
    return any(_covers(entry, host, port) for entry in no_proxy_entries(env))


def no_proxy_entries(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the entries of ``no_proxy``/``NO_PROXY``."""
    text = env.get("no_proxy") or env.get("NO_PROXY") or ""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def find_problems(env: Mapping[str, str]) -> tuple[ProxyProblem, ...]:
    """Return the proxy settings that make HTTP clients fail before they send anything."""
    found = [
        ProxyProblem(
            variable=_name(env, "no_proxy"), entry=entry, why="brackets around an IPv6 address are not read"
        )
        for entry in no_proxy_entries(env)
        if re.match(r"\[[0-9a-fA-F:.]+\]", entry)
    ]
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        variable = _name(env, name)
        value = env.get(variable, "").strip()
        why = _why_unusable(value) if value else None
        if why:
            found.append(ProxyProblem(variable=variable, entry=redact(value), why=why))
    return tuple(found)


def loopback_without_exclusion(url: str, env: Mapping[str, str]) -> ProxyChoice | None:
    """Return the proxy that would see requests meant for this very machine, or ``None``."""
    return proxy_for(url, env) if is_loopback(url) else None


def _why_unusable(value: str) -> str | None:
    scheme = urlsplit(value).scheme if "://" in value else "http"
    if scheme not in _KNOWN_SCHEMES:
        return f"'{scheme}://' is not a proxy scheme that clients know (http, https, socks5, socks5h)"
    if scheme.startswith("socks"):
        return "a SOCKS proxy needs an extra package ('socksio' for httpx, 'aiohttp-socks' for aiohttp)"
    return None


def _name(env: Mapping[str, str], name: str) -> str:
    return name if env.get(name) else name.upper()


def _covers(entry: str, host: str, port: int) -> bool:
    bare, _, wanted = entry.partition(":") if entry.count(":") == 1 else (entry, "", "")
    if wanted and wanted != str(port):
        return False
    bare = bare.removeprefix("http://").removeprefix("https://").strip("[]").lower()
    if bare == "*" or host == bare:
        return True
    return bool(bare) and not _is_address(host) and host.endswith("." + bare.lstrip("*").lstrip("."))


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
