# SPDX-License-Identifier: Apache-2.0
"""One pytest process's part in the suite: the lab while tests run, the record and the report at the end.

Under xdist the workers measure and the controlling process records; alone, one process does both.
"""

import shlex
import shutil
import signal
from collections.abc import Collection, Generator
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.engine.state import sweep_orphans
from vllm_perf.history.git import describe_suite
from vllm_perf.history.store import Store, StoreError
from vllm_perf.lab.machine import detect_machine
from vllm_perf.pytest_plugin import items as perf_items
from vllm_perf.pytest_plugin.bridge import honour_only_and_skip
from vllm_perf.pytest_plugin.cells import CellFolder
from vllm_perf.pytest_plugin.comparisons import Comparisons
from vllm_perf.pytest_plugin.finish import Ending, finish
from vllm_perf.pytest_plugin.gate_session import GateSession, gate_cases
from vllm_perf.pytest_plugin.notes import notes
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.owner import Owner
from vllm_perf.pytest_plugin.plan import Plan, make_plan
from vllm_perf.pytest_plugin.progress import Progress
from vllm_perf.pytest_plugin.session import PerfSession, open_session
from vllm_perf.pytest_plugin.sessions import (
    Takeover,
    fingerprint,
    note_record,
    open_folder,
    prune,
    read_manifest,
    take_over,
    versions_of,
)
from vllm_perf.pytest_plugin.sigterm import end_on_sigterm
from vllm_perf.pytest_plugin.workers import (
    cell_folder,
    is_worker,
    session_folder,
    session_owner,
    take_gpus,
)
from vllm_perf.spec.base import SpecError

EXIT_FAILED, EXIT_NO_VERDICT, EXIT_LAB_BROKEN = 1, 10, 11


class Controller:
    """Registered as a plugin of its own once a perf test has been collected."""

    def __init__(self, pytest_config: pytest.Config, config: PerfConfig, plan: Plan) -> None:
        """Keep what was asked; build nothing."""
        self.pytest_config = pytest_config
        self.config = config
        self.plan = plan
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.other_failures = 0
        self.ending: Ending | None = None
        self._before_sigterm: Any = None

    @classmethod
    def open(cls, pytest_config: pytest.Config, config: PerfConfig) -> "Controller":
        """Read the spec files.

        Raises:
            pytest.UsageError: one of them is wrong.
        """
        machine = detect_machine()
        plan = make_plan(config, machine)
        per_engine = max(
            (int(engine.flags.get("tensor-parallel-size", 1)) for engine in plan.engines), default=1
        )
        take_gpus(pytest_config, machine.devices if machine.kind == "cuda" else (), per_engine)
        return cls(pytest_config, config, plan)

    def check(self) -> None:
        """Find out now what would otherwise fail every single test.

        Raises:
            pytest.UsageError: there is no such baseline, or the history cannot be read or written.
        """
        try:
            Store(self.config.history_dir).require_writable()
        except StoreError as error:
            raise pytest.UsageError(str(error)) from None
        if self.config.gate is not None:
            self.gate.check()
            return
        if not self.config.compare:
            return
        say = None if is_worker(self.pytest_config) else self.progress.say
        try:
            _ = Comparisons(config=self.config, suite=describe_suite(self.config.root), say=say).search
        except (StoreError, SpecError) as error:
            raise pytest.UsageError(str(error)) from None

    def parametrize(self, metafunc: pytest.Metafunc, asked: str) -> None:
        """Give a test its cases: those of a gate where one was asked for, else those of the plan.

        Raises:
            pytest.UsageError: the test is marked wrongly.
        """
        if self.config.gate is None and asked != perf_items.GATE_CASE:
            perf_items.parametrize(metafunc, self.plan)
            return
        cases = gate_cases(self.plan) if self.config.gate and asked == perf_items.GATE_CASE else []
        metafunc.parametrize(asked, cases, ids=[":".join(case) for case in cases], scope="session")

    @cached_property
    def gate(self) -> GateSession:
        """Return the gate of this session."""
        assert self.config.gate is not None
        return GateSession(
            config=self.config,
            choice=self.config.gate,
            plan=self.plan,
            progress=self.progress,
            command=shlex.join(["pytest", *self.pytest_config.invocation_params.args]),
        )

    def open_gate(self) -> GateSession:
        """Return the gate, about to be measured: a cancelled job must not leave its engine behind."""
        if self._before_sigterm is None:
            self._before_sigterm = end_on_sigterm()
        return self.gate

    @property
    def engine_names(self) -> frozenset[str]:
        """Return every name that a perf test's id may begin with."""
        return frozenset(engine.name for engine in self.plan.engines)

    @cached_property
    def progress(self) -> Progress:
        """Return where progress is shown; xdist's workers share the controller's stderr."""
        capture = self.pytest_config.pluginmanager.getplugin("capturemanager")
        return Progress(
            quiet=self.pytest_config.get_verbosity() < -1,
            plain=is_worker(self.pytest_config),
            uncaptured=capture.global_and_fixture_disabled if capture is not None else nullcontext,
        )

    @cached_property
    def session(self) -> PerfSession:
        """Return the lab of this process."""
        if not is_worker(self.pytest_config):
            self.prepare_cells()
        mark = self.fingerprint
        open_folder(self.folder, mark, session_owner(self.pytest_config))
        self._forget_resumed()
        self._before_sigterm = end_on_sigterm()
        return open_session(self.config, self.plan, self.folder, self.progress)

    @property
    def folder(self) -> Path:
        """Return where this session's cells are."""
        return cell_folder(self.config.work_dir, self.pytest_config)

    @cached_property
    def fingerprint(self) -> str:
        """Return what makes an interrupted session's cells as good as this one's."""
        suite = describe_suite(self.config.root)
        return fingerprint(self.config, self.plan, suite, versions_of(self.plan, self.config))

    def prepare_cells(self) -> None:
        """Clear away what nobody came back for, and take an interrupted session over where that was asked.

        Once a session, in the process that owns it.
        """
        if self.folder.exists():
            return
        sessions = session_folder(self.config.work_dir)
        prune(sessions)
        if self.config.resume:
            taken = take_over(sessions, self.folder, self.fingerprint, Owner.me())
            self.progress.say(_told(taken))

    def _forget_resumed(self) -> None:
        """Keep what an interrupted session recorded from becoming the baseline of its own continuation."""
        manifest = read_manifest(self.folder)
        if manifest is not None and manifest.records:
            self.config = replace(self.config, resumed_runs=manifest.records)

    def collected(self, items: list[pytest.Item]) -> None:
        """Order the tests; those without a case in this run are deselected, which pytest counts and shows."""
        empty = [item for item in items if perf_items.is_empty(item)]
        if empty:
            items[:] = [item for item in items if item not in empty]
            self.pytest_config.hook.pytest_deselected(items=empty)
        perf_items.order(items, self.plan)
        honour_only_and_skip(self.pytest_config, filter(perf_items.is_perf, items))
        if is_worker(self.pytest_config) and any(map(perf_items.is_perf, items)):
            CellFolder(self.folder).join()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how each perf test ended, from whichever process it comes."""
        self.progress.done()
        outcome = getattr(report, "vllm_perf", None)
        if outcome is not None:
            self.outcomes[report.nodeid] = outcome
        elif report.failed:
            self.other_failures += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Stop engines, then (not in a worker) record the run and choose the exit code.

        The outermost wrapper, so that our rows are there before pytest-benchmark's own saves and compares.
        """
        self._close()
        if not is_worker(self.pytest_config):
            self._finish(session, exitstatus)
        yield
        if not is_worker(self.pytest_config):
            # xdist's workers are gone by now; one that crashed may have left its engine.
            for sentence in sweep_orphans():
                self.progress.say(sentence)

    def _close(self) -> None:
        if "session" in self.__dict__:
            self.session.close()
        CellFolder(self.folder).leave()
        self.progress.done()
        if self._before_sigterm is not None:
            signal.signal(signal.SIGTERM, self._before_sigterm)
            self._before_sigterm = None

    def _finish(self, session: pytest.Session, exitstatus: int) -> None:
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        self._forget_resumed()
        if self.outcomes:
            cut_short = interrupted or bool(session.shouldfail) or bool(session.shouldstop)
            if self.config.gate is None:
                self.ending = finish(self, interrupted=cut_short)
            else:
                self.gate.write_markdown()
            if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
                kinds = [outcome["kind"] for outcome in self.outcomes.values()]
                session.exitstatus = exit_code(kinds, self.other_failures, otherwise=int(exitstatus))
        kept = len(list(self.folder.glob("*.json")))
        if interrupted and kept:
            if self.ending is not None and self.ending.recorded.record is not None:
                note_record(self.folder, self.ending.recorded.record.run_id)
            self.progress.say(f"interrupted; {kept} measured cells are kept: --perf-resume continues")
        elif not self.pytest_config.option.collectonly:
            shutil.rmtree(self.folder, ignore_errors=True)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the ladder and the comparison; nothing is raised here, every failure is a test's."""
        if self.config.gate is not None and self.outcomes:
            terminalreporter.section("vllm-perf gate")
            terminalreporter.write_line(self.gate.text())
        if self.ending is not None:
            self.ending.show(terminalreporter)
            for line in notes(self.ending.results, self.outcomes, self.pytest_config):
                terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """Leave nothing running, whatever happened before."""
        self._close()


def exit_code(kinds: Collection[str], other_failures: int, *, otherwise: int) -> int:
    """Return 1 for a failed budget or comparison, else 11 for a broken lab, else 10 for no verdict."""
    if other_failures or "failed" in kinds:
        return EXIT_FAILED
    if "lab broken" in kinds:
        return EXIT_LAB_BROKEN
    if "no verdict" in kinds:
        return EXIT_NO_VERDICT
    return otherwise


def _told(taken: Takeover | None) -> str:
    if taken is None:
        return "nothing to resume: no interrupted session measured the same engines, loads and versions"
    cells = ", ".join(taken.cells) or "none of its cells"
    return f"resuming an interrupted session; taken over, not measured again: {cells}"
