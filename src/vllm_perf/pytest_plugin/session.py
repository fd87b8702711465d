# SPDX-License-Identifier: Apache-2.0
"""What one session shares: the plan, the engine that runs, the cells measured so far.

Nothing here is built before a collected test asks for it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from vllm_perf.channel.errors import Stopped
from vllm_perf.channel.rounds import known_of
from vllm_perf.channel.suite import ChannelPlan, SuiteChannel
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.engine.boot import BootSettings
from vllm_perf.engine.engine import Engine
from vllm_perf.engine.errors import LabError
from vllm_perf.engine.external import attach
from vllm_perf.engine.gpu import wait_memory_back
from vllm_perf.engine.pool import EnginePool
from vllm_perf.history.collect import probe_hardware
from vllm_perf.history.git import Suite, describe_suite
from vllm_perf.lab.boot_cell import boot_cell
from vllm_perf.lab.machine import Machine, detect_machine
from vllm_perf.lab.measure import Bench, measure_cell
from vllm_perf.lab.result import BOOT, CellResult
from vllm_perf.load.counting import counter_for
from vllm_perf.load.fetch import FetchError
from vllm_perf.load.floor import FloorMeter
from vllm_perf.pytest_plugin.budgets import BudgetBook
from vllm_perf.pytest_plugin.cells import CellFolder
from vllm_perf.pytest_plugin.comparisons import Comparisons
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.plan import Plan
from vllm_perf.pytest_plugin.progress import Progress
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.workload import WorkloadSpec

MEMORY_BACK_S = 60.0


@dataclass(kw_only=True)
class PerfSession:
    """The lab of one pytest process; cells are shared with the other processes through ``cells``."""

    config: PerfConfig
    plan: Plan
    cells: CellFolder
    progress: Progress
    failed_boots: dict[str, str] = field(default_factory=dict)
    _external: Engine | None = None
    _channel: SuiteChannel | None = None

    @cached_property
    def machine(self) -> Machine:
        """Return this process's machine: its own GPUs, where xdist's workers got some each."""
        return detect_machine()

    @cached_property
    def suite(self) -> Suite:
        """Return the suite's own commit."""
        return describe_suite(self.config.root)

    @cached_property
    def budgets(self) -> BudgetBook:
        """Return the budgets of this hardware."""
        return BudgetBook.choose(self.plan, self.machine)

    @cached_property
    def comparisons(self) -> Comparisons:
        """Return the history as this session sees it."""
        return Comparisons(config=self.config, suite=self.suite)

    @cached_property
    def floor(self) -> FloorMeter:
        """Return the meter of what the client itself adds."""
        return FloorMeter(client=self.config.client)

    @cached_property
    def pool(self) -> EnginePool:
        """Return the pool of engines, at most one alive."""
        return EnginePool(
            book=self.plan.book,
            settings=BootSettings(
                model_cache=self.config.work_dir / "models",
                log_dir=self.config.log_dir,
                download=self.config.download,
            ),
            progress=self.progress.booting,
            say=self.progress.say,
            devices=self.machine.devices,
            lock_wait_s=self.config.lock_wait_s,
            before_boot=self._memory_check(),
        )

    def _memory_check(self) -> Callable[[], None]:
        baseline = self.machine.gpus.memory_used_mib()
        return lambda: wait_memory_back(self.machine.gpus, baseline, MEMORY_BACK_S)

    @cached_property
    def bench(self) -> Bench:
        """Return what every cell is measured with."""
        return Bench(
            machine=self.machine,
            hardware=probe_hardware(),
            suite=self.suite,
            progress=self.progress.loading,
            floor_ms=self.floor.floor_ms,
            budget_ms=self.budgets.tightest_ttft_ms,
            asserted=self.budgets.asserted,
            client=self.config.client,
        )

    def engine(self, spec: EngineSpec) -> Engine:
        """Return the running engine of ``spec``.

        Raises:
            LabError: it cannot be had.
            Stopped: it is a channel, and a cap or a rate limit ended the handshake.
        """
        if self.plan.channel is not None:
            return self._met(self.plan.channel, spec).engine
        if self.config.base_url:
            if self._external is None:
                self._external = attach(spec, self.config.base_url, key=self.config.api_key)
            return self._external
        return self.pool.get(spec)

    def _met(self, plan: ChannelPlan, spec: EngineSpec) -> SuiteChannel:
        """Return the channel, after one handshake a session, which is shown."""
        if self._channel is None:
            say = self.progress.say
            for sentence in plan.notes:
                say(sentence)
            self._channel = SuiteChannel.meet(plan.entrant(os.environ, say), spec)
            for line in self._channel.handshake():
                say(f"{spec.name}: {line}")
        return self._channel

    def release(self) -> None:
        """Give the engine and its device back, so that another worker can go on."""
        if "pool" in self.__dict__:
            self.pool.close()

    def cell(self, spec: EngineSpec, workload: WorkloadSpec, *, patient: bool = False) -> CellResult:
        """Return one measured cell, measuring it unless someone has.

        ``patient``: leave it to the xdist workers that have the engine's own tests, as long as there are any.
        """
        return self.cells.obtain(
            spec.name,
            workload.name,
            lambda: self._measure(spec, workload),
            lambda: self._wait_for(f"{spec.name} under {workload.name}"),
            patient=patient,
        )

    def _wait_for(self, what: str) -> None:
        self.release()
        self.progress.say(f"waiting for another worker to measure {what}")

    def boot(self, spec: EngineSpec) -> CellResult:
        """Return the series of an engine's boot, booting it unless someone has."""
        return self.cells.obtain(spec.name, BOOT, lambda: self._boot(spec), self.release)

    def _boot(self, spec: EngineSpec) -> CellResult:
        if spec.name in self.failed_boots:
            return CellResult(engine=spec.name, workload=BOOT, failure=self.failed_boots[spec.name])
        try:
            engine = self.engine(spec)
        except LabError as error:
            self.failed_boots[spec.name] = str(error)
            return CellResult(engine=spec.name, workload=BOOT, failure=str(error))
        except Stopped as error:
            return CellResult(engine=spec.name, workload=BOOT, invalid=(str(error),))
        return boot_cell(engine, self.bench.hardware, self.suite)

    def _measure(self, spec: EngineSpec, workload: WorkloadSpec) -> CellResult:
        boot = self.boot(spec)
        if boot.cell is None:
            return replace(boot, workload=workload.name)
        try:
            if self.plan.channel is not None:
                return self._on_channel(self._met(self.plan.channel, spec), workload)
            engine = self.engine(spec)
            return measure_cell(
                self.bench, engine, workload, counter_for(engine.target), self._rate(spec, workload)
            )
        except (LabError, SpecError, FetchError) as error:
            return CellResult(engine=spec.name, workload=workload.name, failure=str(error))

    def _on_channel(self, channel: SuiteChannel, workload: WorkloadSpec) -> CellResult:
        """Measure a cell on a channel; once a cap or a limit stopped one, nothing more is sent."""
        spec = channel.engine.spec
        bench = replace(self.bench, send=channel.send, known=known_of(channel.side))
        try:
            channel.require_open()
            result = measure_cell(
                bench, channel.engine, workload, channel.counter(), self._rate(spec, workload)
            )
        except Stopped as error:
            channel.stopped = error
            return CellResult(engine=spec.name, workload=workload.name, invalid=(str(error),))
        return channel.judged(result, workload)

    def _rate(self, spec: EngineSpec, workload: WorkloadSpec) -> float | None:
        """Return the request rate of a workload that asks for a share of the engine's capacity.

        Raises:
            LabError: the workload that the capacity is taken from gave none.
        """
        share = workload.arrival.rate_share
        if share is None:
            return None
        name = workload.arrival.capacity_from
        source = next((one for one in self.plan.workloads if one.name == name), None)
        capacity = self.cell(spec, source).find("request_throughput") if source else None
        if capacity is None or capacity.value is None:
            raise LabError(f"no capacity for '{workload.name}'", _no_capacity(name, spec.name))
        return share * capacity.value

    def close(self) -> None:
        """Leave nothing running."""
        self.release()
        if self._channel is not None:
            self.progress.say(f"{self._channel.engine.name}: {self._channel.account()}")
            self._channel = None


def _no_capacity(workload: str, engine: str) -> Diagnosis:
    return Diagnosis(
        category=Category.UNKNOWN,
        cause="the workload asks for a share of a capacity that was not measured",
        evidence=f"workload '{workload}' gave no request throughput on engine '{engine}'",
        remedy=f"measure '{workload}' in the same run (--perf-workload {workload}), or give rate_per_s",
    )


def open_session(config: PerfConfig, plan: Plan, folder: Path, progress: Progress) -> PerfSession:
    """Build the session of this process; nothing boots yet."""
    return PerfSession(config=config, plan=plan, cells=CellFolder(folder), progress=progress)
