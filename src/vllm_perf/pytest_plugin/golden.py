# SPDX-License-Identifier: Apache-2.0
"""Run the suite against the golden engine: known timing, to measure ourselves and to try the suite out."""

from collections.abc import Callable

from vllm_perf.engine.engine import Engine
from vllm_perf.engine.external import attach
from vllm_perf.golden import GoldenServer
from vllm_perf.spec.engine import EngineSpec


def start_golden(spec: EngineSpec) -> tuple[Engine, Callable[[], None]]:
    """Start a golden engine in a thread; return it as an engine, and how to stop it."""
    server = GoldenServer()
    server.start()
    return attach(spec, server.base_url, key=None), server.stop
