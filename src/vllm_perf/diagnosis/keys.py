# SPDX-License-Identifier: Apache-2.0
"""Find what is wrong with the form of an API key without ever showing it."""


def key_problem(key: str | None) -> str | None:
    """Return why ``key`` cannot travel in a header, or ``None`` where it can (or where there is none)."""
    if key is None:
        return None
    if not key.strip():
        return "the key is empty"
    if key != key.strip():
        return f"the key {_edge(key)} with {_kind(key)}"
    if any(character.isspace() for character in key):
        return "the key contains whitespace"
    if any(ord(character) < 32 or ord(character) == 127 for character in key):
        return "the key contains a control character"
    if not key.isascii():
        return "the key contains a character outside ASCII (a typographic quote or a byte-order mark?)"
    if key[0] == key[-1] and key[0] in "'\"":
        return "the key is wrapped in quotation marks"
    if key.lower().startswith("bearer"):
        return "the key starts with the word Bearer, which clients add themselves"
    return None


def key_remedy(key: str | None) -> str:
    """Return what to do about a key that ``key_problem`` objects to."""
    if not (key or "").strip():
        return "set the key where it is read from; for a server that wants none leave it out, or use EMPTY"
    return (
        "strip the key where it is read ($(cat FILE) drops a newline, reading a file in Python does not), "
        "without quotation marks and the word Bearer"
    )


def _edge(key: str) -> str:
    return "begins" if key[:1].isspace() else "ends"


def _kind(key: str) -> str:
    edge = key[: len(key) - len(key.lstrip())] + key[len(key.rstrip()) :]
    return "a newline" if "\n" in edge or "\r" in edge else "whitespace"
