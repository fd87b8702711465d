# SPDX-License-Identifier: Apache-2.0
"""What this client itself adds to TTFT and ITL, measured against the golden engine's own record."""

import json
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from vllm_perf.load.generator import run_load
from vllm_perf.load.golden_process import golden_process, read_records
from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.spec.client import DEFAULT_CLIENT, Client
from vllm_perf.spec.workload import ArrivalSpec, WorkloadSpec

TTFT_MS = 100
ITL_MS = 5
OUTPUT_TOKENS = 8
LEAST_REQUESTS = 32
MOST_REQUESTS = 1024
BYTES_A_TOKEN = 4
NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What the client adds, in ms: one value a request from when it was wanted to when its token was stamped,
    and one a gap between chunks. The network between here and a real server is not in it.
    """

    added_ttft_ms: tuple[float, ...]
    added_gap_ms: tuple[float, ...]

    @property
    def ttft_p50_ms(self) -> float:
        """Return the median of what is added to TTFT."""
        return statistics.median(self.added_ttft_ms)


@dataclass(slots=True)
class FloorMeter:
    """Measure each kind of load once, with the client that sends it, and remember it."""

    client: Client = DEFAULT_CLIENT
    _known: dict[str, Floor | None] = field(default_factory=dict)

    def floor_ms(self, workload: WorkloadSpec) -> float | None:
        """Return the TTFT that the client adds at this workload's arrivals (P50, ms), ``None`` if unknown."""
        floor = self.floor(workload)
        return None if floor is None else floor.ttft_p50_ms

    def floor(self, workload: WorkloadSpec) -> Floor | None:
        """Return all of it; ``None`` where no golden engine could be started."""
        key = json.dumps([workload.arrival.model_dump(), _prompt_bytes(workload), workload.requests])
        if key not in self._known:
            self._known[key] = _try(workload, self.client)
        return self._known[key]


def measure_floor(workload: WorkloadSpec, client: Client = DEFAULT_CLIENT) -> Floor | None:
    """Send a load of the workload's arrivals and prompt sizes to a golden engine in another process.

    Returns ``None`` where nothing came back.

    Raises:
        GoldenFailed: the golden engine did not start.
    """
    with golden_process(ttft_ms=TTFT_MS, itl_ms=ITL_MS) as target:
        run = run_load(replace(_plan(workload, target), client=client))
        return floor_of(run, read_records(target))


def floor_of(run: Run, records: dict[str, dict[str, Any]]) -> Floor | None:
    """Compare a run's stamps with the server's; added TTFT = client's from ``scheduled`` - server's own."""
    pairs = [(sample, records[sample.id]) for sample in run.samples if sample.ok and sample.id in records]
    ttfts = [added for sample, record in pairs if (added := added_ttft_ns(sample, record)) is not None]
    gaps = [gap for sample, record in pairs for gap in added_gaps_ns(sample, record)]
    if not ttfts:
        return None
    return Floor(
        added_ttft_ms=tuple(added / NS_PER_MS for added in ttfts),
        added_gap_ms=tuple(gap / NS_PER_MS for gap in gaps),
    )


def added_ttft_ns(sample: RequestSample, record: dict[str, Any]) -> int | None:
    """Return (first token stamped - wanted) - (first token written - request read)."""
    if sample.first_token_ns is None or not record["sent_ns"]:
        return None
    own_ns = record["sent_ns"][0] - record["received_ns"]
    return int(sample.first_token_ns - sample.scheduled_ns - own_ns)


def added_gaps_ns(sample: RequestSample, record: dict[str, Any]) -> Iterable[int]:
    """Yield by how much each gap between chunks differs from the server's own, as an absolute value."""
    seen, true = sample.chunk_ns, record["sent_ns"]
    if len(seen) != len(true):
        return
    for at in range(1, len(seen)):
        yield abs((seen[at] - seen[at - 1]) - (true[at] - true[at - 1]))


def _try(workload: WorkloadSpec, client: Client) -> Floor | None:
    try:
        return measure_floor(workload, client)
    except OSError:
        return None


def _plan(workload: WorkloadSpec, target: Target) -> LoadPlan:
    arrival = workload.arrival
    if arrival.kind != "closed" and arrival.rate_per_s is None:
        arrival = ArrivalSpec(kind="closed", concurrency=arrival.concurrency)
    count = min(MOST_REQUESTS, max(LEAST_REQUESTS, 2 * arrival.concurrency))
    body = _body(workload, target.model)
    return LoadPlan(
        workload=workload.name,
        endpoint="chat",
        target=target,
        requests=tuple(PlannedRequest(prompt_id=f"f{at:05d}", body=body) for at in range(count)),
        arrival=arrival,
        pinned_output_tokens=OUTPUT_TOKENS,
        request_timeout_s=30.0,
    )


def _body(workload: WorkloadSpec, model: str) -> bytes:
    data = {
        "model": model,
        "messages": [{"role": "user", "content": "ab " * (_prompt_bytes(workload) // 3)}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": OUTPUT_TOKENS,
        "ignore_eos": True,
    }
    return json.dumps(data).encode()


def _prompt_bytes(workload: WorkloadSpec) -> int:
    prompt = workload.prompt
    return max(64, BYTES_A_TOKEN * (prompt.shared_tokens + prompt.unique_tokens) or len(prompt.text))
