# SPDX-License-Identifier: Apache-2.0
"""The numbers of a context overflow, in the words of every vLLM and of OpenAI."""

import pytest

from tests.unit.diagnosis.test_error_bodies import ask, nested

OVERFLOWS = {
    "0.9 max_tokens": (
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context "
        "length is 2048 "
        "tokens and your request has 100 input tokens (4096 > 2048 - 100). None",
        (2048, 100, 4096),
    ),
    "0.10 prompt": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens.",
        (4096, 5000, None),
    ),
    "0.32 prompt": (
        "This model's maximum context length is 8192 tokens. However, your prompt contains at least "
        "8193 input "
        "tokens, which exceeds this limit even without any output tokens. Please reduce the length of "
        "the prompt.",
        (8192, 8193, None),
    ),
    "0.32 both": (
        "This model's maximum context length is 2048 tokens. However, you requested 1024 output tokens "
        "and your "
        "prompt contains at least 1025 input tokens, for a total of at least 2049 tokens. Please reduce it.",
        (2048, 1025, 1024),
    ),
    "0.32 output": (
        "max_tokens=4000 cannot be greater than max_model_len=2048. Please request fewer output tokens. "
        "(parameter=max_tokens, value=4000)",
        (2048, None, 4000),
    ),
    "openai": (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130,001 tokens.",
        (128000, 130001, None),
    ),
}


@pytest.mark.parametrize(("message", "numbers"), OVERFLOWS.values(), ids=OVERFLOWS.keys())
def test_overflow_numbers_are_read_from_every_wording(
    message: str, numbers: tuple[int, int | None, int | None]
) -> None:
    figures = ask(400, nested(message, type="BadRequestError", code=400)).figures
    assert (figures["max_model_len"], figures.get("prompt_tokens"), figures.get("max_tokens")) == numbers
