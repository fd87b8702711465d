# SPDX-License-Identifier: Apache-2.0
"""Whether a run may be judged at all: every line of docs/metrics.md "When a run is valid"."""

from collections.abc import Callable, Iterator, Sequence

from vllm_perf.load.sample import Run
from vllm_perf.metrics import validity_client, validity_server
from vllm_perf.metrics.percentiles import needed_requests, percentile_of_name
from vllm_perf.metrics.reasons import InvalidCode, InvalidReason, RunFacts
from vllm_perf.spec.workload import WorkloadSpec

Check = Callable[[Run, WorkloadSpec, RunFacts], Iterator[InvalidReason]]

CHECKS: tuple[Check, ...] = (
    validity_client.failed_share,
    validity_client.prompt_lengths,
    validity_client.output_lengths,
    validity_client.generator_late,
    validity_client.rate_reached,
    validity_client.concurrency_reached,
    validity_client.client_starved,
    validity_client.client_floor,
    validity_client.stream_buffered,
    validity_server.times_agree,
    validity_server.hit_rate_in_band,
    validity_server.counters_agree,
    validity_server.caches_fresh,
    validity_server.engine_as_asked,
    validity_server.gpu_clean,
)


def check_validity(
    run: Run, workload: WorkloadSpec, facts: RunFacts | None = None
) -> tuple[InvalidReason, ...]:
    """Return every reason why one repetition gives no verdict; none means it may be judged."""
    known = facts or RunFacts()
    if not run.sent:
        return (_nothing_sent(run.workload),)
    return tuple(reason for check in CHECKS for reason in check(run, workload, known))


def check_runs(
    runs: Sequence[Run], workload: WorkloadSpec, facts: RunFacts | None = None
) -> tuple[InvalidReason, ...]:
    """Return every reason why the repetitions ``runs`` together give no verdict, each once."""
    known = facts or RunFacts()
    if not runs:
        return (_nothing_sent(workload.name),)
    found = [reason for run in runs for reason in check_validity(run, workload, known)]
    if any(run.sent for run in runs):
        found.extend(too_few_samples(sum(run.sent for run in runs), known.asserted))
    return tuple(dict.fromkeys(found))


def too_few_samples(sent: int, asserted: Sequence[str]) -> Iterator[InvalidReason]:
    """Say for which of the metrics ``asserted`` there are too few requests to believe a pass."""
    for metric in asserted:
        quantile = percentile_of_name(metric)
        needed = needed_requests(quantile) if quantile is not None else 0
        if sent < needed:
            yield InvalidReason(
                code=InvalidCode.TOO_FEW_SAMPLES,
                sentence=f"{metric} needs {needed} requests to be asserted, {sent} were sent",
                remedy=f"send at least {needed} (more requests or repetitions), or assert a lower percentile",
            )


def _nothing_sent(workload: str) -> InvalidReason:
    return InvalidReason(
        code=InvalidCode.NOTHING_SENT,
        sentence=f"workload {workload} sent no request",
        remedy="check that the server was reachable and that the workload's requests are not 0",
    )
