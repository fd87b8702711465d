# SPDX-License-Identifier: Apache-2.0
"""A record as one JSON document: pytest-benchmark's schema, with everything of ours under ``vllm_perf``."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json as from_json_text

from vllm_perf.history.benchmark_rows import benchmark_rows
from vllm_perf.history.environment import asdict_parts
from vllm_perf.history.packing import Packs
from vllm_perf.history.record import RunRecord
from vllm_perf.history.row_stats import row_stats

BLOCK = "vllm_perf"
SCHEMA_VERSION = 1
# The pytest-benchmark whose schema this is; its tools look at the fields, not at this number.
BENCHMARK_VERSION = "5.3.1"
_ADAPTER = TypeAdapter(RunRecord)


class RecordError(Exception):
    """Say why a document is not a record this version can read."""


def to_document(record: RunRecord) -> dict[str, Any]:
    """Return ``record`` as plain data.

    Raises:
        PackError: a value is NaN.
    """
    packs = Packs()
    body = _ADAPTER.dump_python(record, mode="json", context=packs)
    return {
        "machine_info": machine_info(record),
        "commit_info": commit_info(record),
        "benchmarks": [_benchmark(row) for row in benchmark_rows(record)],
        "datetime": record.created,
        "version": BENCHMARK_VERSION,
        BLOCK: {"schema_version": SCHEMA_VERSION, **body, "packs": packs.packed},
    }


def to_json(record: RunRecord) -> str:
    """Return ``record`` as strict JSON (no ``NaN``, no ``Infinity``: JavaScript tools read it too).

    One line a series, so that it is small and two runs can still be told apart by ``diff``.
    """
    return _lines(to_document(record), depth=3) + "\n"


def _lines(value: Any, depth: int) -> str:
    """Return JSON with a line for each item down to ``depth``, and none below."""
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    if isinstance(value, list):
        return "[\n" + ",\n".join(_lines(item, 0) for item in value) + "\n]"
    items = (f"{json.dumps(name)}:{_lines(item, depth - 1)}" for name, item in value.items())
    return "{\n" + ",\n".join(items) + "\n}"


def from_json(text: str) -> RunRecord:
    """Return the record that :func:`to_json` wrote.

    Raises:
        RecordError: it is not JSON, not ours, damaged, or written by a newer version.
    """
    try:
        document = from_json_text(text, allow_inf_nan=False)
    except ValueError as error:
        raise RecordError(f"not JSON: {error}") from error
    return from_document(document)


def from_document(document: Any) -> RunRecord:
    """Return the record in ``document``.

    Raises:
        RecordError: it is not ours, damaged, or written by a newer version.
    """
    block = dict(_block(document))
    block.pop("schema_version")
    packs = block.pop("packs", {})
    if not isinstance(packs, dict):
        raise RecordError("damaged at packs: not a table")
    try:
        return _ADAPTER.validate_python(block, context=Packs(packs))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "record"
        raise RecordError(f"damaged at {where}: {first['msg']}") from error


def _block(document: Any) -> Mapping[str, Any]:
    block = document.get(BLOCK) if isinstance(document, dict) else None
    if not isinstance(block, dict):
        raise RecordError(f"no '{BLOCK}' block: not a record of vllm-perf (pytest-benchmark's own file?)")
    version = block.get("schema_version")
    if not isinstance(version, int):
        raise RecordError("no schema_version: damaged")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"written by a newer vllm-perf (schema {version}; this one reads up to {SCHEMA_VERSION}): upgrade"
        )
    return block


def machine_info(record: RunRecord) -> dict[str, Any]:
    """Return what stays the same between two runs on one machine: no clock frequency, no host name."""
    if not record.cells:
        return {}
    environment = record.cells[0].environment
    software = environment.software
    return {
        **asdict_parts(environment)["hardware"],
        "vllm_version": software.vllm_version,
        "torch_version": software.torch_version,
        "cuda_version": software.cuda_version,
        "python_version": software.python_version,
    }


def commit_info(record: RunRecord) -> dict[str, Any]:
    """Return pytest-benchmark's words for the suite's commit; the server's own is in ``vllm_perf``."""
    suite = record.suite
    return {
        "id": suite.commit or "unversioned",
        "time": suite.commit_time,
        "author_time": suite.commit_time,
        "dirty": bool(suite.dirty),
        "project": "vllm-perf",
        "branch": suite.branch or ("(detached head)" if suite.commit else "(unknown)"),
    }


def _benchmark(row: Mapping[str, Any]) -> dict[str, Any]:
    samples = row["samples"]
    return {
        "group": row["group"],
        "name": row["name"],
        "fullname": row["fullname"],
        "params": row["params"],
        "param": row["param"],
        "extra_info": row["extra_info"],
        "options": {},
        "stats": {**row_stats(samples), "data": list(samples)},
    }
