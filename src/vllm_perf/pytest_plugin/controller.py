# SPDX-License-Identifier: Apache-2.0
"""One pytest process's part in the suite: the lab while tests run, the record and the report at the end.

Under xdist the workers measure and the controlling process records; alone, one process does both.
"""

import shutil
from collections.abc import Generator
from functools import cached_property
from typing import Any

import pytest

from vllm_perf.lab.machine import detect_machine
from vllm_perf.pytest_plugin import items as perf_items
from vllm_perf.pytest_plugin.finish import Ending, finish
from vllm_perf.pytest_plugin.options import PerfConfig
from vllm_perf.pytest_plugin.plan import Plan, make_plan
from vllm_perf.pytest_plugin.progress import Progress
from vllm_perf.pytest_plugin.resume import begin
from vllm_perf.pytest_plugin.session import PerfSession, open_session
from vllm_perf.pytest_plugin.workers import cell_folder, is_worker, take_gpus

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

    def begin(self) -> None:
        """Prepare the session's folder, taking over an interrupted one's cells where that was asked for."""
        if is_worker(self.pytest_config):
            return
        taken = begin(
            cell_folder(self.config.work_dir, self.pytest_config), self.plan, resume=self.config.resume
        )
        if taken:
            self.progress.say(f"taken over from an interrupted run, not measured again: {', '.join(taken)}")

    @cached_property
    def progress(self) -> Progress:
        """Return where progress is shown; xdist's workers share the controller's stderr."""
        return Progress(quiet=bool(self.pytest_config.getoption("quiet", 0) > 1))

    @cached_property
    def session(self) -> PerfSession:
        """Return the lab of this process."""
        self.begin()
        folder = cell_folder(self.config.work_dir, self.pytest_config)
        return open_session(self.config, self.plan, folder, self.progress)

    def collected(self, items: list[pytest.Item]) -> None:
        """Order the tests."""
        perf_items.order(items, self.plan)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how each perf test ended, from whichever process it comes."""
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
        self._finish(session, exitstatus)
        yield

    def _finish(self, session: pytest.Session, exitstatus: int) -> None:
        if "session" in self.__dict__:
            self.session.close()
        self.progress.done()
        if is_worker(self.pytest_config) or not self.outcomes:
            return
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        self.ending = finish(self, interrupted=interrupted)
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = self.exit_code(int(exitstatus))
        if not interrupted:
            shutil.rmtree(cell_folder(self.config.work_dir, self.pytest_config), ignore_errors=True)

    def exit_code(self, otherwise: int) -> int:
        """Return 1 for a failed budget or comparison, else 11 for a broken lab, else 10 for no verdict."""
        kinds = {outcome["kind"] for outcome in self.outcomes.values()}
        if self.other_failures or "failed" in kinds:
            return EXIT_FAILED
        if "lab broken" in kinds:
            return EXIT_LAB_BROKEN
        if "no verdict" in kinds:
            return EXIT_NO_VERDICT
        return otherwise

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the ladder and the comparison; nothing is raised here, every failure is a test's."""
        if self.ending is not None:
            self.ending.show(terminalreporter)

    def pytest_unconfigure(self) -> None:
        """Leave nothing running, whatever happened before."""
        if "session" in self.__dict__:
            self.session.close()
