# SPDX-License-Identifier: Apache-2.0
"""Find out, in a handful of small requests, what a channel can give, before anything is measured on it."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.facts import Handshake, Spent
from vllm_perf.channel.line import Broken, Line, Reply
from vllm_perf.channel.manners import Manners
from vllm_perf.channel.purse import Wanted
from vllm_perf.channel.reading import (
    answer_text,
    hidden_reasoning,
    looks_buffered,
    model_ids,
    reasoning_field,
    tokens_per_chunk,
)
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.address import parse_address
from vllm_perf.load.scrape import parse_metrics
from vllm_perf.spec.category import Category
from vllm_perf.spec.target import Target

ASKED_TOKENS = 24
# A question whose honest answer is one word: whoever still writes ASKED_TOKENS tokens was made to.
QUESTION = "Reply with the single word OK."
SEEDS = (7, 7, 8)
# What a server may refuse, and what is left out together when it does.
EXTRAS: tuple[tuple[str, ...], ...] = (("ignore_eos", "min_tokens"), ("stream_options",), ("seed",))
REFUSED = (400, 404, 415, 422, 501)


@dataclass(slots=True, kw_only=True)
class _Talk:
    """One handshake under way: what has been spent, and which extras the channel took."""

    line: Line
    manners: Manners
    left_out: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)

    def ask(self, seed: int, left_out: tuple[str, ...]) -> Reply:
        """Send one question; where the channel says 429, wait as it asks and send it again."""
        body = question(self.line.target.model, seed, left_out)
        wanted = Wanted(body_bytes=len(body), max_tokens=ASKED_TOKENS)
        while True:
            self.manners.before(wanted)
            reply = self.line.stream(body)
            refusal = reply.refusal
            if refusal is None:
                self.manners.after(wanted, reply.result.prompt_tokens, _counted(reply))
                self.replies.append(reply)
                return reply
            if refusal.category is not Category.RATE_LIMITED:
                return reply
            wait_s = refusal.figures.get("retry_after_s")
            self.manners.heed(wait_s if isinstance(wait_s, int | float) else None)


def shake_hands(target: Target, manners: Manners, *, timeout_s: float = 30.0) -> Handshake:
    """Ask ``target`` what it can do: 3 short streams (up to 8 where it refuses something) and 3 GETs.

    Raises:
        ChannelUnusable: no answer, or one that says the channel cannot be measured at all (key, URL, model).
        Stopped: the spend cap, or a rate limit that does not let up.
    """
    try:
        with Line(target, timeout_s) as line:
            talk = _Talk(line=line, manners=manners)
            listed = model_ids(line.get(f"{target.base_url}/models"))
            replies = _streams(talk)
            metrics, tokenize = _has_metrics(line), _has_tokenize(line)
    except Broken as error:
        raise ChannelUnusable(target.name, error.diagnosis) from error
    return _conclude(
        talk, replies, replace(_empty(target), models=listed, metrics=metrics, tokenize=tokenize)
    )


def question(model: str, seed: int, left_out: tuple[str, ...] = ()) -> bytes:
    """Return the body of one question; at temperature 1, so that the seed matters."""
    data: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": QUESTION}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 1.0,
        "top_p": 1.0,
        "seed": seed,
        "max_tokens": ASKED_TOKENS,
        "ignore_eos": True,
        "min_tokens": ASKED_TOKENS,
    }
    kept = {name: value for name, value in data.items() if name not in left_out}
    return json.dumps(kept, separators=(",", ":")).encode()


def _streams(talk: _Talk) -> list[Reply]:
    """Ask with everything; where that is refused, find out what it is that is refused."""
    first = talk.ask(SEEDS[0], ())
    if first.refusal is not None:
        first = _without_what_is_refused(talk, first)
    _require(talk, first)
    return [first, *(talk.ask(seed, talk.left_out) for seed in SEEDS[1:])]


def _without_what_is_refused(talk: _Talk, first: Reply) -> Reply:
    """Leave extras out one after the other, then several; the first that is accepted wins."""
    if first.status not in REFUSED or first.refusal is None or not _blames_parameters(first.refusal):
        return first
    # stream_options goes last of all: without it no tokens are counted.
    most = (*EXTRAS[0], *EXTRAS[2])
    options = [*EXTRAS, most, (*most, *EXTRAS[1])]
    for left_out in options:
        reply = talk.ask(SEEDS[0], left_out)
        if reply.refusal is None:
            talk.left_out = left_out
            talk.notes.append(f"refused {', '.join(left_out)}: {talk.line.hidden(first.refusal.evidence)}")
            return reply
    return first


def _blames_parameters(refusal: Diagnosis) -> bool:
    return refusal.category in (Category.BAD_REQUEST, Category.UNKNOWN, Category.MAX_TOKENS_TOO_SMALL)


def _require(talk: _Talk, reply: Reply) -> None:
    """Raise ChannelUnusable unless the first stream brought a token."""
    target, result = talk.line.target, reply.result
    if reply.refusal is not None:
        raise ChannelUnusable(target.name, reply.refusal)
    if result.first_token_ns is None or result.outcome in (Category.IN_BAND_ERROR, Category.TRUNCATED_STREAM):
        raise ChannelUnusable(
            target.name,
            Diagnosis(
                category=result.outcome,
                cause="the channel answered a small streamed request with no usable stream",
                evidence=talk.line.hidden(result.detail or f"HTTP {reply.status}"),
                remedy="run vllm-perf doctor on it; look at the log of the server behind it",
            ),
        )


def _has_metrics(line: Line) -> bool:
    """Tell whether ``/metrics`` is vLLM's; no answer within the time limit is a no."""
    try:
        answer = line.get(parse_address(line.target.base_url).root + "/metrics")
    except Broken:
        return False
    return answer.ok and bool(parse_metrics(answer.body.decode("utf-8", "replace")))


def _has_tokenize(line: Line) -> bool:
    """Tell whether ``/tokenize`` is there: vLLM answers a GET with 405, a server without it with 404."""
    try:
        answer = line.get(parse_address(line.target.base_url).root + "/tokenize")
    except Broken:
        return False
    return answer.status == 405


def _empty(target: Target) -> Handshake:
    return Handshake(channel=target.name, base_url=target.base_url, model=target.model)


def _conclude(talk: _Talk, replies: list[Reply], so_far: Handshake) -> Handshake:
    counted = [reply.result for reply in replies if reply.result.token_source == "usage"]
    left_out = talk.left_out
    outputs = [result.output_tokens or 0 for result in counted]
    usage = len(counted) == len(replies)
    return replace(
        so_far,
        requests=len(talk.replies),
        spent=Spent(
            prompt_tokens=sum(reply.result.prompt_tokens or 0 for reply in talk.replies),
            output_tokens=sum(reply.result.output_tokens or 0 for reply in talk.replies),
        ),
        usage=usage,
        stream_options="stream_options" not in left_out,
        pins_length=_pins(outputs, replies, left_out) if usage else None,
        seed=_seed(replies, left_out),
        max_tokens=all(count <= ASKED_TOKENS for count in outputs) if usage else _few_chunks(replies),
        reasoning_field=next((name for one in replies if (name := reasoning_field(one.events))), None),
        hidden_reasoning=any(hidden_reasoning(reply.events) for reply in replies),
        tokens_per_chunk=tokens_per_chunk(replies),
        buffered=looks_buffered(replies),
        left_out=left_out,
        notes=tuple(talk.notes),
    )


def _pins(outputs: list[int], replies: list[Reply], left_out: tuple[str, ...]) -> bool:
    """Tell whether every answer had exactly the length asked for, and ended because of it."""
    if "ignore_eos" in left_out:
        return False
    lengths = all(reply.result.finish_reason == "length" for reply in replies)
    return lengths and all(count == ASKED_TOKENS for count in outputs)


def _seed(replies: list[Reply], left_out: tuple[str, ...]) -> bool | None:
    """Compare texts: same seed, same text; ``None`` where another seed makes no difference either."""
    if "seed" in left_out:
        return False
    one, same, other = (answer_text(reply.events) for reply in replies)
    if one != same:
        return False
    return True if other != one else None


def _counted(reply: Reply) -> int | None:
    return reply.result.output_tokens if reply.result.token_source == "usage" else None


def _few_chunks(replies: list[Reply]) -> bool | None:
    """Say no where more chunks came than tokens were allowed; fewer prove nothing."""
    return False if any(len(reply.result.chunk_ns) > ASKED_TOKENS for reply in replies) else None
