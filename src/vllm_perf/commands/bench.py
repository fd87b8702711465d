# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf bench --channel``: compare channels under one load."""

import argparse
from pathlib import Path

from vllm_perf.commands import channels
from vllm_perf.spec.base import SpecError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    parser.add_argument("--workload", metavar="NAME")
    parser.add_argument("--workloads-file", type=Path)
    parser.add_argument("--requests", type=int, metavar="N")
    parser.add_argument("--concurrency", type=int, metavar="N")
    parser.add_argument("--output-tokens", type=int, metavar="N")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    channels.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Compare the channels asked for."""
    if not args.channel:
        raise SpecError("nothing to measure: give --channel NAME")
    return channels.run_channels(args)
