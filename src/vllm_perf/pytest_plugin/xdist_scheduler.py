# SPDX-License-Identifier: Apache-2.0
"""Schedule by engine: all tests of one engine go to one worker, so that no engine boots twice.

Only where perf tests were collected; everything else stays with xdist's own scheduler (or another plugin's).
"""

from collections.abc import Collection, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from vllm_perf.pytest_plugin import current_controller
from vllm_perf.pytest_plugin.items import looks_like_perf, scope_of


class EngineScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Split tests by engine where they have one, else as ``--dist`` says; in the order of collection.

    xdist would start with the largest scope. Tests that compare rungs are collected last and must start
    last: they wait for cells that other workers measure.
    """

    def __init__(self, config: pytest.Config, log: Any, engines: Collection[str]) -> None:
        super().__init__(config, log)
        self._engines = engines

    def schedule(self) -> None:
        """Hand out the scopes in the order in which they were collected."""
        self.config.option.loadscopereorder = False
        super().schedule()
        # A worker runs its last test once it knows that nothing follows. The replacement of a crashed one
        # would never learn it from xdist when one test alone is left for it.
        for node in self.nodes if not self.workqueue else ():
            if node in self.registered_collections and not node.shutting_down:
                node.shutdown()

    def _reschedule(self, node: Any) -> None:
        """Give a worker more to do; one that replaces a crashed one has yet to tell what it collected."""
        if node in self.registered_collections:
            super()._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, self._engines, str(self.config.getvalue("dist")))


class Chooser:
    """Be xdist's own scheduler until it is known whether perf tests were collected."""

    def __init__(self, stock: Any, config: pytest.Config, log: Any) -> None:
        self._inner, self._config, self._log = stock, config, log
        self._collections: list[tuple[Any, Sequence[str]]] = []

    def __getattr__(self, name: str) -> Any:
        """Answer everything else as the scheduler in use does."""
        return getattr(self._inner, name)

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        """Take note of what a worker collected."""
        self._collections.append((node, collection))
        self._inner.add_node_collection(node, collection)

    def schedule(self) -> None:
        """Choose at the first call, then hand out tests.

        Raises:
            pytest.UsageError: there are perf tests, and what was asked for them cannot be done.
        """
        if not isinstance(self._inner, EngineScheduling):
            engines = self._engines()
            if engines:
                self._inner = self._by_engine(engines)
        self._inner.schedule()

    def _engines(self) -> Collection[str]:
        """Return the engines that perf tests were collected for; opens our side of the session for them."""
        ids = {nodeid for _node, collection in self._collections for nodeid in collection}
        if not any(map(looks_like_perf, ids)):
            return ()
        engines = current_controller(self._config).engine_names
        return engines if any(scope_of(nodeid, engines) != nodeid for nodeid in ids) else ()

    def _by_engine(self, engines: Collection[str]) -> EngineScheduling:
        if self._config.getvalue("dist") == "each":
            raise pytest.UsageError("--dist each would measure everything once a worker; leave it out")
        chosen = EngineScheduling(self._config, self._log, engines)
        for node in self._inner.nodes:
            chosen.add_node(node)
        for node, collection in self._collections:
            chosen.add_node_collection(node, collection)
        return chosen


def choose_scheduler(stock: Any, config: pytest.Config, log: Any) -> Any:
    """Return what schedules."""
    return stock if config.getvalue("dist") == "no" else Chooser(stock, config, log)
