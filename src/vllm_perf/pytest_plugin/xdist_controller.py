# SPDX-License-Identifier: Apache-2.0
"""The side of xdist that runs no test: it becomes a controller of ours at the first perf test's report."""

from typing import Any

import pytest

from vllm_perf.pytest_plugin import CONTROLLER, current_controller
from vllm_perf.pytest_plugin.options import is_perf_project
from vllm_perf.pytest_plugin.workers import prepare_node

NAME = "vllm_perf_watch"


class Watch:
    """Wait for a perf test's report; until then nothing heavy is imported."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._other_failures = 0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Open the controller at the first perf report, and hand it what came before."""
        if self._config.stash.get(CONTROLLER, None) is not None:
            return  # it is a plugin of its own by now
        if getattr(report, "vllm_perf", None) is None:
            self._other_failures += report.failed
            return
        controller = current_controller(self._config)
        controller.other_failures = self._other_failures
        controller.note(report)


def prepare(node: Any) -> None:
    """Tell a worker that is about to start where this session's cells are."""
    config: pytest.Config = node.config
    if not is_perf_project(config):
        return
    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(Watch(config), NAME)
        if config.getoption("perf_resume") or config.getini("perf_resume"):
            current_controller(config).prepare_cells()
    prepare_node(node)
