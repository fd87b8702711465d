# SPDX-License-Identifier: Apache-2.0
"""The bar shows the interval against what is allowed, worse always to the right."""

from typing import Any

import pytest

from tests.unit.report.samples import comparison
from vllm_perf.report.bar import bar
from vllm_perf.report.model import ComparisonRow, Distribution
from vllm_perf.report.svg import distribution_svg, interval_svg

# allowed 5 %: the picture is 2 ln(1.05) = 0.0976 wide on each side, 10 characters: 0.00976 a character


@pytest.mark.parametrize(
    ("direction", "ratio", "low", "high", "picture"),
    [
        # ln 1.01, 1.02 and 1.03 are 0.00995, 0.0198 and 0.0296: characters 1, 2 and 3
        ("lower", 1.02, 1.01, 1.03, "·····┊····│━●━·┊·····"),
        ("higher", 1.02, 1.01, 1.03, "·····┊·━●━│····┊·····"),
        # over the limit: the estimate, then the upper end alone
        ("lower", 1.06, 1.04, 1.08, "·····┊····│···━╋●━━··"),
        ("lower", 1.04, 1.02, 1.07, "·····┊····│·━━●╋━━···"),
        # far out: an arrow at the edge
        ("lower", 1.50, 1.40, 1.60, "·····┊····│····┊····▸"),
        ("higher", 1.50, 1.40, 1.60, "◂····┊····│····┊·····"),
        ("lower", 1.0, None, None, "·····┊····│····┊·····"),
    ],
)
def test_the_picture_is_what_was_computed(
    direction: str, ratio: float, low: Any, high: Any, picture: str
) -> None:
    assert bar(comparison(ratio=ratio, low=low, high=high), direction) == picture


def test_nothing_allowed_still_has_a_scale() -> None:
    assert len(bar(comparison(allowed=0.0), "lower")) == 21


def row(**more: Any) -> ComparisonRow:
    return ComparisonRow(engine="e", workload="w", comparison=comparison(**more), direction="lower")


def test_an_interval_without_ends_has_no_picture() -> None:
    assert interval_svg(row(low=None)) == ""


def test_the_dot_lies_right_of_the_axis_where_it_is_worse() -> None:
    drawn = interval_svg(row(ratio=1.04))
    assert float(drawn.split('cx="')[1].split('"')[0]) > 110.0


def test_a_distribution_ends_at_all_requests() -> None:
    one = Distribution(name="n", unit="ms", base=(1.0, 2.0), head=(1.0, 3.0))
    drawn = distribution_svg(one)
    last = drawn.split('class="head" points="')[1].split('"')[0].split()[-1]
    assert last == "412.0,8.0"  # the slowest of all, at 100 %


def test_ten_thousand_requests_do_not_make_a_page_of_megabytes() -> None:
    values = tuple(float(n) for n in range(10_000))
    assert len(distribution_svg(Distribution(name="n", unit="ms", base=values, head=values))) < 20_000


def test_a_single_value_is_drawn() -> None:
    assert "nan" not in distribution_svg(Distribution(name="n", unit="ms", base=(5.0,), head=(5.0,)))
