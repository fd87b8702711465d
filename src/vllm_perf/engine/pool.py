# SPDX-License-Identifier: Apache-2.0
"""Boot each engine once, one at a time per device set; a failed boot is remembered, not tried again."""

from collections.abc import Callable
from dataclasses import dataclass, field

from filelock import BaseFileLock

from vllm_perf.engine.boot import BootSettings, Progress, boot
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import LabError
from vllm_perf.engine.lock import acquire
from vllm_perf.engine.state import sweep_orphans
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook


@dataclass(slots=True, kw_only=True)
class EnginePool:
    """Hold at most one living engine.

    ``devices`` names what is locked ("cpu" or GPU UUIDs). ``boots`` counts boots per engine name, for the
    report and for the tests that nothing boots twice. ``before_boot`` runs once the last engine is gone
    (a GPU pool waits there until its memory is back).
    """

    book: EngineBook
    settings: BootSettings
    progress: Progress
    say: Callable[[str], None]
    devices: tuple[str, ...] = ("cpu",)
    lock_wait_s: float = 3600.0
    before_boot: Callable[[], None] | None = None
    boots: dict[str, int] = field(default_factory=dict)
    failures: dict[str, LabError] = field(default_factory=dict)
    current: Engine | None = None
    _lock: BaseFileLock | None = None

    def get(self, spec: EngineSpec) -> Engine:
        """Return the engine of ``spec``, booting it unless it is the one that runs.

        Raises:
            LabError: it cannot be booted; asked again, the same error comes back at once.
        """
        if self.current is not None and self.current.spec == spec:
            return self.current
        if spec.name in self.failures:
            raise self.failures[spec.name]
        self.stop_current()
        self._hold()
        self.boots[spec.name] = self.boots.get(spec.name, 0) + 1
        try:
            if self.before_boot is not None:
                self.before_boot()
            self.current = boot(spec, self.book, self.settings, self.progress)
        except LabError as error:
            self.failures[spec.name] = error
            raise
        return self.current

    def _hold(self) -> None:
        if self._lock is None:
            self._lock = acquire(self.devices, wait_s=self.lock_wait_s, say=self.say)
            for sentence in sweep_orphans():
                self.say(sentence)

    def stop_current(self) -> None:
        """End the engine that runs, if one does."""
        if self.current is not None:
            engine, self.current = self.current, None
            engine.stop()

    def close(self) -> None:
        """End everything and give the device back."""
        try:
            self.stop_current()
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None
