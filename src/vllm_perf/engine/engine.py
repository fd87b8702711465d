# SPDX-License-Identifier: Apache-2.0
"""A running engine: ours or someone else's, behind one shape."""

from dataclasses import dataclass, field

from vllm_perf.engine.process import EngineProcess
from vllm_perf.engine.readiness import ReadyTimes
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.target import Target


@dataclass(slots=True, kw_only=True)
class Engine:
    """What tests get. ``facts`` is what the server says it really runs; ``warnings`` are worth a line.

    ``process`` and ``ready`` are ``None`` for a server that someone else runs: it is never stopped.
    """

    spec: EngineSpec
    target: Target
    facts: dict[str, str | int | float | bool] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    vllm_version: str = ""
    torch_version: str | None = None
    random_weights: bool = False
    max_model_len: int | None = None
    log_path: str | None = None
    process: EngineProcess | None = None
    ready: ReadyTimes | None = None

    @property
    def name(self) -> str:
        """Return the configuration's name."""
        return self.spec.name

    @property
    def root_url(self) -> str:
        """Return the base URL without ``/v1``."""
        return self.target.base_url.removesuffix("/v1")

    def stop(self) -> None:
        """End our own server and everything below it; leave anyone else's alone."""
        if self.process is not None:
            self.process.stop()
            self.process = None
