# SPDX-License-Identifier: Apache-2.0
"""Prompts made of pseudo-words: shared prefix, unique, repeated text, conversations."""

from collections.abc import Callable
from functools import partial

from vllm_perf.load.counting import Message, Prompt
from vllm_perf.load.drafts import Draft, Fitted, Source, need, verified
from vllm_perf.spec.base import SpecError


def shared_prefix(source: Source) -> list[Draft]:
    """Return prompts of ``shared + unique`` tokens with one system prompt in common.

    The warm-up has a system prompt of its own, so that no measured one is in the cache beforehand.
    """
    spec = source.workload.prompt
    shared = need(spec.shared_tokens, "shared_tokens", spec.kind)
    total = shared + need(spec.unique_tokens, "unique_tokens", spec.kind)
    make = partial(source.fitter.prompt, _common(source, shared))
    return verified(source, [_nonced(source, index, make, total) for index in range(source.count)])


def unique(source: Source) -> list[Draft]:
    """Return prompts of ``unique_tokens`` tokens that share nothing, from the first word on.

    The nonce stands in a system message where there is one: a template's default system prompt would be
    a prefix that all share.
    """
    total = need(source.workload.prompt.unique_tokens, "unique_tokens", "unique")
    if not source.fitter.has_system:
        return of_lengths(source, [total] * source.count)
    return verified(source, [_system_nonced(source, index, total) for index in range(source.count)])


def text(source: Source) -> list[Draft]:
    """Return the workload's text as it stands; the warm-up is other text of the same length."""
    fitter, spec = source.fitter, source.workload.prompt
    if not spec.text:
        raise SpecError("prompt kind 'text' needs text")
    prompt = fitter.prompt("", spec.text)
    tokens = fitter.count(prompt)
    if source.phase == "warmup":
        return of_lengths(source, [tokens] * source.count)
    return [
        Draft(prompt_id=source.prompt_id(index), prompt=prompt, prompt_tokens=tokens)
        for index in range(source.count)
    ]


def of_lengths(source: Source, lengths: list[int]) -> list[Draft]:
    """Return one prompt of its own for each length in tokens."""
    make = partial(source.fitter.prompt, "")
    return verified(source, [_nonced(source, index, make, total) for index, total in enumerate(lengths)])


def multi_turn(source: Source) -> list[Draft]:
    """Return conversations: turn t holds all before it, an answer, and a question; t x ``unique_tokens``.

    Requests come turn by turn over all conversations; each waits for the one before it (``after``).

    Raises:
        SpecError: the endpoint is not chat, or a turn is too short for its template.
    """
    if source.workload.endpoint != "chat":
        raise SpecError("prompt kind 'multi_turn' needs endpoint 'chat'")
    spec = source.workload.prompt
    step = need(spec.unique_tokens, "unique_tokens", spec.kind)
    talks = -(-source.count // spec.turns)
    make = partial(source.fitter.prompt, "")
    turn = verified(source, [_nonced(source, index, make, step) for index in range(talks)])
    drafts = list(turn)
    while len(drafts) < source.count:
        turn = _next_turn(source, turn[: source.count - len(drafts)], len(drafts), step)
        drafts += turn
    return drafts


def _next_turn(source: Source, before: list[Draft], start: int, step: int) -> list[Draft]:
    word = source.opening()
    known = before[0].prompt_tokens or 0
    added = source.fitter.count(_grown(before[0].prompt, word, word)) - known
    fitted = []
    for place, draft in enumerate(before):
        index = start + place
        answer = source.words(min(source.workload.output_tokens, step // 2), f"{index}:answer")
        filler = source.fitter.filler(known + added, answer, known + step, source.seeded(index))
        make = partial(_grown, draft.prompt, " ".join([word, *answer]))
        fitted.append(_fitted(source, index, make, [word, *filler], known + step))
    done = verified(source, fitted)
    return [draft.following(old.prompt_id) for draft, old in zip(done, before, strict=True)]


def _grown(history: Prompt, answer: str, question: str) -> Prompt:
    messages: list[Message] = [] if isinstance(history, str) else list(history)
    return [*messages, {"role": "assistant", "content": answer}, {"role": "user", "content": question}]


def _common(source: Source, shared: int) -> str:
    """Return the system prompt: with its part of the template it has ``shared`` tokens.

    Where a template cannot render it alone, half of what the template adds in all is taken for its part.
    """
    lead, fitter = source.leads()[0], source.fitter
    alone = fitter.system_only(lead)
    if alone is None:
        whole = fitter.count(fitter.prompt(lead, source.opening()))
        alone = 1 + (whole - 2) // 2
    return " ".join([lead, *fitter.filler(alone, (), shared, source.seed + ":system")])


def _nonced(source: Source, index: int, make: Callable[[str], Prompt], total: int) -> Fitted:
    lead, tail = source.nonce(index)
    filler = source.fitter.filler(source.fitter.count(make(lead)), tail, total, source.seeded(index))
    return _fitted(source, index, make, [lead, *tail, *filler], total)


def _system_nonced(source: Source, index: int, total: int) -> Fitted:
    lead, tail = source.nonce(index)
    word, fitter = source.opening(), source.fitter
    base = fitter.count(fitter.prompt(lead, word))
    filler = fitter.filler(base, tail, total, source.seeded(index))
    return _fitted(source, index, partial(fitter.prompt, " ".join([lead, *tail])), [word, *filler], total)


def _fitted(
    source: Source, index: int, make: Callable[[str], Prompt], words: list[str], total: int
) -> Fitted:
    text = " ".join(words)
    return Fitted(
        prompt_id=source.prompt_id(index), make=make, text=text, tokens=total, seed=source.seeded(index)
    )
