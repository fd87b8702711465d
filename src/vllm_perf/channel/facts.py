# SPDX-License-Identifier: Apache-2.0
"""What a handshake found out about a channel, as data that can be shown and stored."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens that were paid for."""

    prompt_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """What a channel can give. Of each fact, ``None`` means "could not be found out", never "no".

    ``usage``: token counts come with the stream. ``stream_options``: the field is accepted.
    ``pins_length``: ``ignore_eos`` with ``min_tokens`` gives exactly the length asked for. ``seed``: the
    same seed gives the same text, another one another. ``max_tokens``: never more than allowed.
    ``reasoning_field``: which field of a delta carries reasoning. ``hidden_reasoning``: reasoning tokens
    are counted and not shown, so that first-token time is that of the first *shown* token.
    ``tokens_per_chunk``: output tokens ÷ chunks. ``buffered``: something on the way collects chunks.
    ``left_out``: fields of a request that the channel refuses. ``requests``/``spent``: what asking cost.
    """

    channel: str
    base_url: str
    model: str
    models: tuple[str, ...] = ()
    usage: bool | None = None
    stream_options: bool | None = None
    pins_length: bool | None = None
    seed: bool | None = None
    max_tokens: bool | None = None
    reasoning_field: str | None = None
    hidden_reasoning: bool = False
    tokens_per_chunk: float | None = None
    buffered: bool | None = None
    metrics: bool | None = None
    tokenize: bool | None = None
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    requests: int = 0
    spent: Spent = Spent()


def lines(facts: Handshake) -> tuple[tuple[str, str], ...]:
    """Return (question, answer) pairs for a reader."""
    per_chunk = facts.tokens_per_chunk
    return (
        ("usage in the stream", word(facts.usage)),
        ("stream_options accepted", word(facts.stream_options)),
        ("output length can be pinned (ignore_eos)", word(facts.pins_length)),
        ("seed honoured", word(facts.seed)),
        ("max_tokens honoured", word(facts.max_tokens)),
        ("reasoning arrives in", _reasoning(facts)),
        ("tokens per chunk", "not known" if per_chunk is None else f"{per_chunk:.2f}"),
        ("stream buffered on the way", word(facts.buffered)),
        ("/metrics of vLLM", word(facts.metrics)),
    )


def word(answer: bool | None) -> str:
    """Return a fact as a word."""
    return "not known" if answer is None else "yes" if answer else "no"


def _reasoning(facts: Handshake) -> str:
    if facts.reasoning_field is not None:
        return f"delta.{facts.reasoning_field}"
    return "hidden (counted, not shown)" if facts.hidden_reasoning else "none seen"
