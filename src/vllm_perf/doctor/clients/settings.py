# SPDX-License-Identifier: Apache-2.0
"""What a client is set up to do, whichever file it says so in; the key itself is never kept."""

from dataclasses import dataclass
from typing import Literal

from vllm_perf.diagnosis.keys import key_problem

ClientName = Literal["codex", "claude-code", "cline", "cc-switch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """A key without the key: where it stands, and what is wrong with its form (``None``: nothing)."""

    where: str
    problem: str | None = None
    header: Literal["Authorization", "x-api-key"] = "Authorization"


def key_state(
    value: object, where: str, header: Literal["Authorization", "x-api-key"] = "Authorization"
) -> KeyState | None:
    """Return the state of the key ``value``, or ``None`` where there is none."""
    if not isinstance(value, str) or not value.strip():
        return None
    return KeyState(where=where, problem=key_problem(value), header=header)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """One client's way to a server.

    ``wants_v1``: the client appends only the endpoint, so the base URL ends in ``/v1``; otherwise it appends
    ``/v1/…`` itself. ``oauth``: where a login that ignores the base URL is stored. ``conflict``: two sources
    of credentials, and which wins. ``provider``: a provider setting that is not the OpenAI-compatible one.
    """

    client: str
    source: str
    base_url: str | None = None
    base_url_key: str = "base_url"
    key: KeyState | None = None
    key_name: str = "api_key"
    model: str | None = None
    model_key: str = "model"
    wants_v1: bool = True
    oauth: str | None = None
    conflict: str | None = None
    provider: str | None = None
    unread: str | None = None


def text(value: object) -> str | None:
    """Return ``value`` where it is text with something in it."""
    return value.strip() if isinstance(value, str) and value.strip() else None
