# SPDX-License-Identifier: Apache-2.0
"""Turn the plan into tests: one per engine, workload and metric, in an order that boots each engine once."""

from collections.abc import Collection

import pytest

from vllm_perf.lab.result import BOOT
from vllm_perf.pytest_plugin.plan import Plan

METRICS_MARK = "perf_metrics"
LADDER_MARK = "perf_ladder"
CASE = "perf_case"
ENGINE = "perf_engine"
GATE_CASE = "perf_gate_case"
LADDER_SCOPE = "ladder"
Case = tuple[str, str, str]


def parametrize(metafunc: pytest.Metafunc, plan: Plan) -> None:
    """Give a test its cases.

    ``perf_case`` and ``@pytest.mark.perf_metrics("ttft_p50", ..., workload="chat")``: one case per engine,
    workload and metric. ``@pytest.mark.perf_ladder(...)`` takes the last engine only. ``perf_engine``
    alone: one per engine. The id starts with the engine, so that xdist can keep its tests together, or with
    "ladder" where a test needs several.
    """
    if CASE in metafunc.fixturenames:
        cases = _cases(metafunc, plan)
        first = (LADDER_SCOPE,) if metafunc.definition.get_closest_marker(LADDER_MARK) else ()
        ids = [":".join((*first, *case)) for case in cases]
        metafunc.parametrize(CASE, cases, ids=ids, scope="session")
    elif ENGINE in metafunc.fixturenames:
        names = [engine.name for engine in plan.engines]
        metafunc.parametrize(ENGINE, names, ids=[f"{name}:" for name in names], scope="session")


def _cases(metafunc: pytest.Metafunc, plan: Plan) -> list[Case]:
    mark = metafunc.definition.get_closest_marker(METRICS_MARK)
    if mark is None or not mark.args:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} asks for '{CASE}' but names no metric; add "
            f'@pytest.mark.{METRICS_MARK}("ttft_p50")'
        )
    last_only = metafunc.definition.get_closest_marker(LADDER_MARK) is not None
    engines = plan.engines[-1:] if last_only else plan.engines
    if last_only and len(plan.engines) < 2:
        return []  # one rung alone has nothing to gain over
    names = _workloads(mark.kwargs.get("workload"), plan)
    return [(engine.name, name, metric) for engine in engines for name in names for metric in mark.args]


def _workloads(only: str | tuple[str, ...] | None, plan: Plan) -> list[str]:
    """Return the workloads a mark names, as far as they are part of this run; booting always is."""
    wanted = (only,) if isinstance(only, str) else only
    names = [BOOT, *(workload.name for workload in plan.workloads)]
    return [name for name in names if (name != BOOT if wanted is None else name in wanted)]


def engine_of(item: pytest.Item) -> str | None:
    """Return the engine a test needs, or ``None`` for a test that is not ours."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return None
    case, alone = callspec.params.get(CASE), callspec.params.get(ENGINE)
    if isinstance(case, tuple):
        return str(case[0])
    return alone if isinstance(alone, str) else None


def is_empty(item: pytest.Item) -> bool:
    """Tell whether a perf test has no case in this run: pytest keeps it once, to be skipped."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return any(name in params for name in (CASE, ENGINE, GATE_CASE)) and not (is_perf(item) or is_gate(item))


def is_perf(item: pytest.Item) -> bool:
    """Tell whether a test needs an engine of the plan."""
    return engine_of(item) is not None


def is_gate(item: pytest.Item) -> bool:
    """Tell whether a test judges a gate."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    return isinstance(params.get(GATE_CASE), tuple)


def order(items: list[pytest.Item], plan: Plan) -> None:
    """Sort in place: other tests first as they came, then by engine, boot first, then by workload.

    Tests that compare rungs come last of all: by then every rung has been measured.
    """
    engines = {engine.name: index for index, engine in enumerate(plan.engines)}
    workloads = {workload.name: index for index, workload in enumerate(plan.workloads)}

    def key(item: pytest.Item) -> tuple[int, int, int]:
        engine = engine_of(item)
        if engine is None:
            return (0, 0, 0)
        if item.get_closest_marker(LADDER_MARK) is not None:
            return (2, 0, 0)
        case: Case | None = item.callspec.params.get(CASE)  # type: ignore[attr-defined]
        return (1, engines[engine], -1 if case is None else workloads.get(case[1], -1))

    items.sort(key=key)


def looks_like_perf(nodeid: str) -> bool:
    """Tell whether a test may be a perf test; cheap, and no more than a hint."""
    inside = nodeid.removesuffix("]").rpartition("[")[2]
    return nodeid.endswith("]") and (":" in inside or inside == "NOTSET")


def scope_of(nodeid: str, engines: Collection[str], dist: str = "load") -> str:
    """Return what xdist keeps on one worker: the engine of a perf test; any other test as ``--dist`` says.

    ``engines`` are the names that a perf test's id may begin with: parameters of other people's tests may
    hold a colon as well.
    """
    inside = nodeid.rsplit("[", 1)[1] if "[" in nodeid else ""
    scope, colon, _rest = inside.partition(":")
    if colon and (scope in engines or scope == LADDER_SCOPE):
        return scope
    if dist == "loadfile":
        return nodeid.split("::", 1)[0]
    if dist == "loadscope":
        return nodeid.rsplit("::", 1)[0]
    return nodeid.rsplit("@", 1)[1] if dist == "loadgroup" and "@" in nodeid else nodeid
