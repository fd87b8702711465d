# SPDX-License-Identifier: Apache-2.0
"""Requests that met every limit."""

import pytest

from tests.unit.metrics.making import failed, request, run_of, with_ttft
from vllm_perf.metrics.goodput import goodput, met_every_limit, slo_attainment
from vllm_perf.metrics.measurement import MetricUnavailable
from vllm_perf.spec.workload import SloSpec

SLO = SloSpec(ttft_ms=150, tpot_ms=20, e2el_ms=400)


def test_goodput_is_good_requests_over_the_duration() -> None:
    assert goodput(run_of(with_ttft(100), with_ttft(150), with_ttft(151), seconds=4), SLO) == 0.5


def test_attainment_is_a_share_of_the_requests_sent() -> None:
    assert slo_attainment(run_of(with_ttft(100), with_ttft(200), failed(), failed()), SLO) == 0.25


@pytest.mark.parametrize("chunks", [(151, 160), (100, 121), (100, 110, 120, 410)])
def test_one_missed_limit_is_enough(chunks: tuple[float, ...]) -> None:
    assert not met_every_limit(request(chunks_ms=chunks), SLO)


def test_a_failed_request_is_never_good() -> None:
    assert not met_every_limit(failed(), SloSpec(tpot_ms=20))


def test_an_answer_of_one_token_cannot_miss_tpot() -> None:
    assert met_every_limit(request(chunks_ms=(100,)), SLO)


def test_without_limits_there_is_no_goodput() -> None:
    with pytest.raises(MetricUnavailable, match="no limit"):
        goodput(run_of(request()), SloSpec())


def test_without_requests_there_is_no_attainment() -> None:
    with pytest.raises(MetricUnavailable, match="nothing was sent"):
        slo_attainment(run_of(), SLO)
