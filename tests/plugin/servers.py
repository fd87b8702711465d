# SPDX-License-Identifier: Apache-2.0
"""Servers that someone else runs, for tests of --perf-base-url."""

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator

from vllm_perf.load.golden_process import golden_process
from vllm_perf.load.plan import Target


@contextlib.contextmanager
def foreign_traffic(target: Target) -> Iterator[None]:
    """Send a small request of somebody else's every 50 ms."""
    stop = threading.Event()
    body = json.dumps(
        {"model": target.model, "messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    ).encode()

    def send() -> None:
        while not stop.wait(0.05):
            request = urllib.request.Request(
                f"{target.base_url}/chat/completions", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=10) as answer:
                answer.read()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


__all__ = ["foreign_traffic", "golden_process"]
