# SPDX-License-Identifier: Apache-2.0
"""The part of ``vllm-perf bench`` that compares channels: its options, and one run of a comparison."""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vllm_perf.channel import budget, show
from vllm_perf.channel.compare import Comparison, Entrant, Settings, compare
from vllm_perf.channel.document import store, text_of
from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.load import common_load
from vllm_perf.channel.manners import manners_of
from vllm_perf.channel.target import first_model, target_of
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.channel import find_channel
from vllm_perf.spec.client import DEFAULT_CLIENT
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec

CHANNELS_FILE = Path("fixtures/channels.toml")
STORE = Path(".vllm-perf/channels")
NO_VERDICT = 10
INTERRUPTED = 130
IN_FILE = "where a channel is, and its key's variable, stand in the channels file"
NOT_HERE = {
    "base_url": IN_FILE,
    "model": IN_FILE,
    "api_key_env": IN_FILE,
    "ca_file": IN_FILE,
    "proxy": IN_FILE,
    "samples": "the document (--json) holds every block's figures",
    "floor": "all channels have the same client",
    "repetitions": "--pairs says how many blocks each channel gets",
    "duration_s": "blocks are compared request by request: say --requests",
    "processes": "the load of a comparison runs in one process",
    "client": "channels are compared with the socket client",
}

WITHOUT_EFFECT = {"processes": 1, "client": DEFAULT_CLIENT}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only a comparison of channels has."""
    group = parser.add_argument_group("channels: compare servers of the channels file under one load")
    group.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="NAME",
        help="a channel of the file; give it several times: the first is what the others are compared with",
    )
    group.add_argument("--channels-file", type=Path, default=CHANNELS_FILE, metavar="FILE")
    group.add_argument("--pairs", type=int, default=6, help="rounds of one block a channel (default 6)")
    group.add_argument(
        "--spend-cap",
        type=float,
        metavar="AMOUNT",
        help="the most each channel may cost, in its own currency",
    )
    group.add_argument(
        "--most-per-min", type=float, metavar="N", help="most requests a minute, on every channel"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="print what would be sent and cost, and send nothing"
    )
    group.add_argument(
        "--most-wait-s", type=float, default=120.0, metavar="S", help="longest Retry-After that is waited for"
    )
    group.add_argument("--question-timeout-s", type=float, default=30.0, metavar="S")
    group.add_argument("--store", type=Path, default=STORE, metavar="DIR", help="where the result is kept")


def run_channels(
    args: argparse.Namespace, workload: WorkloadSpec, env: Mapping[str, str] = os.environ
) -> int:
    """Compare the channels asked for: 0 compared, 1 one failed, 10 nothing to compare, 130 interrupted.

    Raises:
        SpecError: an entry, an option or a price is missing or wrong; nothing was sent then.
    """
    _refuse_what_does_not_apply(args)
    settings = _settings(args)
    if args.seed is None:
        # Nobody can reset a channel's cache: text that an earlier run sent would be found in it.
        workload = workload.model_copy(update={"seed": int(time.time())})
    entrants = [_entrant(name, args, env, settings) for name in dict.fromkeys(args.channel)]
    pairs = [(one.spec, one.manners) for one in entrants]
    workload, notes = common_load(workload, pairs, args.most_per_min)
    forecasts = [budget.forecast(one, workload, settings) for one in entrants]
    if args.dry_run:
        print("\n".join([*(line for one in forecasts for line in budget.lines(one)), *notes]))
        return 0
    budget.refuse_beyond_caps(forecasts)
    try:
        entrants = [replace(one, target=_with_model(one)) for one in entrants]
        done = compare(entrants, workload, settings)
    except ChannelUnusable as error:
        done = Comparison(workload=workload, pairs_asked=settings.pairs, failure=error)
    done.notes[:0] = notes
    return _report(done, args)


def _refuse_what_does_not_apply(args: argparse.Namespace) -> None:
    """Refuse options of a bench on one server, which would otherwise be ignored without a word."""
    for name in NOT_HERE:
        value = getattr(args, name)
        if value is not None and value is not False and value != WITHOUT_EFFECT.get(name):
            option = f"--{name.replace('_', '-')}"
            raise SpecError(f"{option} does not go with --channel: {NOT_HERE[name]}")


def _report(done: Comparison, args: argparse.Namespace) -> int:
    document = text_of(done)
    print(document if args.json else show.text(done))
    path = store(document, args.store, done.started_s)
    print(f"stored: {path}", file=sys.stderr)
    if done.failure is not None:
        return 1
    if done.interrupted:
        return INTERRUPTED
    whole = done.rounds and done.unfit is None and done.stopped is None
    return 0 if whole and not done.failing else NO_VERDICT


def _settings(args: argparse.Namespace) -> Settings:
    if args.pairs < 1:
        raise SpecError("--pairs must be at least 1")
    if args.most_per_min is not None and args.most_per_min <= 0:
        raise SpecError("--most-per-min must be above 0")
    return Settings(pairs=args.pairs, timeout_s=args.question_timeout_s, say=_say)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def _entrant(name: str, args: argparse.Namespace, env: Mapping[str, str], settings: Settings) -> Entrant:
    spec = find_channel(args.channels_file, name)
    return Entrant(
        spec=spec,
        target=target_of(spec, env, needs_key=not args.dry_run),
        manners=manners_of(spec, spend_cap=args.spend_cap, most_wait_s=args.most_wait_s, say=settings.say),
    )


def _with_model(entrant: Entrant) -> Target:
    target = entrant.target
    return target if target.model else replace(target, model=first_model(target))
