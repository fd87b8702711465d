# SPDX-License-Identifier: Apache-2.0
"""Every metric over whole runs, and its interval."""

import math

import pytest

from tests.unit.metrics.making import WORKLOAD, failed, request, run_of, with_ttft
from vllm_perf.metrics.catalogue import measure_all
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.metrics.table import BY_NAME, METRICS, find
from vllm_perf.spec.workload import SloSpec


def test_no_two_metrics_share_a_name() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_few_metrics_gate_and_none_is_a_p99() -> None:
    gating = {metric.name for metric in METRICS if metric.gating}
    assert gating == {"ttft_p50", "ttft_p95", "tpot_p50", "output_throughput"}


def test_an_unknown_metric_is_refused_with_the_known_names() -> None:
    with pytest.raises(MetricUnavailable, match="ttft_p50"):
        find("ttft")


def test_percentiles_pool_the_requests_of_all_repetitions() -> None:
    runs = [run_of(with_ttft(100), with_ttft(200)), run_of(with_ttft(300))]
    assert measure_all(runs, WORKLOAD)["ttft_p50"].value == 200.0


def test_interval_comes_from_repetitions_where_there_are_two() -> None:
    # ln 100 and ln 121 differ by 2 ln 1.1: s = sqrt(2) ln 1.1, t(0.975, 1) = 12.706, so +/- 12.706 ln 1.1.
    measured = measure_all([run_of(with_ttft(100)), run_of(with_ttft(121))], WORKLOAD)["ttft_p50"]
    assert measured.value == 110.5
    assert measured.high is not None
    assert math.log(measured.high / 110.5) == pytest.approx(12.706 * math.log(1.1), rel=1e-4)


def test_interval_of_a_single_repetition_is_from_order_statistics() -> None:
    measured = measure_all([run_of(*[with_ttft(10 * n) for n in range(1, 11)])], WORKLOAD)["ttft_p50"]
    assert (measured.value, measured.low, measured.high) == (55.0, 20.0, 90.0)


def test_failed_requests_push_percentiles_to_infinity() -> None:
    measured = measure_all([run_of(with_ttft(100), failed(), failed())], WORKLOAD)["ttft_p50"]
    assert measured.value == math.inf
    assert (measured.sent, measured.ok, measured.failed) == (3, 1, 2)


def test_a_repetition_in_which_everything_failed_does_not_hide_the_others() -> None:
    measured = measure_all([run_of(*[with_ttft(100)] * 3), run_of(failed())], WORKLOAD)["ttft_p50"]
    assert (measured.value, measured.failed) == (100.0, 1)


def test_mean_is_over_requests_that_succeeded() -> None:
    run = run_of(with_ttft(100), with_ttft(200), failed())
    assert measure_all([run], WORKLOAD)["ttft_mean"].value == 150.0


def test_when_everything_failed_nothing_has_a_value() -> None:
    # Case H60: a run without a token is not a run of 0 ms.
    measured = measure_all([run_of(failed(), failed())], WORKLOAD)
    with_value = {name for name, one in measured.items() if one.value is not None}
    assert with_value == {"peak_in_flight"}


@pytest.mark.parametrize("runs", [[], [run_of()]])
def test_when_nothing_was_sent_no_metric_has_a_value(runs: list[object]) -> None:
    measured = measure_all(runs, WORKLOAD)  # type: ignore[arg-type]
    assert [name for name, one in measured.items() if one.value is not None and one.value != 0] == []
    assert measured["ttft_p50"].unavailable
    assert measured["output_throughput"].unavailable


def test_throughput_is_averaged_over_repetitions() -> None:
    runs = [run_of(request(), seconds=1), run_of(request(), seconds=3)]
    assert measure_all(runs, WORKLOAD)["output_throughput"].value == 2.0


def test_throughput_of_estimated_tokens_is_unavailable_and_says_why() -> None:
    measured = measure_all([run_of(request(token_source="estimated"))], WORKLOAD)
    assert measured["output_throughput"].value is None
    assert "estimated" in str(measured["output_throughput"].unavailable)
    assert measured["tpot_p50"].estimated
    assert not measured["ttft_p50"].estimated


def test_single_repetition_has_an_interval_for_its_throughput() -> None:
    steady = [request(str(n), sent_ms=10 * n, chunks_ms=(10 * n + 5, 10 * n + 10)) for n in range(100)]
    measured = measure_all([run_of(*steady)], WORKLOAD)["output_throughput"]
    assert measured.value == 200.0
    assert measured.low == pytest.approx(200.0, rel=0.01)


def test_itl_samples_are_one_a_request() -> None:
    run = run_of(request(chunks_ms=(100, 110, 120)), request(chunks_ms=(100, 130, 170)))
    measured = measure_all([run], WORKLOAD)["itl_p50"]
    assert (measured.value, measured.samples) == (20.0, (10.0, 35.0))


def test_tpot_over_requests_of_one_token_is_unavailable() -> None:
    measured = measure_all([run_of(request(chunks_ms=(100,)))], WORKLOAD)["tpot_p50"]
    assert measured.value is None
    with pytest.raises(MetricUnavailable, match="tpot_p50"):
        measured.require()


def test_attainment_carries_the_interval_of_a_share() -> None:
    workload = WORKLOAD.model_copy(update={"slo": SloSpec(ttft_ms=150)})
    measured = measure_all([run_of(*[with_ttft(100)] * 9, with_ttft(200))], workload)["slo_attainment"]
    # Wilson, 9 of 10: (0.596, 0.982).
    assert measured.value == 0.9
    assert measured.low == pytest.approx(0.596, abs=1e-3)
    assert measured.high == pytest.approx(0.982, abs=1e-3)


def test_preemptions_add_up_over_repetitions() -> None:
    def run(before: float, after: float) -> object:
        name = "vllm:num_preemptions_total"
        return run_of(request(), counters_before={name: before}, counters_after={name: after})

    measured = measure_all([run(1, 3), run(3, 6)], WORKLOAD)  # type: ignore[list-item]
    assert measured["preemptions"].value == 5


def test_no_value_is_ever_minus_one_or_a_made_up_zero() -> None:
    measured = measure_all([run_of(request(token_source="estimated", prompt_tokens=None))], WORKLOAD)
    assert not [name for name, one in measured.items() if one.value is not None and one.value <= 0]
    assert all(one.unavailable for one in measured.values() if one.value is None)
