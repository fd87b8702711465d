# SPDX-License-Identifier: Apache-2.0
"""Judge a client's settings: key mode before completeness, completeness before the form of the URL."""

from collections.abc import Callable

from vllm_perf.diagnosis.base_url import check_base_url, server_root, suggest
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.clients.settings import ClientSettings
from vllm_perf.spec.category import Category


def judge(settings: ClientSettings) -> Diagnosis:
    """Return the first thing wrong, or ``OK``."""
    for rule in _RULES:
        found = rule(settings)
        if found is not None:
            return found
    return _say(
        settings, Category.OK, "base URL, key and model are all set, in API-key mode", "nothing to do"
    )


def _unread(settings: ClientSettings) -> Diagnosis | None:
    if settings.unread is None:
        return None
    return _say(
        settings,
        Category.CLIENT_CONFIG_INCOMPLETE,
        settings.unread,
        "correct the file: the client cannot use it",
    )


def _conflict(settings: ClientSettings) -> Diagnosis | None:
    if settings.conflict is None:
        return None
    return _say(settings, Category.AUTH_CONFLICT, settings.conflict, "keep the API key and remove the other")


def _oauth(settings: ClientSettings) -> Diagnosis | None:
    if settings.oauth is None:
        return None
    return _say(
        settings,
        Category.AUTH_MODE_OAUTH,
        f"it is logged in by OAuth ({settings.oauth}): requests go to the vendor and ignore a base URL "
        f"of yours",
        f"{_logout(settings.client)} and use API-key mode: base URL, key and model id, all three",
    )


def _provider(settings: ClientSettings) -> Diagnosis | None:
    if settings.provider is None:
        return None
    return _say(
        settings,
        Category.CLIENT_CONFIG_INCOMPLETE,
        f"its provider is '{settings.provider}', which does not use the base URL",
        "choose the OpenAI-compatible provider",
    )


def _incomplete(settings: ClientSettings) -> Diagnosis | None:
    wanted = (
        (settings.base_url, settings.base_url_key),
        (settings.key, settings.key_name),
        (settings.model, settings.model_key),
    )
    missing = [name for value, name in wanted if value is None]
    if not missing:
        return None
    return _say(
        settings,
        Category.CLIENT_CONFIG_INCOMPLETE,
        f"it lacks {' and '.join(missing)}; base URL, key and model id are needed, all three",
        f"set {', '.join(missing)}; for a vLLM of your own: {_example(settings)}, the key that it was "
        "started with (any, such as EMPTY, if with none), and an id that its /v1/models lists",
    )


def _logout(client: str) -> str:
    """Return how to log out of a client, by its own command where it has one."""
    if "Claude Code" in client:
        return "log out (/logout)"
    if "Codex" in client:
        return "log out (codex logout)"
    return "choose the OpenAI-compatible provider"


def _example(settings: ClientSettings) -> str:
    return f"base URL http://HOST:8000{'/v1' if settings.wants_v1 else ' (without /v1)'}"


def _malformed_key(settings: ClientSettings) -> Diagnosis | None:
    if settings.key is None or settings.key.problem is None:
        return None
    return _say(
        settings,
        Category.KEY_MALFORMED,
        f"{settings.key.problem} (in {settings.key.where})",
        "write the key anew",
    )


def _url(settings: ClientSettings) -> Diagnosis | None:
    url = settings.base_url or ""
    wrong = check_base_url(url)
    if settings.wants_v1 or (wrong is not None and wrong.category is Category.BASE_URL_INVALID):
        return None if wrong is None else _say(settings, wrong.category, wrong.cause, wrong.remedy)
    if wrong is not None and wrong.category is Category.BASE_URL_MISSING_V1:
        return None
    wanted = server_root(suggest(url))
    return _say(
        settings,
        Category.BASE_URL_HAS_ENDPOINT,
        "it appends /v1/messages itself, so this base URL would lead to /v1/v1/messages",
        f"use {wanted}",
    )


def _header(settings: ClientSettings) -> Diagnosis | None:
    if settings.key is None or settings.key.header == "Authorization":
        return None
    return _say(
        settings,
        Category.AUTH_WRONG_HEADER,
        f"{settings.key.where} is sent as {settings.key.header}, which vLLM does not read; the key may "
        f"be right",
        "set it as ANTHROPIC_AUTH_TOKEN, which is sent in the Authorization header",
    )


_RULES: tuple[Callable[[ClientSettings], Diagnosis | None], ...] = (
    _unread,
    _conflict,
    _oauth,
    _provider,
    _incomplete,
    _malformed_key,
    _url,
    _header,
)


def _say(settings: ClientSettings, category: Category, cause: str, remedy: str) -> Diagnosis:
    key = f"set in {settings.key.where}" if settings.key else "not set"
    url, model = settings.base_url or "not set", settings.model or "not set"
    seen = f"{settings.source}: base URL {url}, key {key}, model {model}"
    return Diagnosis(
        category=category,
        cause=redact(f"{settings.client}: {cause}"),
        evidence=redact(seen),
        remedy=redact(remedy),
        figures={"client": settings.client},
    )
