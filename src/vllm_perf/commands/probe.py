# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf probe``: send one streamed request and print what was measured, or what is wrong."""

import argparse
import difflib
import json
import os
from dataclasses import replace
from typing import Any

from vllm_perf.diagnosis.base_url import check_base_url
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.load.address import parse_address
from vllm_perf.load.fetch import FetchError, fetch
from vllm_perf.load.plan import Target
from vllm_perf.load.remedies import remedy_for
from vllm_perf.load.sample import RequestSample
from vllm_perf.load.single import model_ids, send_one, streamed_body
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category

PROMPT = "Count from one to ten in words."
HEALTH_TIMEOUT_S = 2.0
NS_PER_MS = 1e6
# A base URL without /v1 may be right (other services); these forms cannot be.
WRONG_FORMS = (Category.BASE_URL_INVALID, Category.BASE_URL_HAS_ENDPOINT)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the probe's options."""
    parser.add_argument(
        "--base-url", required=True, help="the base URL that clients use, http://HOST:PORT/v1"
    )
    parser.add_argument("--model", required=True, help="the model's id")
    parser.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the key")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--endpoint", choices=("chat", "completions"), default="chat")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument(
        "--timeout-s", type=float, default=60.0, help="time limit of the request (default 60)"
    )
    parser.add_argument("--ca-file", help="certificate authority to trust instead of the system's")
    parser.add_argument("--proxy", help="HTTP proxy to go through; those of the environment are not used")


def run(args: argparse.Namespace) -> int:
    """Probe once; 0 only where the outcome is ``ok``."""
    result = probe(_target(args), args)
    print(json.dumps(result, ensure_ascii=False) if args.json else _text(result))
    return 0 if result["outcome"] == Category.OK else 1


def probe(target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """Return the probe's result as its JSON object.

    Raises:
        SpecError: the base URL cannot be read at all.
    """
    wrong = check_base_url(target.base_url)
    if wrong is not None and wrong.category in WRONG_FORMS:
        return _refused(wrong)
    body = streamed_body(target.model, args.prompt, args.max_tokens, args.endpoint)
    sample = send_one(target, body, endpoint=args.endpoint, timeout_s=args.timeout_s)
    sample = _with_models(_told_apart(sample, target), target)
    return result_of(sample, target.api_key)


def result_of(sample: RequestSample, key: str | None = None) -> dict[str, Any]:
    """Return a sample as the probe prints it: times in ms from ``sent``, ``None`` where there is none."""
    secrets = (key,) if key else ()
    remedy = remedy_for(sample.outcome, sample.remedy)
    return {
        "outcome": sample.outcome.value,
        "ttft_ms": _ms(sample, sample.first_token_ns),
        "ttfa_ms": _ms(sample, sample.first_answer_ns),
        "e2el_ms": _ms(sample, sample.last_token_ns),
        "output_tokens": sample.output_tokens,
        "token_source": sample.token_source,
        "finish_reason": sample.finish_reason,
        "chunks": len(sample.chunk_ns),
        "warnings": [redact(warning, secrets) for warning in sample.warnings],
        "detail": redact(sample.detail, secrets) if sample.detail else None,
        "remedy": redact(remedy, secrets) if remedy else None,
        "status": sample.status,
        "prompt_tokens": sample.prompt_tokens,
        "cached_tokens": sample.cached_tokens,
    }


def _target(args: argparse.Namespace) -> Target:
    key = None
    if args.api_key_env:
        key = os.environ.get(args.api_key_env)
        if key is None:
            raise SpecError(f"--api-key-env: the environment has no variable '{args.api_key_env}'")
    base_url = args.base_url.rstrip("/")
    return Target(base_url=base_url, model=args.model, api_key=key, ca_file=args.ca_file, proxy=args.proxy)


def _refused(wrong: Diagnosis) -> dict[str, Any]:
    nothing = RequestSample(
        id="", prompt_id="", scheduled_ns=0, outcome=wrong.category, detail=f"nothing was sent: {wrong.cause}"
    )
    return result_of(replace(nothing, remedy=wrong.remedy))


def _told_apart(sample: RequestSample, target: Target) -> RequestSample:
    """Tell a stuck engine from a slow way: a healthy server that gives no answer has a stuck engine."""
    if sample.outcome is not Category.TIMEOUT or sample.status is not None:
        return sample
    try:
        health = fetch(target, parse_address(target.base_url).root + "/health", timeout_s=HEALTH_TIMEOUT_S)
    except FetchError:
        return sample
    if not health.ok:
        return sample
    detail = f"{sample.detail}, while /health answers {health.status}"
    return replace(sample, outcome=Category.ENGINE_STALLED, detail=detail)


def _with_models(sample: RequestSample, target: Target) -> RequestSample:
    """Name what the server does serve where it does not know the model."""
    if sample.outcome is not Category.MODEL_NOT_FOUND:
        return sample
    served = model_ids(target)
    if not served:
        return sample
    near = difflib.get_close_matches(target.model, served, n=1, cutoff=0.0)[0]
    return replace(sample, remedy=f"use --model {near}; the server serves: {', '.join(served)}")


def _ms(sample: RequestSample, at_ns: int | None) -> float | None:
    return None if at_ns is None or sample.sent_ns is None else round((at_ns - sample.sent_ns) / NS_PER_MS, 3)


def _text(result: dict[str, Any]) -> str:
    lines = [f"outcome        {result['outcome']}"]
    for name, unit in (("ttft_ms", " ms"), ("ttfa_ms", " ms"), ("e2el_ms", " ms"), ("finish_reason", "")):
        if result[name] is not None:
            lines.append(f"{name.removesuffix('_ms'):<14} {result[name]}{unit}")
    if result["output_tokens"] is not None:
        counted = f"{result['output_tokens']} tokens ({result['token_source']}) in {result['chunks']} chunks"
        lines.append(f"output         {counted}")
    lines += [f"warning        {warning}" for warning in result["warnings"]]
    if result["detail"]:
        lines += [f"seen           {result['detail']}", f"do             {result['remedy']}"]
    return "\n".join(lines)
