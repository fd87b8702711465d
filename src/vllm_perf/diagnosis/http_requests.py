# SPDX-License-Identifier: Apache-2.0
"""Rules for answers that blame the request: its key, model or parameters."""

import email.utils
import re
import time

from vllm_perf.diagnosis.answer import Answer
from vllm_perf.diagnosis.context_overflow import Overflow, read_overflow
from vllm_perf.diagnosis.nearest import nearest_name
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_KEY_WORDS = (
    "api key",
    "api_key",
    "apikey",
    "invalid_api_key",
    "token_not_found",
    "authentication",
    "unauthorized",
)
_MODEL_WORDS = (
    "model_not_found",
    "model not exist",
    "not a valid model",
    "invalid model",
    "deploymentnotfound",
)
_NO_MODEL = re.compile(
    r"model\W+(?P<name>\S+?)[`'\"]*\s+(?:does not exist|not found|is not (?:available|found))", re.I
)
_ALIASES = re.compile(r"(?:Valid aliases|Served models): (.+?)\.?$")
_TOO_SMALL = re.compile(
    r"(?:max_(?:output_|completion_)?tokens)\W.{0,40}"
    r"(?:at least|below minimum|must be (?:greater|positive)|>= ?\d)"
    r"|max_tokens or model output limit was reached|integer_below_min_value",
    re.IGNORECASE,
)


def context_overflow(answer: Answer) -> Diagnosis | None:
    """Prompt plus output exceed the model's context; the numbers say which of them to change."""
    if answer.status not in (400, 413, 422, 500):
        return None
    overflow = read_overflow(answer.body.message)
    if overflow is None and not answer.says("context_length_exceeded"):
        return None
    overflow = overflow or Overflow(limit=None, prompt=None, completion=None)
    figures = {
        name: value
        for name, value in (
            ("max_model_len", overflow.limit),
            ("prompt_tokens", overflow.prompt),
            ("max_tokens", overflow.completion),
        )
        if value is not None
    }
    return answer.diagnosis(
        Category.CONTEXT_OVERFLOW,
        "prompt and output together do not fit into the model's context (no performance failure)",
        _overflow_remedy(overflow),
        figures,
    )


def _overflow_remedy(overflow: Overflow) -> str:
    limit, prompt = overflow.limit, overflow.prompt
    if limit is None:
        return "shorten the prompt or lower max_tokens"
    if prompt is not None and prompt < limit:
        return (
            f"lower max_tokens to at most {limit - prompt} for this prompt of {prompt} tokens, "
            f"shorten the prompt, or serve with a --max-model-len above {limit}"
        )
    if prompt is not None:
        return f"shorten the prompt of {prompt} below {limit} tokens, or serve with a larger --max-model-len"
    return (
        f"keep prompt and max_tokens together within {limit} tokens, or serve with a larger --max-model-len"
    )


def chat_template(answer: Answer) -> Diagnosis | None:
    """A chat request to a model whose tokenizer has no chat template."""
    if answer.status not in (400, 422, 500) or not answer.says("chat template", "chat_template"):
        return None
    if not answer.says(
        "must provide", "no longer allowed", "not define", "does not have", "missing", "cannot use"
    ):
        return None
    return answer.diagnosis(
        Category.CHAT_TEMPLATE_MISSING,
        "the model's tokenizer has no chat template, so it is most likely a base model",
        "serve an instruct model, pass --chat-template FILE, or ask /v1/completions instead of chat",
    )


def key(answer: Answer) -> Diagnosis | None:
    """The server refused the key."""
    refused = answer.status in (401, 403) and answer.body.shape != "html"
    said = answer.status in (400, 422) and answer.says(
        "api key not valid", "invalid_api_key", "invalid api key"
    )
    if not (refused or said):
        return None
    from_vllm = answer.body.shape == "string" and answer.body.message.lower() == "unauthorized"
    if from_vllm and answer.key_sent and answer.hints.key_header.lower() != "authorization":
        return answer.diagnosis(
            Category.AUTH_WRONG_HEADER,
            f"the key was sent as {answer.hints.key_header}, but vLLM reads only Authorization: Bearer; "
            "the key itself may be right",
            "send it as Authorization: Bearer (in Claude Code: ANTHROPIC_AUTH_TOKEN, not ANTHROPIC_API_KEY)",
        )
    return answer.diagnosis(
        Category.AUTH_WRONG_OR_MISSING_KEY, _key_cause(answer, from_vllm), _key_remedy(answer)
    )


def _key_cause(answer: Answer, from_vllm: bool) -> str:
    if answer.hints.keyless_server:
        return (
            "the server asks for a key although it was booted without --api-key; "
            "VLLM_API_KEY in its environment is the likely cause"
        )
    sent = "a key was sent, and refused" if answer.key_sent else "no key was sent"
    if answer.says("expired"):
        sent = "the key has expired"
    if from_vllm:
        return f"{sent}; the server itself is up (this is vLLM's own 401)"
    if answer.body.shape == "nested" or answer.body.type:
        return f"{sent}; the answer comes from a gateway, not from vLLM"
    return sent


def _key_remedy(answer: Answer) -> str:
    if answer.hints.keyless_server:
        return "unset VLLM_API_KEY where the server is started, or send its value as the key"
    if not answer.key_sent:
        return (
            "give the key that the server was started with (--api-key or VLLM_API_KEY), or the channel's key"
        )
    if answer.says("expired"):
        return "make a new key at the issuer"
    return (
        "use the key that the server was started with (a server without --api-key takes any, such as EMPTY); "
        "for a channel make a new key, and check that key and base URL belong together"
    )


def rate(answer: Answer) -> Diagnosis | None:
    """Too many requests, or the quota is used up."""
    spent = answer.says(
        "insufficient_quota", "insufficient balance", "quota exceeded", "insufficient credits"
    )
    if answer.status not in (429, 529) and not (spent and answer.status in (400, 402, 403)):
        return None
    wait_s = retry_after_s(answer)
    figures: dict[str, float | int | str] = {} if wait_s is None else {"retry_after_s": wait_s}
    if spent:
        return answer.diagnosis(
            Category.RATE_LIMITED,
            "the account's quota is used up; waiting will not help",
            "top up or change the key",
            figures,
        )
    return answer.diagnosis(
        Category.RATE_LIMITED,
        "the server refuses more requests for now; a load test through such a limit measures the limit",
        f"{pause(wait_s)} ask with less concurrency or a lower rate, or have the limit raised",
        figures,
    )


def pause(wait_s: float | None) -> str:
    """Return the beginning of an advice to wait."""
    return f"wait {wait_s:g} s (Retry-After) and" if wait_s is not None else "wait and"


def retry_after_s(answer: Answer) -> float | None:
    """Return how many seconds the server asks to wait, ``None`` where it does not say."""
    # LiteLLM hands on what the server behind it said under a name of its own.
    after = answer.header("retry-after") or answer.header("llm_provider-retry-after")
    milliseconds = answer.header("retry-after-ms")
    try:
        if milliseconds:
            return float(milliseconds) / 1000
        if after.replace(".", "", 1).isdigit():
            return float(after)
        # An HTTP date is wall time: the one place where the wall clock is the right one.
        return max(0.0, email.utils.parsedate_to_datetime(after).timestamp() - time.time()) if after else None
    except ValueError:
        return None


def model(answer: Answer) -> Diagnosis | None:
    """The model id is not one that is served."""
    if answer.status not in (400, 403, 404, 422, 500, 503):
        return None
    found = _NO_MODEL.search(answer.body.message)
    is_vllm = (
        answer.status == 404
        and answer.body.type == "NotFoundError"
        and "model" in answer.body.message.lower()
    )
    if not (found or is_vllm or answer.says(*_MODEL_WORDS)):
        return None
    wanted = answer.model or (found["name"].strip("`'\"") if found else "")
    served = answer.served_models or _named_in(answer.body.message)
    nearest = nearest_name(wanted, served, cutoff=0.4)
    listed = ", ".join(served)
    remedy = f"ask for '{nearest}' (served: {listed})" if nearest else _list_remedy(listed)
    figures: dict[str, float | int | str] = {"model": wanted}
    if nearest:
        figures["nearest_model"] = nearest
    return answer.diagnosis(
        Category.MODEL_NOT_FOUND, f"the server does not serve a model called '{wanted}'", remedy, figures
    )


def _named_in(message: str) -> tuple[str, ...]:
    """Return the ids that newer vLLM names in its refusal."""
    found = _ALIASES.search(message)
    return tuple(name.strip() for name in found[1].split(",")) if found else ()


def _list_remedy(listed: str) -> str:
    if listed:
        return f"ask for one of the served ids: {listed}"
    return "take the id from GET /v1/models: vLLM serves --served-model-name, else the exact --model string"


def max_tokens(answer: Answer) -> Diagnosis | None:
    """``max_tokens`` is below what the server accepts."""
    if answer.status not in (400, 422) or not _TOO_SMALL.search(f"{answer.body.message} {answer.body.code}"):
        return None
    return answer.diagnosis(
        Category.MAX_TOKENS_TOO_SMALL,
        "max_tokens is smaller than the server accepts",
        "ask for more max_tokens",
    )


def bad_request(answer: Answer) -> Diagnosis | None:
    """Anything else that the server blames on the request."""
    if not 400 <= answer.status < 500:
        return None
    return answer.diagnosis(
        Category.BAD_REQUEST,
        "the server refused the request's parameters",
        "change what the server's message names",
    )
