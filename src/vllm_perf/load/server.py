# SPDX-License-Identifier: Apache-2.0
"""Questions to the server around a load: how long prompts may be, is it idle, forget the cache."""

import time
from typing import Any

from vllm_perf.load.address import parse_address
from vllm_perf.load.fetch import FetchError, fetch
from vllm_perf.load.plan import Target
from vllm_perf.load.scrape import running, scrape

QUIET_DEADLINE_S = 10.0
QUIET_POLL_S = 0.05
RESET_TIMEOUT_S = 30.0


def max_model_len(target: Target) -> int | None:
    """Return what ``/v1/models`` says for the target's model, ``None`` where it does not say."""
    try:
        answer = fetch(target, target.base_url.rstrip("/") + "/models")
    except FetchError:
        return None
    found: Any = answer.json() if answer.ok else None
    models = found.get("data") if isinstance(found, dict) else None
    for model in models if isinstance(models, list) else []:
        if isinstance(model, dict) and model.get("id") == target.model:
            limit = model.get("max_model_len")
            return limit if isinstance(limit, int) else None
    return None


def reset_prefix_cache(target: Target) -> bool:
    """Empty the server's prefix cache; return whether it said yes.

    vLLM has the route only with VLLM_SERVER_DEV_MODE=1, and refuses while requests run.
    """
    url = parse_address(target.base_url).root + "/reset_prefix_cache"
    try:
        answer = fetch(target, url, body=b"", timeout_s=RESET_TIMEOUT_S)
    except FetchError:
        return False
    said: Any = answer.json()
    return answer.ok and not (isinstance(said, dict) and said.get("success") is False)


def wait_until_idle(target: Target, deadline_s: float = QUIET_DEADLINE_S) -> bool:
    """Wait until the server runs nothing; return whether it came to that.

    A server that does not say counts as idle.
    """
    end = time.monotonic() + deadline_s
    while True:
        counters = scrape(target)
        if not counters or not running(counters):
            return True
        if time.monotonic() >= end:
            return False
        time.sleep(QUIET_POLL_S)
