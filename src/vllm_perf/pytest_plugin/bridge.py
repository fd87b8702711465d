# SPDX-License-Identifier: Apache-2.0
"""Put our rows into pytest-benchmark's own session, so that its table, saving, compare and histogram work.

This and ``stock_checks`` are the only files that know pytest-benchmark's objects (5.x:
``benchmarksession.benchmarks`` holds ``Metadata``; its session-finish wrapper saves and compares whatever
is in there by then).
"""

import datetime
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from pytest_benchmark.stats import Metadata

from vllm_perf.history.benchmark_rows import row_of
from vllm_perf.history.record import Series
from vllm_perf.pytest_plugin import stock_checks

SESSION = "_benchmarksession"
MOMENTARY = ("hz_actual", "hz_actual_friendly", "hz_advertised", "hz_advertised_friendly")


def append_rows(config: pytest.Config, rows: Iterable[dict[str, Any]]) -> int:
    """Append rows to pytest-benchmark's session; return how many, 0 where the plugin is switched off."""
    session = benchmark_session(config)
    if session is None or is_disabled(config):
        return 0
    made = [metadata_of(row) for row in rows]
    session.benchmarks.extend(made)
    if made and not session.save and not session.autosave and not session.json:
        session.autosave = f"{datetime.datetime.now(datetime.UTC):%Y%m%d_%H%M%S}_vllm-perf"
    stock_checks.take_over(session, [one.fullname for one in made])
    return len(made)


def stock_failure(config: pytest.Config, series: Series) -> str | None:
    """Return what the user's own ``--benchmark-compare-fail`` says against a series, or ``None``."""
    session = benchmark_session(config)
    row = row_of(series)
    if session is None or row is None or is_disabled(config):
        return None
    return stock_checks.failure(session, metadata_of(row))


def benchmark_session(config: pytest.Config) -> Any:
    """Return pytest-benchmark's session object, or ``None`` when the plugin is not there."""
    return getattr(config, SESSION, None)


def is_disabled(config: pytest.Config) -> bool:
    """Tell whether the user switched pytest-benchmark off (xdist does as well, which does not concern us)."""
    off = config.getoption("benchmark_disable", False) or config.getoption("benchmark_skip", False)
    return bool(off) and not config.getoption("benchmark_enable", False)


def honour_only_and_skip(config: pytest.Config, perf_tests: Iterable[pytest.Item]) -> None:
    """Let ``--benchmark-only`` run perf tests and ``--benchmark-skip`` skip them: they are benchmarks.

    pytest-benchmark knows its own by their ``benchmark`` fixture, and would skip ours with all the rest.
    """
    session = benchmark_session(config)
    for item in perf_tests if session is not None else ():
        if session.skip:
            item.add_marker(pytest.mark.skip(reason="Skipping benchmark (--benchmark-skip active)."))
        elif session.only:
            item.own_markers[:] = [mark for mark in item.own_markers if not _is_only_skip(mark)]


def _is_only_skip(mark: pytest.Mark) -> bool:
    return mark.name == "skip" and "--benchmark-only" in str(mark.kwargs.get("reason"))


def metadata_of(row: dict[str, Any]) -> Any:
    """Return a row as pytest-benchmark keeps one: as if a fixture had timed it once per sample."""
    fixture = SimpleNamespace(
        name=row["name"],
        fullname=row["fullname"],
        group=row["group"],
        param=row["param"],
        params=row["params"],
        extra_info=row["extra_info"],
        cprofile_stats=None,
        has_error=False,
    )
    options = {"disable_gc": False, "min_rounds": 1, "warmup": False}
    metadata: Any = Metadata(fixture, iterations=1, options=options)  # type: ignore[no-untyped-call]
    for sample in row["samples"]:
        metadata.stats.update(sample)
    return metadata


def steady_machine_info(machine_info: dict[str, Any]) -> None:
    """Take the momentary clock out of pytest-benchmark's machine info.

    It moves by a tenth of a percent between two runs and makes the plugin warn that the machine changed.
    """
    cpu = machine_info.get("cpu")
    if isinstance(cpu, dict):
        for key in MOMENTARY:
            cpu.pop(key, None)
