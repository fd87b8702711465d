# SPDX-License-Identifier: Apache-2.0
"""The options that every command about stored runs has."""

import argparse
import sys
from pathlib import Path

from vllm_perf.history.store import Store
from vllm_perf.spec.history import HistorySpec, load_history_spec

DEFAULT_DIRECTORY = Path(".vllm-perf/history")
DEFAULT_POLICY = Path("fixtures/history.toml")


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Declare where the runs are and which of them may be compared."""
    parser.add_argument(
        "--history",
        type=Path,
        default=DEFAULT_DIRECTORY,
        metavar="DIR",
        help="folder of stored runs (default: %(default)s)",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help=f"what must match for a comparison (default: {DEFAULT_POLICY} where it exists)",
    )


def store_of(args: argparse.Namespace) -> Store:
    """Return the store that the options name."""
    return Store(args.history, say=lambda text: print(f"vllm-perf: {text}", file=sys.stderr))


def policy_of(args: argparse.Namespace) -> HistorySpec:
    """Return the policy that the options name.

    Raises:
        SpecError: the file cannot be used.
    """
    if args.policy is None and DEFAULT_POLICY.is_file():
        return load_history_spec(DEFAULT_POLICY)
    return load_history_spec(args.policy)
