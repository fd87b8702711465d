# SPDX-License-Identifier: Apache-2.0
"""The same prompts for every channel, apart from a first word that keeps them out of each other's caches.

Two channels may lead to one server (a gateway in front of the local vLLM): whoever asks second would find
the first one's prompts in the prefix cache. One other word at the very beginning of the same text, of the
same cost in tokens, prevents that, and leaves the work the same.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_perf.load.counting import TokenCounter
from vllm_perf.load.drafts import Phase
from vllm_perf.load.fitting import Fitter
from vllm_perf.load.lexicon import Lexicon
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.prompts import build_requests
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.workload import PromptSpec, WorkloadSpec

# Text that is the user's own is sent as it stands.
SALTED_KINDS = ("shared_prefix", "unique", "multi_turn")
# From 1,024 tokens on every channel that caches does so; much more would only cost.
PROBE_TOKENS = (1280, 2048)


@dataclass(slots=True, kw_only=True)
class PromptBook:
    """Make the prompts of every block once and hand each channel its own copy.

    ``exact`` says that ``counter`` is a server's own tokenizer. A ``salt`` other than 0 gives the first
    channel another first word as well, so that no run finds its prompts in a cache filled by an earlier one.
    """

    workload: WorkloadSpec
    counter: TokenCounter
    exact: bool
    salt: int = 0
    _lexicon: Lexicon | None = field(default=None, init=False)
    _salts: dict[tuple[str, int], str] = field(default_factory=dict, init=False)

    def block(self, number: int, side: int, phase: Phase = "measured") -> tuple[PlannedRequest, ...]:
        """Return the requests of one block for the channel ``side`` (0 is the first)."""
        return self._salted(self.workload, number, side, phase)

    def probe(self, count: int, side: int) -> tuple[PlannedRequest, ...]:
        """Return ``count`` different prompts, about as long as the workload's, for one output token."""
        spec = self.workload.prompt
        tokens = min(max(spec.shared_tokens + spec.unique_tokens, PROBE_TOKENS[0]), PROBE_TOKENS[1])
        changes = {
            "prompt": PromptSpec(kind="unique", unique_tokens=tokens),
            "output_tokens": 1,
            "requests": count,
            "seed": self.workload.seed + 1,
        }
        return self._salted(self.workload.model_copy(update=changes), 0, side, "measured")

    def _salted(
        self, workload: WorkloadSpec, number: int, side: int, phase: Phase
    ) -> tuple[PlannedRequest, ...]:
        # Text of its own in every block: on a channel nobody can reset the cache.
        own = workload.model_copy(update={"reset_caches": False})
        requests = build_requests(own, model="", counter=self.counter, phase=phase, repetition=number)
        if workload.prompt.kind not in SALTED_KINDS or (side == 0 and self.salt == 0):
            return requests
        place = side if self.salt == 0 else side + 1
        return tuple(replace(one, body=self._salted_body(one.body, place)) for one in requests)

    def _salted_body(self, body: bytes, side: int) -> bytes:
        data: dict[str, Any] = json.loads(body)
        messages = data.get("messages")
        if messages:
            messages[0]["content"] = self._salted_text(messages[0]["content"], side)
        else:
            data["prompt"] = self._salted_text(data["prompt"], side)
        return encoded(data)

    def _salted_text(self, text: str, side: int) -> str:
        first, space, rest = text.partition(" ")
        if (first, side) not in self._salts:
            self._salts[first, side] = self._other_word(first, side, f"{space}{rest}")
        return f"{self._salts[first, side]}{space}{rest}"

    def _other_word(self, first: str, side: int, rest: str) -> str:
        """Return the ``side``-th word that makes a prompt of the same length when it stands first.

        Raises:
            SpecError: there are not so many.
        """
        if self._lexicon is None:
            self._lexicon = Fitter(self.counter, self.workload.endpoint).lexicon
        words = self._lexicon.words
        start = (words.index(first) if first in words else 0) + self.salt
        wanted = self._count(first + rest)
        left = side
        for step in range(1, len(words) + 1):
            word = words[(start + step) % len(words)]
            if word != first and self._count(word + rest) == wanted:
                left -= 1
                if left == 0:
                    return word
        raise SpecError(f"the tokenizer has too few words of one length for {side + 1} channels")

    def _count(self, text: str) -> int:
        return self.counter.count(
            text if self.workload.endpoint == "completions" else [{"role": "user", "content": text}]
        )


def adapted(
    requests: Iterable[PlannedRequest], *, model: str, left_out: Sequence[str], exact: bool
) -> tuple[PlannedRequest, ...]:
    """Return the requests as one channel takes them: its model, without the fields that it refuses.

    ``exact``: the prompts' lengths are those of this channel's own tokenizer.
    """
    return tuple(_adapted(one, model, left_out, exact) for one in requests)


def _adapted(request: PlannedRequest, model: str, left_out: Sequence[str], exact: bool) -> PlannedRequest:
    data = {name: value for name, value in json.loads(request.body).items() if name not in left_out}
    return replace(
        request,
        body=encoded(data | {"model": model}),
        prompt_tokens=request.prompt_tokens if exact else None,
        output_tokens=None if "ignore_eos" in left_out else request.output_tokens,
    )


def max_tokens(request: PlannedRequest) -> int:
    """Return the most tokens that a request may bring back."""
    return int(json.loads(request.body)["max_tokens"])


def encoded(data: dict[str, Any]) -> bytes:
    """Return a body's JSON, written as the load writes it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
