# SPDX-License-Identifier: Apache-2.0
"""A report as one page without any outside asset: it can be mailed, archived and opened offline."""

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from vllm_perf.report import words
from vllm_perf.report.model import Report
from vllm_perf.report.svg import distribution_svg, interval_svg

TEMPLATE = "report.html.j2"


def html(report: Report) -> str:
    """Return the report as an HTML page; every text in it is escaped."""
    environment = Environment(
        loader=PackageLoader("vllm_perf.report", "templates"),
        autoescape=select_autoescape(("html", "j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template(TEMPLATE)
    return template.render(
        report=report,
        words=words,
        # Both are built from numbers and from words of ours alone.
        interval=lambda row: Markup(interval_svg(row)),
        distribution=lambda one: Markup(distribution_svg(one)),
    )
