# SPDX-License-Identifier: Apache-2.0
"""Take keys, tokens and passwords out of any text before it is shown or written."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

MASK = "[redacted]"
_MASKED = MASK.strip("[]")

# Stand-ins that people type where no key is wanted; hiding them would only hide the evidence.
# Switches have names like credentials too (HF_HUB_DISABLE_IMPLICIT_TOKEN=1).
NOT_SECRET = frozenset(
    (
        "", "empty", "none", "null", "false", "true", "0", "1", "yes", "no", "on", "off",
        "dummy", "no-key", "not-needed", MASK,
    )
)  # fmt: skip

_VALUE = r"""(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[^\s"',;&)}\]\[{]+)"""
_LIST = rf"(?:\[\s*{_VALUE}(?:\s*,\s*{_VALUE})*\s*\]|{_VALUE})"
# Names whose value is a secret; `bos_token` and its kin are words of a tokenizer, `max_tokens` is a number.
_NAME = (
    # Prose speaks of "the first token: …"; in a name it would be "first_token".
    r"(?<![A-Za-z0-9_.])(?<!\bfirst )(?<!\blast )(?<!\bnext )(?<!\bone )(?<!\bno )(?<!\bper )"
    r"(?!(?:bos|eos|pad|unk|sep|cls|mask|image|stop|first|last|next|end|start|max|min)_token)"
    r"[A-Za-z0-9_.-]*?"
    r"(?:api[ _-]?keys?|auth[_-]?token|access[_-]?token|refresh[_-]?token|id[_-]?token|api[_-]?token|token"
    r"|secret(?:[_-]?key)?|password|passwd|client[_-]?secret|private[_-]?key)"
    r"(?![A-Za-z0-9_])"
)
_PREFIXED = (
    r"(?<![A-Za-z0-9])(?:sk|pk|rk)-[A-Za-z0-9_*.…-]{2,}[A-Za-z0-9_*]"
    # No underscore inside: `hf_hub_download` is a function.
    r"|(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{12,}(?![A-Za-z0-9_])"
    r"|(?<![A-Za-z0-9_])(?:gsk|ghp|gho|ghs|github_pat|glpat|r8|nvapi|xai|xox[abp])[_-][A-Za-z0-9_-]{8,}"
    r"|(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{20,}"
    r"|(?<![A-Za-z0-9])eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    r"|(?<![A-Za-z0-9])[A-Za-z0-9-]{1,8}\*{3,}[A-Za-z0-9]{2,8}(?![A-Za-z0-9])"
)
# Words that follow "Bearer", "--api-key" or "token:" in prose; a key is none of them.
_SPOKEN = frozenset(
    (
        "token", "tokens", "auth", "authentication", "authorization", "bearer", "basic", "scheme",
        "key", "keys", "or", "and", "is", "was", "are", "takes", "in", "of", "to", "the", "a", "an",
        "any", "option", "flag", "header", "for", "from", "by", "with", "value", "values", "mode",
        "only", "must", "may", "not", "no",
    )
)  # fmt: skip

_USERINFO = re.compile(r"(?<=://)[^\s/@'\"<>]+(?=@)")
_HEADER = re.compile(
    r"((?:proxy-)?authorization|x-api-key|api-key)(['\"]?\s*[:=]\s*(?:b(?=['\"]))?['\"]?|['\"]\s*,\s*b?['\"])"
    r"((?:bearer|basic|token)\s+)?([A-Za-z0-9_+/~.\[-][^\s'\",;}\])]*)",
    re.IGNORECASE,
)
_COOKIE = re.compile(r"((?:set-)?cookie['\"]?\s*[:=,]\s*b?['\"]?)([^'\"\r\n]+)", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)(\s+)([A-Za-z0-9_+/~.*\[-][^\s'\",;)\]}<>]*)", re.IGNORECASE)
_NAMED = re.compile(rf"({_NAME}['\"]?\s*(?:[:=]|=>)\s*(?:b(?=['\"]))?)({_LIST})", re.IGNORECASE)
_OPTION = re.compile(rf"(--(?:api-key|hf-token|token)(?:[ =]|['\"],\s*))({_VALUE})", re.IGNORECASE)
_SAID = re.compile(
    r"((?:api[ _-]?key|token)\s+(?:provided|received|passed|is|was)\s*[:=]?\s+)(\S+)", re.IGNORECASE
)
_HASH = re.compile(
    r"((?:\bhash\b|\bhashed\b|token|key)[^\n]{0,24}?)(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])", re.IGNORECASE
)
_QUERY = re.compile(r"([?&](?:key|auth|sig|signature|code)=)[^&\s'\"#]+", re.IGNORECASE)
_PREFIX = re.compile(_PREFIXED)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return ``text`` without anything that looks like a credential and without any of ``secrets``.

    Known secrets go first, in every spelling a library may give them (as typed, URL-quoted, escaped as in
    JSON or a Python literal, SHA-256); then come the shapes: key prefixes, headers, named values, URLs.
    """
    for spelling in _spellings(secrets):
        text = spelling.sub(MASK, text)
    text = _USERINFO.sub(MASK, text)
    text = _HEADER.sub(lambda match: f"{match[1]}{match[2]}{match[3] or ''}{_mask(match[4])}", text)
    text = _COOKIE.sub(lambda match: match[1] + MASK, text)
    text = _BEARER.sub(_mask_bearer, text)
    text = _NAMED.sub(lambda match: match[1] + _mask(match[2]), text)
    text = _OPTION.sub(lambda match: match[1] + _mask(match[2]), text)
    text = _SAID.sub(lambda match: match[1] + _mask_said(match[2]), text)
    text = _HASH.sub(lambda match: match[1] + MASK, text)
    text = _QUERY.sub(lambda match: match[1] + MASK, text)
    return _PREFIX.sub(MASK, text)


def looks_secret(name: str) -> bool:
    """Tell whether a variable or setting of this ``name`` holds a credential."""
    return re.search(_NAME + r"$", name, re.IGNORECASE) is not None


@dataclass(frozen=True, slots=True, repr=False)
class Redactor:
    """Redact with the secrets known so far; handed around, never global, and silent about what it holds."""

    secrets: tuple[str, ...] = ()

    def __call__(self, text: str) -> str:
        """Return ``text`` redacted."""
        return redact(text, self.secrets)

    def knowing(self, *secrets: str | None) -> "Redactor":
        """Return a redactor that knows ``secrets`` too; ``None`` and stand-ins such as EMPTY are left out."""
        return Redactor(
            (*self.secrets, *(secret for secret in secrets if secret is not None and _is_secret(secret)))
        )

    @classmethod
    def of_environment(cls, env: Mapping[str, str]) -> "Redactor":
        """Return a redactor that knows the value of every variable that is named like a credential."""
        return cls().knowing(*(value for name, value in env.items() if looks_secret(name)))

    def __repr__(self) -> str:
        """Say how many secrets are held, not which."""
        return f"Redactor({len(self.secrets)} secrets)"


def _is_secret(text: str | None) -> bool:
    return text is not None and text.strip().lower() not in NOT_SECRET


def _spellings(secrets: Iterable[str]) -> list[re.Pattern[str]]:
    texts: set[str] = set()
    for secret in secrets:
        if not _is_secret(secret):
            continue
        bare = secret.strip()
        # Variables may hold bytes that are no text.
        data = secret.encode("utf-8", "surrogateescape")
        escaped = (repr(secret)[1:-1], repr(data)[2:-1], json.dumps(secret)[1:-1])
        digest = hashlib.sha256(bare.encode("utf-8", "surrogateescape")).hexdigest()
        texts.update((secret, bare, quote(data, safe=""), digest, *escaped))
    # Longest first, so that a secret which contains another goes as a whole.
    return [_literal(text) for text in sorted(texts, key=len, reverse=True) if text]


def _literal(text: str) -> re.Pattern[str]:
    # A very short secret ("k") may hide inside any word: there only a stand-alone one is taken out.
    if len(text) >= 6:
        return re.compile(re.escape(text))
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])")


def _mask(value: str) -> str:
    bare = value.strip("'\"[] ")
    word = bare.rstrip("`.,;:!?*").lower()
    is_count = bare.isdigit() and len(bare) <= 6
    if is_count or word in NOT_SECRET or word in _SPOKEN or bare.startswith(_MASKED):
        return value
    quote_mark = value[0] if value[:1] in "'\"" else ""
    return f"{quote_mark}{MASK}{quote_mark}"


def _mask_bearer(match: re.Match[str]) -> str:
    value = match[3]
    if value.lower().rstrip("`.,;:!?*") in _SPOKEN or value.lstrip("[").startswith(_MASKED):
        return match[0]
    return f"{match[1]}{match[2]}{MASK}"


def _mask_said(value: str) -> str:
    # "token is missing" is prose; "API key provided: abcd1234" is not.
    return value if value.isalpha() or value.lstrip("[").startswith(_MASKED) else MASK
