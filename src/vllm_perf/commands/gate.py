# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf gate``: boot base and head in turn, compare, and say whether head is slower.

Exit code 0: same or improved. 1: regressed. 10: no verdict. 11: the lab is broken.
"""

import argparse
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from vllm_perf.engine.errors import LabError
from vllm_perf.gate.decision import EXIT_BROKEN_LAB
from vllm_perf.gate.lab import SideSpec
from vllm_perf.gate.plan import Limits
from vllm_perf.gate.session import GateRequest, run_gate
from vllm_perf.gate.summary import Summary
from vllm_perf.lab.machine import detect_machine
from vllm_perf.spec.files import load_engines, load_workloads_for, pick
from vllm_perf.spec.workload import WorkloadSpec
from vllm_perf.verdict.policy import Policy

ENGINES, WORKLOADS, WORK = "fixtures/engines.toml", "fixtures/workloads.toml", ".vllm-perf"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for side in ("base", "head"):
        parser.add_argument(f"--{side}", required=True, metavar="ENGINE", help="name, @first or @last rung")
        parser.add_argument(f"--{side}-python", metavar="PYTHON", help="interpreter with that side's vLLM")
        parser.add_argument(f"--{side}-engines", type=Path, default=Path(ENGINES), metavar="FILE")
    parser.add_argument("--workload", action="append", metavar="NAME", help="repeatable (default: all)")
    parser.add_argument("--workloads-file", type=Path, default=Path(WORKLOADS), metavar="FILE")
    limits = Limits()
    parser.add_argument("--min-pairs", type=int, default=limits.min_pairs, metavar="N")
    parser.add_argument("--max-pairs", type=int, default=limits.max_pairs, metavar="N")
    parser.add_argument("--max-minutes", type=float, metavar="M", help="begin no pair that would pass it")
    parser.add_argument(
        "--allowed", type=float, default=Policy().allowed, metavar="SHARE", help="change nobody minds"
    )
    parser.add_argument("--journal", type=Path, default=Path(WORK) / "gate", metavar="DIR")
    parser.add_argument("--history", type=Path, default=Path(WORK) / "history", metavar="DIR")
    parser.add_argument("--log-dir", type=Path, default=Path(WORK) / "logs", metavar="DIR")
    parser.add_argument("--lock-wait", type=float, default=3600.0, metavar="S")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the job summary there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Run the gate and show its outcome."""
    try:
        summary = _gate(args)
    except LabError as error:
        return _broken(error, args)
    if args.markdown:
        args.markdown.write_text(summary.markdown(), encoding="utf-8")
    print(json.dumps(summary.to_json(), indent=1) if args.json else summary.text())
    return summary.exit_code


@dataclass(slots=True)
class Progress:
    """Say each step of a boot and of a load once."""

    last: str = ""

    def booting(self, engine: str, step: str, elapsed_s: float) -> None:
        """Show a boot's step when it changes."""
        self._once(f"{engine}: {step}", f" ({elapsed_s:.0f} s)")

    def loading(self, engine: str, workload: str, repetition: int, done: int, total: int) -> None:
        """Show a repetition when it begins."""
        del done  # a line a request would be too much
        self._once(f"{engine}: {workload}, repetition {repetition + 1} of {total} requests", "")

    def say(self, text: str) -> None:
        """Show a sentence where it disturbs no output."""
        print(f"gate: {text}", file=sys.stderr, flush=True)

    def _once(self, text: str, more: str) -> None:
        if text != self.last:
            self.last = text
            self.say(text + more)


def _gate(args: argparse.Namespace) -> Summary:
    machine = detect_machine()
    request = GateRequest(
        sides={
            "base": SideSpec.choose(
                load_engines(args.base_engines), args.base, machine.kind, args.base_python
            ),
            "head": SideSpec.choose(
                load_engines(args.head_engines), args.head, machine.kind, args.head_python
            ),
        },
        workloads=_workloads(args, machine.kind),
        machine=machine,
        limits=Limits(min_pairs=args.min_pairs, max_pairs=args.max_pairs, max_minutes=args.max_minutes),
        allowed=args.allowed,
        root=Path.cwd(),
        journal=args.journal,
        history=args.history,
        log_dir=args.log_dir,
        model_cache=Path(WORK) / "models",
        lock_wait_s=args.lock_wait,
    )
    return run_gate(request, Progress(), shlex.join(["vllm-perf", *sys.argv[1:]]))


def _workloads(args: argparse.Namespace, platform: str) -> dict[str, WorkloadSpec]:
    known = load_workloads_for(args.workloads_file, platform)
    names = tuple(dict.fromkeys(args.workload or known))
    return {name: pick(known, name, f"{args.workloads_file}: workload") for name in names}


def _broken(error: LabError, args: argparse.Namespace) -> int:
    diagnosis = error.diagnosis
    if args.markdown:
        text = f"## 🛠️ The lab is broken: {error.title}\n\n```\n{diagnosis.paragraph()}\n```\n"
        args.markdown.write_text(text, encoding="utf-8")
    if args.json:
        said = {"verdict": None, "exit_code": EXIT_BROKEN_LAB, "category": str(diagnosis.category)}
        print(json.dumps(said | {"cause": diagnosis.cause, "remedy": diagnosis.remedy}, indent=1))
    print(f"vllm-perf gate: {error}", file=sys.stderr)
    return EXIT_BROKEN_LAB
