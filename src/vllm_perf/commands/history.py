# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf history``: list, show, follow, anchor, learn from and prune stored runs."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from vllm_perf.commands.history_options import add_store_options, policy_of, store_of
from vllm_perf.history.anchors import drop_anchor, read_anchors, set_anchor
from vllm_perf.history.entry import RunEntry
from vllm_perf.history.floors import read_floors
from vllm_perf.history.git import Git
from vllm_perf.history.learning import learn_from_runs
from vllm_perf.history.lineage import GUESSES
from vllm_perf.history.prune import plan_pruning
from vllm_perf.history.record import SeriesKey
from vllm_perf.history.reference import is_named, load_named
from vllm_perf.history.store import Contents, Store, StoreError
from vllm_perf.history.trend import trends
from vllm_perf.metrics.table import GATING
from vllm_perf.report.build import build_report
from vllm_perf.report.history_text import run_json, run_lines, trend_json, trend_lines
from vllm_perf.report.terminal import print_report

USAGE = 2


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands and their arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, (_, text) in ACTIONS.items():
        action = actions.add_parser(name, help=text, description=text)
        add_store_options(action)
        ARGUMENTS[name](action)


def run(args: argparse.Namespace) -> int:
    """Run one action; a store that cannot be used is a usage error."""
    try:
        return ACTIONS[args.action][0](args)
    except StoreError as error:
        print(f"vllm-perf history {args.action}: {error}", file=sys.stderr)
        return USAGE


def _contents(store: Store) -> Contents:
    """Return what is stored, having said what was skipped."""
    contents = store.contents()
    for warning in contents.warnings:
        print(f"vllm-perf history: {warning}", file=sys.stderr)
    return contents


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--last", type=_positive, default=20, metavar="N", help="only the last N (default 20)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def _list(args: argparse.Namespace) -> int:
    store = store_of(args)
    runs, anchors = _contents(store).runs, read_anchors(store.directory)
    if args.json:
        print(json.dumps([run_json(run, anchors) for run in runs[-args.last :]], indent=2, allow_nan=False))
        return 0
    if not runs:
        print(f"{store.directory}: nothing stored yet; the next run of pytest tests/perf makes the baseline")
        return 0
    print("\n".join(run_lines(runs[-args.last :], anchors)))
    if len(runs) > args.last:
        print(f"and {len(runs) - args.last} older (--last {len(runs)})")
    return 0


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", help="a run's id (or its beginning), a file, an anchor, or a commit")


def _show(args: argparse.Namespace) -> int:
    record = load_named(store_of(args), args.run, Path.cwd())
    report = build_report(record)
    for label, text in report.facts:
        print(f"{label:<9} {text}")
    print()
    print_report(report, sys.stdout)
    return 0


def _trend_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", metavar="NAME", help="only this engine")
    parser.add_argument("--workload", metavar="NAME", help="only this workload")
    parser.add_argument("--metric", metavar="NAME", help="only this metric (default: the gating ones)")
    parser.add_argument("--last", type=_positive, default=300, metavar="N", help="only the last N runs")
    parser.add_argument("--json", action="store_true", help="print one JSON list")


def _trend(args: argparse.Namespace) -> int:
    store = store_of(args)
    runs = _contents(store).runs[-args.last :]
    keys = {key for run in runs for key in run.names.keys if _asked(key, args)}
    if not keys:
        known = sorted({key.metric for run in runs for key in run.names.keys})
        raise StoreError(f"no stored series is asked for; metrics stored: {', '.join(known) or 'none'}")
    found = trends(runs, policy_of(args), keys, anchors=read_anchors(store.directory))
    if args.json:
        print(json.dumps([trend_json(one) for one in found], indent=2, allow_nan=False))
    else:
        print("\n".join(line for one in found for line in trend_lines(one)))
    return 0


def _asked(key: SeriesKey, args: argparse.Namespace) -> bool:
    metric = key.metric == args.metric if args.metric else key.metric in GATING
    return metric and args.engine in (None, key.engine) and args.workload in (None, key.workload)


def _prune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--keep", type=_positive, metavar="N", help="good runs kept of every series")
    parser.add_argument("--yes", action="store_true", help="delete; without it, only say what would go")


def _prune(args: argparse.Namespace) -> int:
    store, policy = store_of(args), policy_of(args)
    if args.keep:
        policy = policy.model_copy(update={"keep_good": args.keep})
    anchored = read_anchors(store.directory).values()
    mainline = _mainline(policy.mainline)
    plan = plan_pruning(_contents(store).runs, policy, anchored=set(anchored), mainline=mainline)
    for line in run_lines(plan.drop, {})[1:] if plan.drop else ():
        print(f"{'deleted' if args.yes else 'would delete'}  {line}")
    failures = store.remove(run.file for run in plan.drop) if args.yes else []
    for failure in failures:
        print(f"vllm-perf history prune: {failure}", file=sys.stderr)
    gone = "gone" if args.yes else "would go (--yes deletes them)"
    print(f"{len(plan.keep)} runs stay, {len(plan.drop)} {gone}")
    return 1 if failures else 0


def _mainline(ref: str) -> frozenset[str]:
    git = Git(Path.cwd())
    commits = (git.resolve(name) for name in ([ref] if ref else GUESSES))
    commit = next((found for found in commits if found is not None), None)
    return frozenset(git.ancestors(commit)) if commit else frozenset()


def _anchor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the anchor; without it, all are listed")
    parser.add_argument("run", nargs="?", help="the run it shall point at (its id or the beginning of it)")
    parser.add_argument("--drop", action="store_true", help="forget the anchor; the run stays")


def _anchor(args: argparse.Namespace) -> int:
    store = store_of(args)
    if args.drop and args.name:
        drop_anchor(store.directory, args.name)
    elif args.name and args.run:
        set_anchor(store.directory, args.name, _one(_contents(store).runs, args.run).file)
    elif args.name or args.drop:
        raise StoreError("an anchor needs a name and a run, or a name and --drop")
    for name, file in sorted(read_anchors(store.directory).items()):
        print(f"{name:<16} {file}")
    return 0


def _one(runs: tuple[RunEntry, ...], name: str) -> RunEntry:
    named = [run for run in runs if is_named(run, name)]
    if len(named) != 1:
        raise StoreError(f"'{name}' names {len(named) or 'no'} stored run{'s' if len(named) != 1 else ''}")
    return named[0]


def _learn_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--show", action="store_true", help="only show the floors learnt so far")


def _learn(args: argparse.Namespace) -> int:
    store = store_of(args)
    if not args.show:
        counted = learn_from_runs(
            store.directory, _contents(store).runs, lambda entry: store.load(entry.file), policy_of(args)
        )
        for (engine, workload), pairs in sorted(counted.items()):
            print(f"learnt from {pairs} A/A pairs of {engine} under {workload}")
        if not counted:
            print("nothing to learn from: no two clean runs of one commit, machine and configuration")
    for (hardware, workload, metric), floor in sorted(read_floors(store.directory).floors.items()):
        if metric in GATING:
            print(f"{hardware}  {workload:<16} {metric:<24} {floor.share(1) * 100:5.1f} % over one pair")
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return int(text)


ACTIONS: dict[str, tuple[Callable[[argparse.Namespace], int], str]] = {
    "list": (_list, "list stored runs, the latest last"),
    "show": (_show, "show one run: where it was measured, and its ladder"),
    "trend": (_trend, "follow series over all runs, with change points and the drift from an anchor"),
    "anchor": (_anchor, "name a run that stays and that baselines may be measured from"),
    "learn": (_learn, "learn the noise floor from runs of one and the same thing"),
    "prune": (_prune, "delete runs that nothing would be compared with any more"),
}
ARGUMENTS: dict[str, Callable[[argparse.ArgumentParser], None]] = {
    "list": _list_arguments,
    "show": _show_arguments,
    "trend": _trend_arguments,
    "anchor": _anchor_arguments,
    "learn": _learn_arguments,
    "prune": _prune_arguments,
}
