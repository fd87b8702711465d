# SPDX-License-Identifier: Apache-2.0
"""One run of the suite as it is kept: what was measured, on what, and how it ended. Knows no file."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, PlainSerializer

from vllm_perf.history.environment import Environment, Scalar
from vllm_perf.history.git import Suite
from vllm_perf.history.packing import (
    number_from_json,
    number_to_json,
    share_floats,
    share_names,
    shared_floats,
    shared_names,
)
from vllm_perf.metrics.measurement import Direction

# The workload of an engine's boot: every engine has it, no file names it.
BOOT = "boot"
Number = Annotated[float, BeforeValidator(number_from_json), PlainSerializer(number_to_json)]
Floats = Annotated[tuple[float, ...], BeforeValidator(shared_floats), PlainSerializer(share_floats)]
Names = Annotated[tuple[str, ...], BeforeValidator(shared_names), PlainSerializer(share_names)]


class SeriesStatus(StrEnum):
    """How one series of one run ended; only ``OK`` is ever a baseline.

    ``REGRESSED`` is one that was judged slower than its baseline when it was recorded: it must not become
    the yardstick of the next run. ``INVALID`` has numbers that mean nothing (see docs/metrics.md),
    ``FAILED`` has none.
    """

    OK = "ok"
    FAILED_BUDGET = "failed_budget"
    REGRESSED = "regressed"
    INVALID = "invalid"
    FAILED = "failed"


class SeriesKey(NamedTuple):
    """What makes two numbers of two runs the same thing measured."""

    engine: str
    workload: str
    metric: str

    def __str__(self) -> str:
        return f"{self.metric}[{self.engine}-{self.workload}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What the engine said about itself after boot; ``None`` is "not known", never "off"."""

    title: str = ""
    own_flags: dict[str, Scalar] = field(default_factory=dict)
    external: bool = False
    attention_backend: str | None = None
    quantization_kernel: str | None = None
    kv_cache_dtype: str | None = None
    kv_cache_tokens: int | None = None
    prefix_caching: bool | None = None
    max_model_len: int | None = None
    warnings: tuple[str, ...] = ()
    log: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one repetition did; two sides are compared only when this is equal."""

    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    preemptions: int | None = None
    finish_reasons: dict[str, int] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One run of the load; ``boot`` counts the engine's boots, ``prompt_ids`` are in the order of sending."""

    boot: int = 0
    started_s: Number = 0.0
    duration_s: Number | None = None
    sent: int = 0
    ok: int = 0
    failed: int = 0
    prompt_ids: Names = ()
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One engine under one workload: what all its series have in common."""

    engine: str
    workload: str
    environment: Environment
    facts: EngineFacts = field(default_factory=EngineFacts)
    boot_s: tuple[Number, ...] = ()
    repetitions: tuple[Repetition, ...] = ()
    telemetry: dict[str, Scalar | None] = field(default_factory=dict)
    stages_ms: dict[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of one cell.

    ``replicates`` holds one value a repetition (``None`` where that one has none); ``samples`` one tuple a
    repetition, aligned with the repetition's ``prompt_ids`` where the metric is taken per request (failed
    requests as infinity), empty where it is not.
    """

    engine: str
    workload: str
    metric: str
    unit: str
    direction: Direction
    value: Number | None
    low: Number | None = None
    high: Number | None = None
    sent: int = 0
    ok: int = 0
    failed: int = 0
    status: SeriesStatus = SeriesStatus.OK
    reasons: tuple[str, ...] = ()
    gating: bool = False
    replicates: tuple[Number | None, ...] = ()
    samples: tuple[Floats, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would silently pass every comparison.

        Raises:
            ValueError: a value is NaN, or there is no value and the status says there is.
        """
        known = [value for value in (self.value, self.low, self.high, *self.replicates) if value is not None]
        if any(any(map(math.isnan, row)) for row in (known, *self.samples)):
            raise ValueError(f"{self.key}: NaN is not a measurement")
        if self.value is None and self.status in (SeriesStatus.OK, SeriesStatus.REGRESSED):
            raise ValueError(f"{self.key}: status '{self.status}' without a value")

    @property
    def key(self) -> SeriesKey:
        """Return what this series is matched by."""
        return SeriesKey(self.engine, self.workload, self.metric)

    @property
    def good(self) -> bool:
        """Tell whether a later run may be compared with it."""
        return self.status is SeriesStatus.OK and self.value is not None and math.isfinite(self.value)


@dataclass(frozen=True, kw_only=True)  # no slots: the lookups are cached
class RunRecord:
    """One run of the suite. ``created`` is UTC, ISO 8601; ``command`` reproduces it."""

    run_id: str
    created: str
    suite: Suite = field(default_factory=Suite)
    harness_version: str = ""
    command: str = ""
    profile: str = ""
    complete: bool = True
    cells: tuple[Cell, ...] = ()
    series: tuple[Series, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a record that contradicts itself.

        Raises:
            ValueError: a series is there twice, or belongs to no cell.
        """
        if len(self.by_key) != len(self.series):
            raise ValueError("a series is in the record twice")
        for series in self.series:
            if (series.engine, series.workload) not in self.by_cell:
                raise ValueError(f"{series.key} belongs to no cell of the record")

    @cached_property
    def by_key(self) -> dict[SeriesKey, Series]:
        """Return the series by what they are matched by."""
        return {series.key: series for series in self.series}

    @cached_property
    def by_cell(self) -> dict[tuple[str, str], Cell]:
        """Return the cells by engine and workload."""
        return {(cell.engine, cell.workload): cell for cell in self.cells}

    def cell_of(self, key: SeriesKey) -> Cell:
        """Return the cell that a series belongs to."""
        return self.by_cell[key.engine, key.workload]
