# SPDX-License-Identifier: Apache-2.0
"""Turn a command's options into the target it talks to."""

import argparse
import os

from vllm_perf.load.plan import Target
from vllm_perf.spec.base import SpecError


def target_of(args: argparse.Namespace) -> Target:
    """Return the target of ``--base-url``, ``--model``, ``--api-key-env``, ``--ca-file`` and ``--proxy``.

    Raises:
        SpecError: the environment has no such variable.
    """
    key = None
    if args.api_key_env:
        key = os.environ.get(args.api_key_env)
        if key is None:
            raise SpecError(f"--api-key-env: the environment has no variable '{args.api_key_env}'")
    base_url = args.base_url.rstrip("/")
    return Target(base_url=base_url, model=args.model, api_key=key, ca_file=args.ca_file, proxy=args.proxy)
