# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf doctor``: find the first thing wrong with a server, a boot log or a client's settings."""

import argparse
import json
import os
from pathlib import Path

from vllm_perf.doctor.clients.files import check_client_config
from vllm_perf.doctor.logfile import examine_log
from vllm_perf.doctor.patient import Patient
from vllm_perf.doctor.server import Checkup, examine
from vllm_perf.spec.base import SpecError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--base-url", metavar="URL", help="the server to examine, such as http://localhost:8000/v1"
    )
    what.add_argument("--log", type=Path, metavar="FILE", help="the boot log of a vLLM server")
    what.add_argument(
        "--client-config",
        type=Path,
        metavar="FILE",
        help="settings of Codex, Claude Code, Cline or CC Switch",
    )
    parser.add_argument("--model", metavar="ID", help="the model id that clients ask for (with --base-url)")
    parser.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the key")
    parser.add_argument(
        "--client",
        choices=("codex", "claude-code", "cline", "cc-switch"),
        help="whose settings the file holds",
    )
    parser.add_argument(
        "--timeout", type=float, default=30.0, metavar="S", help="seconds to wait for one token (default: 30)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Examine, print, and return 0 only where nothing is wrong.

    Raises:
        SpecError: the options do not fit together, or a file or variable is missing.
    """
    checkup = _examine(args)
    print(_as_json(checkup) if args.json else _as_text(checkup))
    return 0 if checkup.healthy else 1


def _examine(args: argparse.Namespace) -> Checkup:
    if args.log is not None:
        return examine_log(args.log)
    if args.client_config is not None:
        return Checkup(diagnosis=check_client_config(args.client_config, args.client, os.environ))
    if not args.model:
        raise SpecError("--base-url needs --model ID: the id that clients ask for")
    return examine(
        Patient(
            base_url=args.base_url,
            model=args.model,
            key=_key(args.api_key_env),
            env=dict(os.environ),
            timeout_s=args.timeout,
        )
    )


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    if variable not in os.environ:
        raise SpecError(f"--api-key-env {variable}: there is no such environment variable")
    return os.environ[variable]


def _as_json(checkup: Checkup) -> str:
    found = checkup.diagnosis
    return json.dumps(
        {
            "category": found.category.value,
            "healthy": checkup.healthy,
            "cause": found.cause,
            "evidence": found.evidence,
            "remedy": found.remedy,
            "figures": found.figures,
            "passed": list(checkup.passed),
        },
        ensure_ascii=False,
        indent=2,
    )


def _as_text(checkup: Checkup) -> str:
    found = checkup.diagnosis
    lines = [f"category: {found.category.value}", f"cause:    {found.cause}"]
    lines += [f"evidence: {found.evidence}", f"remedy:   {found.remedy}"]
    if found.log_path:
        lines.append(f"log:      {found.log_path}")
    return "\n".join(lines + [f"passed:   {text}" for text in checkup.passed])
