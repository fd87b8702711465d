# SPDX-License-Identifier: Apache-2.0
"""One generation request, read and checked as vLLM would."""

import json
from dataclasses import dataclass
from typing import Any

from vllm_perf.golden.profile import Profile, ProfileError, ServerOptions, override
from vllm_perf.golden.tokenizer import Tokenizer
from vllm_perf.golden.wire import Request

DEFAULT_COMPLETION_TOKENS = 16
HEADER_PREFIX = "x-golden-"


class JobError(ValueError):
    """Report a request that is answered with an error: status, message, vLLM's error type and parameter."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        """Keep the parts of vLLM's error envelope."""
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to generate: ``output_tokens`` of them, ending for ``finish``."""

    id: str
    chat: bool
    stream: bool
    model: str
    prompt: list[int]
    output_tokens: int
    finish: str
    include_usage: bool
    continuous_usage: bool
    profile: Profile
    received_ns: int


def read_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object.

    Raises:
        JobError: it is none.
    """
    try:
        body = json.loads(request.body or b"null")
    except ValueError as error:
        raise JobError(400, f"There was an error parsing the body: {error}", "Bad Request") from error
    if not isinstance(body, dict):
        raise JobError(400, "Input should be a valid dictionary", "Bad Request")
    return body


def profile_of(default: Profile, request: Request, url_wishes: dict[str, Any]) -> Profile:
    """Return the timing that a request asks for by URL, by ``X-Golden-*`` headers, by ``golden`` in its body.

    Raises:
        JobError: it asks for something that does not exist.
    """
    wishes = dict(url_wishes)
    for name, value in request.headers.items():
        if name.startswith(HEADER_PREFIX):
            wishes[name.removeprefix(HEADER_PREFIX).replace("-", "_")] = value
    if b'"golden"' in request.body:
        asked = read_body(request).get("golden")
        wishes.update(asked if isinstance(asked, dict) else {})
    try:
        return override(default, wishes)
    except ProfileError as error:
        raise JobError(400, str(error)) from error


def read_job(
    request: Request, options: ServerOptions, tokenizer: Tokenizer, profile: Profile, number: int
) -> Job:
    """Read one chat or text completion request.

    Raises:
        JobError: vLLM would refuse it.
    """
    body = read_body(request)
    model = body.get("model") or options.model
    if model != options.model:
        raise JobError(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    if body.get("n") not in (None, 1):
        raise JobError(400, "the golden engine answers with one choice", param="n")
    chat = request.path.endswith("/chat/completions")
    prompt = prompt_of(body, tokenizer, chat)
    if len(prompt) > options.max_model_len - 1:
        raise JobError(400, _too_long(options.max_model_len, len(prompt)), param="input_tokens")
    tokens, finish = _length(body, options.max_model_len - len(prompt), profile, chat)
    stream_options = body.get("stream_options") or {}
    return Job(
        id=request.headers.get("x-request-id") or f"golden-{number}",
        chat=chat,
        stream=bool(body.get("stream")),
        model=model,
        prompt=prompt,
        output_tokens=tokens,
        finish=finish,
        include_usage=bool(stream_options.get("include_usage")),
        continuous_usage=bool(stream_options.get("continuous_usage_stats")),
        profile=profile,
        received_ns=request.received_ns,
    )


def prompt_of(body: dict[str, Any], tokenizer: Tokenizer, chat: bool) -> list[int]:
    """Return the prompt's token ids.

    Raises:
        JobError: there is no usable prompt.
    """
    if chat:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
            raise JobError(400, "messages: a non-empty list of messages is required", param="messages")
        return tokenizer.encode_chat(messages, bool(body.get("add_generation_prompt", True)))
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and not isinstance(prompt[0], int):
        prompt = prompt[0]
    if isinstance(prompt, str):
        tokens = tokenizer.encode(prompt)
    elif isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        tokens = prompt
    else:
        raise JobError(400, "prompt: one text or one list of token ids is required", param="prompt")
    if not tokens:
        raise JobError(400, "The prompt is empty.", param="prompt")
    return tokens


def _length(body: dict[str, Any], room: int, profile: Profile, chat: bool) -> tuple[int, str]:
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    if asked is not None and (not isinstance(asked, int) or asked < 1):
        raise JobError(400, f"max_tokens must be at least 1, got {asked}.", param="max_tokens")
    limit = min(asked or (room if chat else DEFAULT_COMPLETION_TOKENS), room)
    if not body.get("ignore_eos"):
        natural = profile.stop_after or (DEFAULT_COMPLETION_TOKENS if asked is None else None)
        if natural is not None and natural < limit:
            return natural, "stop"
    return limit, "length"


def _too_long(limit: int, tokens: int) -> str:
    return (
        f"This model's maximum context length is {limit} tokens. However, your prompt contains {tokens} input"
        " tokens, which exceeds this limit even without any output tokens. Please reduce the length of the"
        f" input prompt. (parameter=input_tokens, value={tokens})"
    )
