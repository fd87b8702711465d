# SPDX-License-Identifier: Apache-2.0
"""A golden engine lives no longer than the process that started it, however that ends."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from vllm_perf.load.golden_process import golden_process

PARENT = """
import os
from vllm_perf.load.golden_process import golden_process
with golden_process() as target:
    print(target.base_url, flush=True)
    input()
    os._exit(3)
"""
DEADLINE_S = 20.0


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "ended without clearing up"])
def test_the_engine_ends_with_the_process_that_started_it(kill: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    with parent.stdout, parent.stdin:
        assert parent.stdout.readline().startswith("http://")
        (engine,) = psutil.Process(parent.pid).children()
        if kill:
            os.kill(parent.pid, signal.SIGKILL)
        else:
            parent.stdin.write("\n")
            parent.stdin.flush()
        engine.wait(DEADLINE_S)
        assert parent.wait() == (-signal.SIGKILL if kill else 3)


def test_two_engines_do_not_keep_each_other_alive() -> None:
    with golden_process() as first:
        with golden_process() as second:
            assert first.base_url != second.base_url
        (left,) = psutil.Process().children()
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
