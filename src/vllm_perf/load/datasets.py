# SPDX-License-Identifier: Apache-2.0
"""The user's own prompts: ShareGPT conversations and OpenAI messages, as JSONL or one JSON list."""

import json
from pathlib import Path
from typing import Any

from vllm_perf.load.counting import Message, Prompt
from vllm_perf.load.drafts import Draft, Source
from vllm_perf.load.synthetic import of_lengths
from vllm_perf.spec.base import SpecError

SHAREGPT_ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "system": "system",
}


def jsonl(source: Source) -> list[Draft]:
    """Return prompts in the file's order, from its start again when there are fewer than asked.

    Lengths are the file's own. The warm-up is other text of the same lengths.
    """
    path = source.workload.prompt.path
    if path is None:
        raise SpecError("prompt kind 'jsonl' needs path")
    prompts = read_prompts(Path(path))
    chosen = [prompts[index % len(prompts)] for index in range(source.count)]
    rendered = [_rendered(source, item, path) for item in chosen]
    counts = [_count(source, prompt) for prompt in rendered]
    if source.phase == "warmup":
        return of_lengths(
            source, [tokens or _rough(prompt) for prompt, tokens in zip(rendered, counts, strict=True)]
        )
    return [
        Draft(prompt_id=source.prompt_id(index), prompt=prompt, prompt_tokens=tokens)
        for index, (prompt, tokens) in enumerate(zip(rendered, counts, strict=True))
    ]


def read_prompts(path: Path) -> list[Prompt]:
    """Read every record that holds a prompt.

    Raises:
        SpecError: the file cannot be read, a line is not JSON, or a record has no prompt (with its number).
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: cannot be read: {error}") from error
    prompts = [
        _prompt(record, f"{path}, record {number}") for number, record in enumerate(_records(text, path), 1)
    ]
    if not prompts:
        raise SpecError(f"{path}: holds no prompt")
    return prompts


def _records(text: str, path: Path) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            return list(json.loads(text))
        except ValueError as error:
            raise SpecError(f"{path}: not JSON: {error}") from error
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except ValueError as error:
            raise SpecError(f"{path}, line {number}: not JSON: {error}") from error
    return records


def _prompt(record: Any, where: str) -> Prompt:
    data = record.get("body", record) if isinstance(record, dict) else {}
    if isinstance(data.get("prompt"), str):
        return str(data["prompt"])
    if isinstance(data.get("messages"), list):
        return _asked(data["messages"], where)
    if isinstance(data.get("conversations"), list):
        return _first_question([_sharegpt(turn, where) for turn in data["conversations"]], where)
    raise SpecError(f"{where}: holds neither 'messages', 'prompt' nor ShareGPT's 'conversations'")


def _sharegpt(turn: Any, where: str) -> Message:
    role = SHAREGPT_ROLES.get(str(turn.get("from"))) if isinstance(turn, dict) else None
    if role is None or not isinstance(turn.get("value"), str):
        raise SpecError(f"{where}: a ShareGPT turn needs 'from' (human, gpt, system) and 'value'")
    return {"role": role, "content": turn["value"]}


def _asked(messages: list[Any], where: str) -> list[Message]:
    """Drop answers at the end: the server is to give them."""
    kept = [message for message in messages if isinstance(message, dict) and "role" in message]
    while kept and kept[-1]["role"] == "assistant":
        kept.pop()
    if not kept:
        raise SpecError(f"{where}: holds no message that asks for an answer")
    return kept


def _first_question(messages: list[Message], where: str) -> list[Message]:
    """Keep a ShareGPT conversation up to its first question: later ones hang on answers never given here."""
    for place, message in enumerate(messages):
        if message["role"] == "user":
            return [*(item for item in messages[:place] if item["role"] == "system"), message]
    raise SpecError(f"{where}: holds no human turn")


def _rendered(source: Source, prompt: Prompt, path: str) -> Prompt:
    if source.workload.endpoint == "chat":
        return source.fitter.prompt("", prompt) if isinstance(prompt, str) else prompt
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1 and isinstance(prompt[0].get("content"), str):
        return str(prompt[0]["content"])
    raise SpecError(f"{path}: holds conversations; a 'completions' workload needs 'prompt' strings")


def _count(source: Source, prompt: Prompt) -> int | None:
    return None if source.fitter.sends_prompts else source.fitter.count(prompt)


def _rough(prompt: Prompt) -> int:
    """Guess a length in tokens for the warm-up alone, at four characters a token."""
    text = prompt if isinstance(prompt, str) else json.dumps(list(prompt))
    return max(32, len(text) // 4)
