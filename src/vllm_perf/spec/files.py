# SPDX-License-Identifier: Apache-2.0
"""Read the spec files: engines, workloads and budgets, with ``extends`` resolved."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vllm_perf.spec.base import SpecError, parse, read_toml
from vllm_perf.spec.budget import BudgetFile
from vllm_perf.spec.engine import EngineSpec, Ladder, ModelShape
from vllm_perf.spec.workload import WorkloadSpec

T = TypeVar("T")
Table = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineBook:
    """Everything one engines file says."""

    path: Path
    engines: dict[str, EngineSpec]
    ladders: dict[str, Ladder]
    models: dict[str, ModelShape]

    def engine(self, name: str) -> EngineSpec:
        """Return one engine.

        Raises:
            SpecError: there is none of that name.
        """
        return pick(self.engines, name, f"{self.path}: engine")

    def ladder_for(self, platform: str) -> Ladder:
        """Return the first ladder of a platform ("cpu" or "cuda").

        Raises:
            SpecError: the file has none.
        """
        for ladder in self.ladders.values():
            if ladder.platform in (platform, "any"):
                return ladder
        raise SpecError(f"{self.path}: no ladder for platform '{platform}'; add a [ladders.NAME] table")


def pick(table: Mapping[str, T], name: str, what: str) -> T:
    """Return ``table[name]`` or raise a SpecError that lists the valid names."""
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, list(table), n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    raise SpecError(f"{what} '{name}' is not known. {hint}Known: {', '.join(table) or '(none)'}")


def load_engines(path: Path) -> EngineBook:
    """Read an engines file.

    Raises:
        SpecError: unreadable, an unknown key, an unknown or circular ``extends``, a ladder naming no engine.
    """
    data = read_toml(path)
    refuse_unknown(data, ("engines", "ladders", "models"), str(path))
    tables: dict[str, Table] = data.get("engines", {})
    engines = {
        name: parse(EngineSpec, _resolve(name, tables, path), f"{path}: [engines.{name}]") for name in tables
    }
    ladders = {
        name: parse(Ladder, {"name": name, **table}, f"{path}: [ladders.{name}]")
        for name, table in data.get("ladders", {}).items()
    }
    for ladder in ladders.values():
        for engine in ladder.engines:
            pick(engines, engine, f"{path}: [ladders.{ladder.name}]: engine")
    models = {
        name: parse(ModelShape, table, f"{path}: [models.{name}]")
        for name, table in data.get("models", {}).items()
    }
    return EngineBook(path=path, engines=engines, ladders=ladders, models=models)


def _resolve(name: str, tables: dict[str, Table], path: Path, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """Merge an engine's table over the one it extends: flags, env and expect key by key."""
    if name in seen:
        raise SpecError(f"{path}: [engines.{seen[0]}] extends itself: {' -> '.join((*seen, name))}")
    own: Table = dict(pick(tables, name, f"{path}: engine"))
    own["name"] = name
    own["own_flags"] = own.get("flags", {})
    parent_name = own.pop("extends", None)
    if parent_name is None:
        return own
    parent = _resolve(parent_name, tables, path, (*seen, name))
    merged: dict[str, Any] = {**parent, **own}
    for key in ("flags", "env", "expect"):
        merged[key] = {**parent.get(key, {}), **own.get(key, {})}
    if "title" not in own:
        merged.pop("title", None)
    return merged


def load_workloads(path: Path) -> dict[str, WorkloadSpec]:
    """Read a workloads file; relative prompt paths are taken from the file's own folder.

    Raises:
        SpecError: unreadable, an unknown key or a wrong value.
    """
    data = read_toml(path)
    refuse_unknown(data, ("workloads",), str(path))
    workloads = {}
    for name, table in data.get("workloads", {}).items():
        spec = parse(WorkloadSpec, {"name": name, **table}, f"{path}: [workloads.{name}]")
        if spec.prompt.path is not None:
            prompt = spec.prompt.model_copy(update={"path": str(path.parent / spec.prompt.path)})
            spec = spec.model_copy(update={"prompt": prompt})
        workloads[name] = spec
    return workloads


def load_workloads_for(path: Path, platform: str) -> dict[str, WorkloadSpec]:
    """Read a workloads file, then ``NAME.PLATFORM.toml`` beside it, whose entries win.

    Raises:
        SpecError: as :func:`load_workloads`.
    """
    special = path.with_suffix(f".{platform}{path.suffix}")
    return load_workloads(path) | (load_workloads(special) if special.is_file() else {})


def load_budgets(directory: Path) -> tuple[BudgetFile, ...]:
    """Read every budget file of a folder, in name order.

    Raises:
        SpecError: one of them is wrong; none is skipped silently.
    """
    return tuple(
        parse(BudgetFile, {"name": path.stem, **read_toml(path)}, str(path))
        for path in sorted(directory.glob("*.toml"))
    )


def refuse_unknown(data: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    """Raise a SpecError that names every top-level key outside ``known``."""
    unknown = [key for key in data if key not in known]
    if unknown:
        raise SpecError(f"{where}: unknown table {unknown[0]!r}; known: {', '.join(known)}")
