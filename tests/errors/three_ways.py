# SPDX-License-Identifier: Apache-2.0
"""Three ways to ask: ``vllm-perf probe``, ``vllm-perf doctor``, the openai SDK with its error classified."""

import json
import os
from typing import Any

import openai
import pytest

from vllm_perf.cli import main
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.types import Diagnosis

KEY = "tstKEY-planted-4711"
SDK_MAJOR = int(openai.__version__.partition(".")[0])
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


def prepare_environment(patch: pytest.MonkeyPatch) -> None:
    """Take the developer's proxies away, and give the key."""
    for name in PROXIES:
        patch.delenv(name, raising=False)
        patch.delenv(name.lower(), raising=False)
    patch.setenv("LAB_KEY", KEY)


def probe(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    found = run(["probe", "--base-url", url, "--model", "golden"], capsys)
    return found["outcome"], found["detail"], found["remedy"]


def doctor(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    found = run(["doctor", "--timeout", "5", "--base-url", url, "--model", "golden"], capsys)
    return found["category"], f"{found['cause']} {found['evidence']}", found["remedy"]


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code = main([*words, "--json", "--api-key-env", "LAB_KEY"])
    captured = capsys.readouterr()
    assert KEY not in captured.out + captured.err
    assert code == 1
    found: dict[str, Any] = json.loads(captured.out)
    return found


def sdk(url: str) -> Diagnosis:
    """Run the loop that everybody writes; return what its exception means."""
    chunks = 0
    try:
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=5) as client:
            messages: Any = [{"role": "user", "content": "hi"}]
            for _ in client.chat.completions.create(model="golden", messages=messages, stream=True):
                chunks += 1
    except Exception as error:  # noqa: BLE001 - whatever an SDK raises is the question
        where = f"{url}/chat/completions"
        return classify_exception(error, url=where, env=dict(os.environ), key=KEY, after_chunks=chunks)
    pytest.fail("the SDK noticed nothing")
