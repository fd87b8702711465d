# SPDX-License-Identifier: Apache-2.0
"""Schedule by engine: all tests of one engine go to one worker, so that no engine boots twice."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from vllm_perf.pytest_plugin.items import scope_of


class EngineScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Split tests by engine where they have one, else as ``--dist`` says."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, str(self.config.getvalue("dist")))


def make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return the scheduler, or ``None`` (xdist's own) for modes that keep every test everywhere."""
    if config.getvalue("dist") in ("no", "each"):
        return None
    return EngineScheduling(config, log)
