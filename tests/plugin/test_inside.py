# SPDX-License-Identifier: Apache-2.0
"""The helper that runs pytest within pytest leaves the process around it as it was."""

import functools
import inspect
import os
import sys
from pathlib import Path

import pytest_benchmark.plugin

from tests.plugin.projects import Project
from vllm_perf.load import floor
from vllm_perf.metrics import validity_client


def state() -> tuple[object, ...]:
    """Return what a run might change: of the process, and of a module that conftest.py patches."""
    limits = (validity_client.LATE_SHARE_OF_TTFT, validity_client.BURST_SHARE)
    return Path.cwd(), dict(os.environ), list(sys.path), sys.__stderr__, limits


def test_what_inner_runs_remember_is_unknown_outside_of_them(project: Project) -> None:
    before = state()
    run = project.run("--collect-only", "-q")
    assert run.code == 0, run.text
    assert state() == before
    for function in (floor._try, pytest_benchmark.plugin.get_cpu_info):
        assert inspect.isfunction(function)
        assert not isinstance(function, functools._lru_cache_wrapper)
