# SPDX-License-Identifier: Apache-2.0
"""What moved is told from means that add up."""

from dataclasses import replace

from tests.unit.history.builders import record, series
from vllm_perf.history.attribution import attribute
from vllm_perf.history.record import RunRecord, SeriesKey

TTFT = SeriesKey("initial", "chat", "ttft_p50")


def run(ttft_ms: float | None = 200.0, **stages: float) -> RunRecord:
    whole = [series(metric="ttft_mean", value=ttft_ms)] if ttft_ms is not None else []
    made = record(series(), series(metric="tpot_p50", value=20.0), *whole)
    return replace(made, cells=(replace(made.cells[0], stages_ms=stages),))


def test_the_stage_that_grew_is_named_with_its_numbers() -> None:
    found = attribute(
        TTFT,
        run(200.0, queue=10.0, prefill=180.0, decode=600.0),
        run(230.0, queue=11.0, prefill=208.0, decode=650.0),
    )
    # client: 200 - 190 = 10, 230 - 219 = 11
    assert found.moved == ("prefill",)
    assert found.sentence() == (
        "prefill 180 → 208 ms (+28); not: queue 10 → 11 ms (+1), outside the engine 10 → 11 ms (+1)"
    )


def test_a_slower_client_is_named() -> None:
    found = attribute(TTFT, run(200.0, queue=10.0, prefill=180.0), run(240.0, queue=10.0, prefill=180.0))
    assert found.moved == ("outside the engine",)


def test_two_stages_that_share_the_change_are_both_named() -> None:
    found = attribute(TTFT, run(200.0, queue=10.0, prefill=180.0), run(240.0, queue=30.0, prefill=200.0))
    assert set(found.moved) == {"queue", "prefill"}


def test_a_stage_that_went_the_other_way_did_not_make_the_change() -> None:
    found = attribute(TTFT, run(200.0, queue=50.0, prefill=140.0), run(230.0, queue=10.0, prefill=210.0))
    assert found.moved == ("prefill",)


def test_time_between_tokens_is_decode() -> None:
    key = SeriesKey("initial", "chat", "tpot_p50")
    found = attribute(
        key, run(queue=1.0, prefill=1.0, decode=600.0), run(queue=9.0, prefill=1.0, decode=700.0)
    )
    assert found.sentence() == "decode 600 → 700 ms (+100)"


def test_nothing_moved_is_said_so() -> None:
    same = run(200.0, queue=10.0, prefill=180.0)
    assert attribute(TTFT, same, same).sentence().startswith("nothing in particular; not: ")


def test_without_the_servers_times_it_is_not_known_on_which_side() -> None:
    with_times = run(200.0, queue=10.0, prefill=180.0)
    assert attribute(TTFT, run(), with_times).sentence() == (
        "not known: the baseline has no stage times (the server's /metrics were not read)"
    )
    assert attribute(TTFT, with_times, run(decode=1.0)).sentence() == (
        "not known: this run has no queue or prefill time"
    )


def test_a_whole_request_is_all_stages() -> None:
    key = SeriesKey("initial", "chat", "e2el_p50")
    base, head = (
        run(200.0, queue=10.0, prefill=180.0, decode=600.0),
        run(200.0, queue=10.0, prefill=180.0, decode=700.0),
    )
    base = replace(base, series=(*base.series, series(metric="e2el_p50")))
    assert attribute(key, base, head).moved == ("decode",)


def test_stages_known_on_one_side_only_are_left_out() -> None:
    found = attribute(TTFT, run(None, queue=10.0, prefill=180.0), run(200.0, queue=10.0, prefill=190.0))
    assert [stage.name for stage in found.stages] == ["prefill", "queue"]
