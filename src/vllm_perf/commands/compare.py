# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf compare BASE HEAD``: two stored runs, series by series."""

import argparse
import json
import math
import sys
from pathlib import Path

from vllm_perf.commands.history_options import add_store_options, policy_of, store_of
from vllm_perf.history.baseline import find_baselines
from vllm_perf.history.compare import Rules, RunComparison, compare_run
from vllm_perf.history.floors import read_floors
from vllm_perf.history.git import Suite
from vllm_perf.history.record import RunRecord
from vllm_perf.history.reference import load_named, search_for
from vllm_perf.history.store import Store, StoreError
from vllm_perf.report.build import build_report
from vllm_perf.report.html import html
from vllm_perf.report.jsonable import comparison_json
from vllm_perf.report.markdown import markdown
from vllm_perf.report.terminal import print_report
from vllm_perf.spec.comparison import RUN_ALLOWED
from vllm_perf.spec.history import HistorySpec
from vllm_perf.verdict.policy import Policy
from vllm_perf.verdict.types import Change

SAME, REGRESSED, NO_VERDICT, USAGE = 0, 1, 10, 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    names = "a run's id (or its beginning), a file, an anchor, or a commit (its last good run)"
    parser.add_argument("base", help=names)
    parser.add_argument("head", help=names)
    add_store_options(parser)
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    shape.add_argument("--markdown", action="store_true", help="print Markdown for a job summary")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page")
    parser.add_argument(
        "--allowed",
        type=float,
        default=RUN_ALLOWED,
        metavar="SHARE",
        help="change nobody minds (%(default)s)",
    )
    parser.add_argument("--all", action="store_true", help="also show the metrics that cannot turn red")
    parser.epilog = "exit code: 0 same or improved, 1 regressed, 10 no verdict, 2 usage"


def run(args: argparse.Namespace) -> int:
    """Compare and print; the exit code is the verdict."""
    if not 0 <= args.allowed < math.inf:
        print(f"vllm-perf compare: --allowed: {args.allowed:g} is no share (0.05 is 5 %)", file=sys.stderr)
        return USAGE
    store, policy = store_of(args), policy_of(args)
    try:
        head = load_named(store, args.head, Path.cwd())
        comparison = compare_named(store, args.base, head, policy, args.allowed)
    except StoreError as error:
        print(f"vllm-perf compare: {error}", file=sys.stderr)
        return USAGE
    report = build_report(head, comparison)
    if args.html is not None:
        args.html.write_text(html(report), encoding="utf-8")
    if args.json:
        print(json.dumps(comparison_json(comparison, head), indent=2, allow_nan=False))
    elif args.markdown:
        print(markdown(report), end="")
    else:
        print_report(report, sys.stdout, others=args.all)
    return exit_code(comparison)


def compare_named(
    store: Store, base: str, head: RunRecord, policy: HistorySpec, allowed: float = RUN_ALLOWED
) -> RunComparison:
    """Compare ``head`` with the run (or commit) that ``base`` names; ``allowed`` is the share nobody minds.

    Raises:
        StoreError: ``base`` names nothing, or cannot be read.
    """
    where = search_for(store, base, directory=Path.cwd(), suite=Suite(), mainline=policy.mainline)
    if len(where.runs) and all(run.run_id == head.run_id for run, _ in where.lineage.ordered(where.runs)):
        raise StoreError(f"'{base}' is the same run as the head, {head.run_id}")
    baselines = find_baselines(where.runs, head, lineage=where.lineage, policy=policy)
    rules = Rules(policy=Policy(allowed=allowed), floors=read_floors(store.directory), history=policy)
    return compare_run(head, baselines, lambda entry: where.load(store, entry), rules, where.warnings)


def exit_code(comparison: RunComparison) -> int:
    """Return the verdict as an exit code; nothing compared is no verdict, never a pass."""
    if comparison.change is Change.REGRESSED:
        return REGRESSED
    return SAME if comparison.change in (Change.SAME, Change.IMPROVED) else NO_VERDICT
