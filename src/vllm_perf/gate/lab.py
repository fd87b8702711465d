# SPDX-License-Identifier: Apache-2.0
"""The gate's lab on real engines: boot one side afresh, prove it, send the workloads, stop it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import BaseFileLock

from vllm_perf import __version__
from vllm_perf.diagnosis.runtime import ProcessState, classify_runtime
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.boot import BootSettings, Progress, boot
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.gpu import wait_memory_back
from vllm_perf.engine.install import Install, find_install, golden_install
from vllm_perf.engine.lock import acquire
from vllm_perf.engine.state import sweep_orphans
from vllm_perf.gate.boot import Slot
from vllm_perf.history.collect import SECRET
from vllm_perf.lab.boot_cell import boot_cell
from vllm_perf.lab.measure import Bench, measure_cell
from vllm_perf.lab.result import CellResult
from vllm_perf.load.counting import counter_for
from vllm_perf.metrics.reasons import InvalidCode
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.sequential import SideName

MEMORY_BACK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSpec:
    """One side: its engine, the file it came from, and the vLLM of its interpreter."""

    engine: EngineSpec
    book: EngineBook
    install: Install

    @classmethod
    def choose(cls, book: EngineBook, name: str, platform: str, python: str | None) -> "SideSpec":
        """Return the side that boots ``name``; ``@first`` and ``@last`` are rungs of the platform's ladder.

        Raises:
            SpecError: there is no such engine or ladder.
            LabError: the interpreter has no vLLM.
        """
        engine = named_engine(book, name, platform)
        if python is not None:
            engine = engine.model_copy(update={"python": python})
        golden = engine.platform == "golden"
        return cls(
            engine=engine, book=book, install=golden_install() if golden else find_install(engine.python)
        )

    def facts(self) -> dict[str, Any]:
        """Return what identifies the side, without keys."""
        engine = self.engine.model_dump(mode="json", exclude={"title", "own_flags", "boot_timeout_s"})
        for table in ("flags", "env"):
            engine[table] = {name: value for name, value in engine[table].items() if not _secret(name)}
        return {"engine": engine, "vllm": self.install.version, "torch": self.install.torch}


def named_engine(book: EngineBook, name: str, platform: str) -> EngineSpec:
    """Return the engine ``name``; ``@first`` and ``@last`` are rungs of the platform's ladder.

    Raises:
        SpecError: there is no such engine or ladder.
    """
    rungs = {"@first": 0, "@last": -1}
    return book.engine(book.ladder_for(platform).engines[rungs[name]] if name in rungs else name)


Boots = Callable[[SideName], AbstractContextManager[Engine]]


@dataclass(slots=True, kw_only=True)
class EngineLab:
    """Measure slots on engines that ``boots`` brings up; ``sides`` are only described."""

    boots: Boots
    sides: Mapping[SideName, dict[str, Any]]
    workloads: Mapping[str, WorkloadSpec]
    bench: Bench

    def measure(self, slot: Slot) -> tuple[CellResult, ...]:
        """Return what one fresh boot measured: a cell for the boot itself, then one a workload.

        Raises:
            LabError: the engine could not be booted.
            SpecError: a workload's prompts cannot be made.
        """
        with self.boots(slot.side) as engine:
            booted = boot_cell(engine, self.bench.hardware, self.bench.suite)
            cells = [self._cell(engine, self.workloads[name]) for name in slot.workloads]
        return (booted, *cells)

    def _cell(self, engine: Engine, workload: WorkloadSpec) -> CellResult:
        """Return one workload's cell; an engine that died while serving is that cell's failure."""
        try:
            return measure_cell(self.bench, engine, workload, counter_for(engine.target))
        except SpecError:
            died = death_of(engine)
            if died is None:
                raise
            failure = f"{InvalidCode.TOO_MANY_FAILED}: {died.paragraph()}"
            return CellResult(engine=engine.name, workload=workload.name, failure=failure)

    def identity(self) -> dict[str, Any]:
        """Return what is compared, on what, with what."""
        return {
            "sides": dict(self.sides),
            "workloads": {name: spec.model_dump(mode="json") for name, spec in self.workloads.items()},
            "hardware": asdict(self.bench.hardware),
            "gpus": [gpu.uuid for gpu in self.bench.machine.gpus.gpus],
            "harness": __version__,
        }

    def close(self) -> None:
        """Do nothing: each boot's device is given back by its own context."""


@dataclass(slots=True, kw_only=True)
class VllmBoots:
    """Boot vLLM for a side, one engine at a time on the device, which stays locked until ``close``."""

    sides: Mapping[SideName, SideSpec]
    bench: Bench
    settings: BootSettings
    progress: Progress
    say: Callable[[str], None]
    lock_wait_s: float = 3600.0
    _lock: BaseFileLock | None = None
    _baseline_mib: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def __call__(self, side: SideName) -> Any:
        """Boot a side and stop it afterwards, whatever happens in between.

        Raises:
            LabError: the device is held by others, or the engine does not boot as asked.
        """
        self._hold()
        wait_memory_back(self.bench.machine.gpus, self._baseline_mib, MEMORY_BACK_S)
        spec = self.sides[side]
        settings = _with_log_dir(self.settings, self.settings.log_dir / side)
        engine = boot(spec.engine, spec.book, settings, self.progress)
        try:
            yield engine
        finally:
            engine.stop()

    def _hold(self) -> None:
        if self._lock is None:
            self._lock = acquire(self._devices, wait_s=self.lock_wait_s, say=self.say)
            for sentence in sweep_orphans():
                self.say(sentence)
            self._baseline_mib = self.bench.machine.gpus.memory_used_mib()

    @property
    def _devices(self) -> tuple[str, ...]:
        """Return what is locked; golden engines need no device, and disturb only each other."""
        golden = all(side.engine.platform == "golden" for side in self.sides.values())
        return ("golden",) if golden else self.bench.machine.devices

    def close(self) -> None:
        """Give the device back."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def death_of(engine: Engine) -> Diagnosis | None:
    """Return why an engine of ours no longer serves, ``None`` while all its processes live."""
    if engine.process is None:
        return None
    code, dead = engine.process.look(), engine.process.dead_parts()
    if code is None and not dead:
        return None
    found = classify_runtime(engine.process.log_text(), ProcessState(exit_code=code, engine_alive=not dead))
    return found or Diagnosis(
        category=Category.ENGINE_DIED,
        cause="the engine died while serving and its log names no error",
        evidence=f"exit code {code}" if code is not None else f"processes {dead} are gone",
        remedy="read the whole log",
        log_path=engine.log_path,
    )


def _with_log_dir(settings: BootSettings, folder: Path) -> BootSettings:
    return BootSettings(
        model_cache=settings.model_cache,
        log_dir=folder,
        download=settings.download,
        stop_patience_s=settings.stop_patience_s,
    )


def _secret(name: str) -> bool:
    return SECRET.search(name) is not None
