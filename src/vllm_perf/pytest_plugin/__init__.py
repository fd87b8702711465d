# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: hooks only, each handing over to the module that does it.

Nothing that measures is imported before a collected test asks for an engine: a project that merely has
the plugin installed pays a few milliseconds.
"""

import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from vllm_perf.pytest_plugin.options import add_options, is_perf_project, read_options, swallowed_path

if TYPE_CHECKING:
    from vllm_perf.pytest_plugin.controller import Controller

CONTROLLER = pytest.StashKey["Controller"]()
PROBLEM = pytest.StashKey[pytest.UsageError]()
PARAMETERS = ("perf_case", "perf_engine", "perf_gate_case")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and catch ``--benchmark-compare PATH``, which would compare nothing and pass."""
    config.addinivalue_line(
        "markers", "perf_metrics(name, ..., workload=None): the metrics a perf test checks"
    )
    config.addinivalue_line(
        "markers", "perf_ladder: a perf test of the ladder's last rung against the others"
    )
    swallowed = swallowed_path(config)
    if swallowed is not None:
        raise pytest.UsageError(
            f"--benchmark-compare took '{swallowed}' as the name of a stored run: nothing would be compared "
            f"and nothing selected. Put the path first: pytest {swallowed} --benchmark-compare"
        )
    if is_perf_project(config):
        # The first run has nothing to compare with. That is no warning here (and with -W error no crash):
        # the summary says "baseline created".
        warnings.filterwarnings("ignore", message="Can't compare. No benchmark files")
        # Another machine is ours to judge, by more than pytest-benchmark knows of it; shown, never raised.
        warnings.filterwarnings("default", message="Benchmark machine_info is different")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give perf tests their engines, workloads and metrics."""
    asked = next((name for name in PARAMETERS if name in metafunc.fixturenames), None)
    if asked is not None:
        try:
            current_controller(metafunc.config).parametrize(metafunc, asked)
        except pytest.UsageError as error:
            # Raised here it would be one collection error a file; it is the user's, and ends the session.
            metafunc.config.stash[PROBLEM] = error
            metafunc.parametrize(asked, [])


def current_controller(config: pytest.Config) -> "Controller":
    """Return this process's controller, built at the first test that needs it.

    Raises:
        pytest.UsageError: what was asked cannot be done.
    """
    found = config.stash.get(CONTROLLER, None)
    if found is None:
        from vllm_perf.pytest_plugin.controller import Controller  # only for perf tests, see above

        found = Controller.open(config, read_options(config))
        found.check()
        config.stash[CONTROLLER] = found
        config.pluginmanager.register(found, "vllm_perf_controller")
    return found


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order perf tests so that each engine boots once.

    Raises:
        pytest.UsageError: perf tests were collected, and what was asked for them cannot be done.
    """
    problem = config.stash.get(PROBLEM, None)
    if problem is not None:
        if hasattr(config, "workerinput"):
            return  # xdist's controller meets the same problem, and can end the session with it
        raise problem
    found = config.stash.get(CONTROLLER, None)
    if found is not None:
        found.collected(items)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Keep pytest-benchmark from calling a moved clock another machine."""
    from vllm_perf.pytest_plugin.bridge import (
        steady_machine_info,
    )  # pytest-benchmark's types, only when it saves

    steady_machine_info(machine_info)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Generator[None, Any, Any]:
    """Keep each engine's tests on one worker (``--dist load`` and ``loadgroup`` would boot it on several)."""
    stock = yield
    if not is_perf_project(config):
        return stock
    from vllm_perf.pytest_plugin.xdist_scheduler import choose_scheduler  # xdist's types, only when it runs

    return choose_scheduler(stock, config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell an xdist worker where this session's cells are."""
    from vllm_perf.pytest_plugin.xdist_controller import prepare  # only when xdist runs

    prepare(node)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a perf test's outcome travel with its report, also from an xdist worker."""
    outcome = item.stash.get(OUTCOME, None) if call.when == "call" else None
    if outcome is not None:
        # The item's own, not the report's: JUnit takes them from the report of the teardown.
        item.user_properties.extend(
            (f"vllm_perf.{name}", str(value)) for name, value in outcome.items() if value
        )
    report = yield
    if outcome is not None:
        report.vllm_perf = outcome  # type: ignore[attr-defined]
    return report


OUTCOME = pytest.StashKey[dict[str, Any]]()


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Show *no verdict* and *lab broken* by their names; both stay failures for JUnit and for exit codes."""
    outcome = getattr(report, "vllm_perf", None)
    if outcome is None or report.when != "call" or not report.failed:
        return None
    if outcome["kind"] == "no verdict":
        return "no verdict", "N", "NO VERDICT"
    if outcome["kind"] == "lab broken":
        return "lab broken", "L", "LAB BROKEN"
    return None


@pytest.fixture(scope="session")
def perf_session(pytestconfig: pytest.Config) -> Any:
    """Return the session's lab (:class:`vllm_perf.pytest_plugin.session.PerfSession`)."""
    return current_controller(pytestconfig).session


@pytest.fixture
def perf(request: pytest.FixtureRequest, perf_session: Any, perf_case: tuple[str, str, str]) -> Any:
    """Return the judge of the running test: ``perf.check()`` measures and asserts its case."""
    from vllm_perf.pytest_plugin.judge import Judge  # only for perf tests, see above

    return Judge(session=perf_session, item=request.node, case=perf_case)


@pytest.fixture
def perf_gate(request: pytest.FixtureRequest, pytestconfig: pytest.Config, perf_gate_case: Any) -> Any:
    """Return the judge of one gating metric of ``--perf-gate``: ``perf_gate.check()``."""
    from vllm_perf.pytest_plugin.gate_session import GateJudge  # only for gate tests, see above

    controller = current_controller(pytestconfig)
    return GateJudge(gate=controller.open_gate, item=request.node, case=perf_gate_case)
