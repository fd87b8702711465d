# SPDX-License-Identifier: Apache-2.0
"""Say which part of a request's time moved between two runs, from the means of its stages.

Formula: mean TTFT = queue + prefill (the engine's own, from /metrics) + outside the engine, which is what is
left of the TTFT that the client saw: the API server's HTTP, templating and tokenizing, the network, the
client. After the first token it is decode alone. All of them are means over the run, so their differences add
up, which medians' would not.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from vllm_perf.history.record import RunRecord, SeriesKey

# No word for whose fault it is: with long prompts most of it is the API server tokenizing.
OUTSIDE = "outside the engine"
UP_TO_FIRST_TOKEN = ("ttft", "ttfa", "prefill", "queue")
AFTER_FIRST_TOKEN = ("tpot", "itl", "output_throughput", "decode")
# Below this share of the whole change a stage did not move it.
WORTH_NAMING = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage's mean time a request, before and after, in milliseconds."""

    name: str
    base_ms: float
    head_ms: float

    @property
    def delta_ms(self) -> float:
        """Return by how much it grew."""
        return self.head_ms - self.base_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribution:
    """The stages behind one metric, the one that moved most first; ``unknown`` says why there are none."""

    stages: tuple[Stage, ...] = ()
    unknown: str | None = None

    @property
    def moved(self) -> tuple[str, ...]:
        """Return the stages that made the change: those that went its way, by at least a fifth of it."""
        total = math.fsum(stage.delta_ms for stage in self.stages)
        if not total:
            return ()
        return tuple(stage.name for stage in self.stages if stage.delta_ms / total >= WORTH_NAMING)

    def sentence(self) -> str:
        """Return what moved, with numbers."""
        if self.unknown is not None:
            return f"not known: {self.unknown}"
        moved, rest = self.moved, [stage for stage in self.stages if stage.name not in self.moved]
        told = _told(stage for stage in self.stages if stage.name in moved) or "nothing in particular"
        return f"{told}; not: {_told(rest)}" if rest else told


def _told(stages: Iterable[Stage]) -> str:
    return ", ".join(
        f"{stage.name} {stage.base_ms:.3g} → {stage.head_ms:.3g} ms ({stage.delta_ms:+.3g})"
        for stage in stages
    )


def attribute(key: SeriesKey, base: RunRecord, head: RunRecord) -> Attribution:
    """Return which stages moved under ``key`` between two runs that both have its cell."""
    before, after = _stages(key, base), _stages(key, head)
    if isinstance(before, str):
        return Attribution(unknown=f"the baseline has {before}")
    if isinstance(after, str):
        return Attribution(unknown=f"this run has {after}")
    names = [name for name in before if name in after]
    if not names:
        return Attribution(unknown="no stage was measured on both sides")
    stages = [Stage(name=name, base_ms=before[name], head_ms=after[name]) for name in names]
    return Attribution(stages=tuple(sorted(stages, key=lambda stage: -abs(stage.delta_ms))))


def _stages(key: SeriesKey, record: RunRecord) -> dict[str, float] | str:
    """Return the stages' means that add up to what ``key`` measures, or what is missing."""
    server = record.cell_of(key).stages_ms
    if not server:
        return "no stage times (the server's /metrics were not read)"
    decode = {"decode": server["decode"]} if "decode" in server else {}
    if key.metric.startswith(AFTER_FIRST_TOKEN):
        return decode or "no decode time"
    first: dict[str, float] = {name: server[name] for name in ("queue", "prefill") if name in server}
    if len(first) < 2:
        return "no queue or prefill time"
    ttft = record.by_key.get(SeriesKey(key.engine, key.workload, "ttft_mean"))
    if ttft is not None and ttft.value is not None and math.isfinite(ttft.value):
        first[OUTSIDE] = ttft.value - first["queue"] - first["prefill"]
    return first if key.metric.startswith(UP_TO_FIRST_TOKEN) else {**first, **decode}
