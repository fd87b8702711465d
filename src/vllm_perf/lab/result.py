# SPDX-License-Identifier: Apache-2.0
"""What one measured cell leaves: the record's parts, and why it gives no verdict where it gives none."""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from vllm_perf.history.record import BOOT as BOOT
from vllm_perf.history.record import Cell, Series
from vllm_perf.metrics.measurement import Measurement
from vllm_perf.metrics.table import BY_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class CellResult:
    """One engine under one workload. ``invalid`` are sentences; ``warnings`` are worth a line, no more.

    ``unavailable`` says of each metric without a value why it has none.
    ``floor_ms`` is what the client itself adds to TTFT at this concurrency (``None``: not measured).
    ``failure`` is the paragraph of a lab failure: then there are no series. Neither a failure nor a ``cell``:
    measuring was stopped on purpose (a cap), and ``invalid`` says by what.
    ``not_comparable`` names the metrics that mean nothing on this server, each with why: nobody asserts them.
    """

    engine: str
    workload: str
    cell: Cell | None = None
    series: tuple[Series, ...] = ()
    invalid: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    floor_ms: float | None = None
    failure: str | None = None
    unavailable: dict[str, str] = field(default_factory=dict)
    not_comparable: dict[str, str] = field(default_factory=dict)

    def find(self, metric: str) -> Series | None:
        """Return one metric's series, or ``None``."""
        return next((one for one in self.series if one.metric == metric), None)

    def measurement(self, metric: str) -> Measurement | None:
        """Return one metric as a measurement: its repetitions' values are the samples."""
        one = self.find(metric)
        if one is not None:
            return as_measurement(one)
        known = BY_NAME.get(metric)
        if known is None:
            return None
        reason = self.unavailable.get(metric, "not measured")
        return Measurement(
            metric=metric, unit=known.unit, direction=known.direction, value=None, unavailable=reason
        )


def as_measurement(series: Series) -> Measurement:
    """Return a stored series as the measurement that it was."""
    pooled = tuple(value for repetition in series.samples for value in repetition)
    replicates = tuple(value for value in series.replicates if value is not None)
    return Measurement(
        metric=series.metric,
        unit=series.unit,
        direction=series.direction,
        value=series.value,
        samples=pooled or replicates,
        sent=series.sent,
        ok=series.ok,
        failed=series.failed,
        low=series.low,
        high=series.high,
        unavailable=None if series.value is not None else "; ".join(series.reasons) or "no value",
        gating=series.gating,
    )


ADAPTER: TypeAdapter[CellResult] = TypeAdapter(CellResult)


def to_json(result: CellResult) -> bytes:
    """Return a result as JSON: it travels between xdist's workers and survives an interrupted session."""
    return ADAPTER.dump_json(result)


def from_json(data: bytes) -> CellResult:
    """Return the result that ``to_json`` wrote.

    Raises:
        pydantic.ValidationError: it is not one.
    """
    return ADAPTER.validate_json(data)
