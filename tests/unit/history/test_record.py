# SPDX-License-Identifier: Apache-2.0
"""A record is what was measured, and comes back from its document exactly."""

import json
import math
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.unit.history.builders import record, series
from vllm_perf.history.document import BLOCK, RecordError, from_document, from_json, to_document, to_json
from vllm_perf.history.packing import PackError, number_to_json, pack_floats, unpack_floats, unpack_names
from vllm_perf.history.record import RunRecord, Series, SeriesStatus


def full_record() -> RunRecord:
    requests = (0.1 + 0.2, 1e-17, 250.123456789)
    return record(
        series(
            value=0.30000000000000004, samples=(requests,), low=0.1, high=math.inf, replicates=(0.3, None)
        ),
        series(metric="ttft_p95", value=math.inf, samples=(requests,), failed=1),
        series(metric="tok_s", value=None, status=SeriesStatus.FAILED, unit="tok/s", direction="higher"),
        commit="c" * 40,
        dirty=True,
        warnings=("the clock was odd",),
    )


def test_a_record_comes_back_from_its_document_exactly() -> None:
    original = full_record()
    assert from_json(to_json(original)) == original


def test_the_keys_of_an_environment_survive_the_document() -> None:
    original = full_record()
    assert from_json(to_json(original)).cells[0].environment.key == original.cells[0].environment.key


def test_the_document_is_strict_json() -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(to_json(full_record()), parse_constant=refuse)


def test_samples_shared_by_two_metrics_are_stored_once() -> None:
    packs = to_document(full_record())[BLOCK]["packs"]
    assert len(packs) == 2  # the requests' values, and the prompts' names


@pytest.mark.parametrize("field", ["value", "low", "replicates", "samples"])
def test_nan_is_refused_where_it_would_be_recorded(field: str) -> None:
    bad: dict[str, Any] = {"replicates": (math.nan,), "samples": ((math.nan,),)}
    with pytest.raises(ValueError, match="NaN is not a measurement"):
        series(**{field: bad.get(field, math.nan)})


def test_no_value_cannot_be_recorded_as_good() -> None:
    with pytest.raises(ValueError, match="without a value"):
        series(value=None)


def test_the_same_series_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        record(series(), series())


def test_a_failed_request_leaves_a_percentile_that_is_no_baseline() -> None:
    assert not series(value=math.inf).good


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop(BLOCK), "not a record of vllm-perf"),
        (lambda d: d[BLOCK].update(schema_version=99), "newer vllm-perf"),
        (lambda d: d[BLOCK].update(schema_version="1"), "no schema_version"),
        (lambda d: d[BLOCK]["series"][0].pop("metric"), r"damaged at series\.0\.metric"),
        (lambda d: d[BLOCK]["packs"].clear(), "missing from the document"),
        (lambda d: d[BLOCK]["packs"].update(dict.fromkeys(d[BLOCK]["packs"], "AAAA")), "damaged"),
        (lambda d: d[BLOCK]["series"][0].update(status="fine"), r"damaged at series\.0\.status"),
    ],
)
def test_a_damaged_document_is_refused_by_name(change: Any, says: str) -> None:
    document = to_document(full_record())
    change(document)
    with pytest.raises(RecordError, match=says):
        from_document(document)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(RecordError, match="not JSON"):
        from_json('{"benchmarks": [')


def test_a_list_is_no_record() -> None:
    with pytest.raises(RecordError, match="not a record"):
        from_json("[]")


def test_a_series_travels_alone_between_two_processes() -> None:
    adapter = TypeAdapter(Series)
    one = full_record().series[0]
    assert adapter.validate_json(adapter.dump_json(one)) == one


@pytest.mark.parametrize("pack", ["!", "AAAA", "eJw="])
def test_a_damaged_pack_is_an_error(pack: str) -> None:
    with pytest.raises(PackError, match="damaged"):
        unpack_floats(pack)
    with pytest.raises(PackError, match="damaged"):
        unpack_names(pack)


@pytest.mark.parametrize("numbers", [(), (0.1 + 0.2, -0.0, 5e-324, 1e308, math.inf, -math.inf)])
def test_packed_numbers_come_back_bit_by_bit(numbers: tuple[float, ...]) -> None:
    back = unpack_floats(pack_floats(numbers))
    assert [value.hex() for value in back] == [value.hex() for value in numbers]


def test_nan_cannot_be_packed() -> None:
    with pytest.raises(PackError, match="NaN"):
        pack_floats((math.nan,))
    with pytest.raises(PackError, match="NaN"):
        number_to_json(math.nan)


def test_a_series_without_its_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="belongs to no cell"):
        RunRecord(run_id="r", created="2026-08-30", series=(series(),))


def test_packs_that_are_no_table_are_refused() -> None:
    document = to_document(full_record())
    document[BLOCK]["packs"] = []
    with pytest.raises(RecordError, match="packs: not a table"):
        from_document(document)


def test_a_record_of_nothing_is_a_document() -> None:
    nothing = RunRecord(run_id="r", created="2026-08-30")
    assert from_json(to_json(nothing)) == nothing
