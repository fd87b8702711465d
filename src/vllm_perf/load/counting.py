# SPDX-License-Identifier: Apache-2.0
"""Count a prompt's tokens as the served model does: by the server's own tokenizer, or by its usage."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Protocol

from vllm_perf.load.address import parse_address
from vllm_perf.load.fetch import FetchError, post_json
from vllm_perf.load.plan import Target
from vllm_perf.spec.base import SpecError

Message = dict[str, Any]
Prompt = str | Sequence[Message]


class TokenCounter(Protocol):
    """Count prompts; ``sends_prompts`` says that counting runs them, which fills the prefix cache."""

    sends_prompts: bool

    def count(self, prompt: Prompt, *, generation_prompt: bool = True) -> int:
        """Return the tokens of ``prompt``, chat template included (a string is a text completion's prompt).

        Raises:
            SpecError: the server cannot count it; the message holds its answer.
        """
        ...


class CountRefused(SpecError):
    """Say that the server did not count a prompt; ``status`` is its HTTP status, if it answered."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class _Memo:
    """Remember counts by digest, so that asking twice costs one request and little memory."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}

    def key(self, prompt: Prompt, generation_prompt: bool) -> bytes:
        text = json.dumps([prompt, generation_prompt], ensure_ascii=False)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def get(self, key: bytes) -> int | None:
        return self._counts.get(key)

    def put(self, key: bytes, count: int) -> int:
        self._counts[key] = count
        return count


class TokenizeCounter:
    """Ask vLLM's ``/tokenize``."""

    sends_prompts = False

    def __init__(self, target: Target, timeout_s: float = 30.0) -> None:
        self._target = target
        self._url = parse_address(target.base_url).root + "/tokenize"
        self._timeout_s = timeout_s
        self._memo = _Memo()
        self.max_model_len: int | None = None

    def count(self, prompt: Prompt, *, generation_prompt: bool = True) -> int:
        """Return the count that ``/tokenize`` gives.

        Raises:
            CountRefused: no answer, or one without a count.
        """
        key = self._memo.key(prompt, generation_prompt)
        known = self._memo.get(key)
        return known if known is not None else self._memo.put(key, self._ask(prompt, generation_prompt))

    def _ask(self, prompt: Prompt, generation_prompt: bool) -> int:
        data: dict[str, Any] = {"model": self._target.model}
        if isinstance(prompt, str):
            data["prompt"] = prompt
        else:
            data |= {"messages": list(prompt), "add_generation_prompt": generation_prompt}
        answer = _answer(self._target, self._url, data, self._timeout_s)
        count, limit = answer.get("count"), answer.get("max_model_len")
        if isinstance(limit, int):
            self.max_model_len = limit
        if not isinstance(count, int):
            raise CountRefused(f"{self._url}: the answer holds no count")
        return count


class UsageCounter:
    """Send the prompt for one token and read ``usage.prompt_tokens``: for servers without ``/tokenize``."""

    sends_prompts = True

    def __init__(self, target: Target, timeout_s: float = 120.0) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._memo = _Memo()

    def count(self, prompt: Prompt, *, generation_prompt: bool = True) -> int:
        """Return the prompt tokens the server says it read.

        Raises:
            CountRefused: no answer, no usage, or asked without the generation prompt (a request has one).
        """
        if not generation_prompt:
            raise CountRefused(
                "a server without /tokenize cannot count a prompt without its generation prompt"
            )
        key = self._memo.key(prompt, generation_prompt)
        known = self._memo.get(key)
        return known if known is not None else self._memo.put(key, self._ask(prompt))

    def _ask(self, prompt: Prompt) -> int:
        kind = {"prompt": prompt} if isinstance(prompt, str) else {"messages": list(prompt)}
        path = "/completions" if isinstance(prompt, str) else "/chat/completions"
        data = {"model": self._target.model, "max_tokens": 1, "temperature": 0, **kind}
        url = self._target.base_url.rstrip("/") + path
        usage = _answer(self._target, url, data, self._timeout_s).get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        if not isinstance(count, int):
            raise CountRefused(f"{url}: the answer holds no usage.prompt_tokens")
        return count


def counter_for(target: Target) -> TokenCounter:
    """Return the tokenizer's counter where the server has one, else the one that reads usage.

    Raises:
        CountRefused: the server does not answer at all, or refuses the key.
    """
    counter = TokenizeCounter(target)
    try:
        counter.count("a")
    except CountRefused as error:
        if error.status is None or error.status in (401, 403):
            raise
        return UsageCounter(target)
    return counter


def _answer(target: Target, url: str, data: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    try:
        answer = post_json(target, url, data, timeout_s=timeout_s)
    except FetchError as error:
        raise CountRefused(f"cannot count tokens: {error}") from error
    if not answer.ok:
        seen = answer.body[:200].decode("utf-8", "replace")
        raise CountRefused(f"cannot count tokens: {url} answered {answer.status}: {seen}", answer.status)
    value = answer.json()
    return value if isinstance(value, dict) else {}
