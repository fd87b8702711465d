# SPDX-License-Identifier: Apache-2.0
"""Make one record of what all processes of a session measured and judged."""

import shlex
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from vllm_perf import __version__
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord, Series, SeriesKey, SeriesStatus
from vllm_perf.history.store import new_run_id, utc_now
from vllm_perf.lab.result import CellResult
from vllm_perf.pytest_plugin.options import PerfConfig

Outcome = Mapping[str, Any]


def make_record(
    results: Iterable[CellResult],
    outcomes: Iterable[Outcome],
    config: PerfConfig,
    suite: Suite,
    complete: bool,
) -> RunRecord:
    """Return the record: every series of every measured cell, marked with how its tests ended.

    A series is recorded whether or not its test ran; one that missed its budget or regressed keeps its
    numbers and is never a baseline.
    """
    cells = [result for result in results if result.cell is not None]
    ends = _ends(outcomes)
    return RunRecord(
        run_id=new_run_id(),
        created=utc_now(),
        suite=suite,
        harness_version=__version__,
        command=shlex.join(["pytest", *sys.argv[1:]]),
        profile=config.profile,
        complete=complete,
        cells=tuple(result.cell for result in cells if result.cell is not None),
        series=tuple(_marked(one, ends) for result in cells for one in result.series),
        warnings=tuple(dict.fromkeys(warning for result in cells for warning in result.warnings)),
    )


def with_worse(record: RunRecord, keys: Collection[SeriesKey], status: SeriesStatus) -> RunRecord:
    """Return the record with good series marked that are found bad though no test of this session says so.

    A run of a few tests measures whole cells: what it did not assert must not become a baseline unseen.
    """
    series = (
        replace(one, status=status) if one.key in keys and one.status is SeriesStatus.OK else one
        for one in record.series
    )
    return replace(record, series=tuple(series))


def _ends(outcomes: Iterable[Outcome]) -> dict[SeriesKey, SeriesStatus]:
    """Return the status that a failed test gives its series."""
    ends = {}
    for outcome in outcomes:
        if outcome["kind"] != "failed":
            continue
        key = SeriesKey(outcome["engine"], outcome["workload"], outcome["metric"])
        regressed = outcome.get("change") == "regressed"
        ends[key] = SeriesStatus.REGRESSED if regressed else SeriesStatus.FAILED_BUDGET
    return ends


def _marked(series: Series, ends: Mapping[SeriesKey, SeriesStatus]) -> Series:
    end = ends.get(series.key)
    if end is None or series.status is not SeriesStatus.OK:
        return series
    return replace(series, status=end)
