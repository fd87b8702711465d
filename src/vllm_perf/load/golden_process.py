# SPDX-License-Identifier: Apache-2.0
"""A golden engine in a process of its own: the load must not share an interpreter with what it measures."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from vllm_perf.load.address import parse_address
from vllm_perf.load.fetch import fetch
from vllm_perf.load.plan import Target

STOP_DEADLINE_S = 5.0
# Read by ``vllm-perf golden``: serve only as long as stdin is open.
WITH_STDIN = "VLLM_PERF_GOLDEN_WITH_STDIN"


class GoldenFailed(OSError):
    """Say that the golden engine did not start; the text is what it printed."""


@contextlib.contextmanager
def golden_process(**options: Any) -> Iterator[Target]:
    """Run ``vllm-perf golden`` with these options (``ttft_ms=200``); yield the target to send to.

    Raises:
        GoldenFailed: it printed no port.
    """
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "vllm_perf.cli", "golden", "--port", "0", *flags]
    process = subprocess.Popen(
        command,
        env={**os.environ, WITH_STDIN: "1"},
        stdin=subprocess.PIPE,  # closed by the system when we are killed, which ends the server as well
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _target(process)
    finally:
        process.terminate()
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def read_records(target: Target) -> dict[str, dict[str, Any]]:
    """Return what the golden engine really did, by request id; all times ``perf_counter_ns`` of this host.

    Raises:
        FetchError: it does not answer.
    """
    answer = fetch(target, parse_address(target.base_url).root + "/golden/records", timeout_s=60.0)
    records = (json.loads(line) for line in answer.body.splitlines() if line)
    return {record["id"]: record for record in records}


def _target(process: "subprocess.Popen[str]") -> Target:
    line = process.stdout.readline() if process.stdout is not None else ""
    try:
        ready = json.loads(line)
        return Target(base_url=ready["base_url"], model=ready["model"], name="golden")
    except (ValueError, KeyError, TypeError) as error:
        rest = process.stdout.read() if process.stdout is not None else ""
        raise GoldenFailed(f"the golden engine did not start: {line}{rest}") from error
