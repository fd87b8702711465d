# SPDX-License-Identifier: Apache-2.0
"""What the side of xdist that runs no test does before its workers start."""

from typing import Any

import pytest

from vllm_perf.pytest_plugin import current_controller
from vllm_perf.pytest_plugin.options import is_perf_project
from vllm_perf.pytest_plugin.workers import prepare_node


def prepare(node: Any) -> None:
    """Tell a worker that is about to start where this session's cells are, taken over ones included.

    Raises:
        pytest.UsageError: cells are to be taken over, and what was asked cannot be done.
    """
    config: pytest.Config = node.config
    if not is_perf_project(config):
        return
    if config.getoption("perf_resume") or config.getini("perf_resume"):
        current_controller(config).prepare_cells()
    prepare_node(node)
