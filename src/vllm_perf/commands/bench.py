# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf bench``: the load test alone, for people who want numbers without a suite."""

import argparse
import json
import secrets
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID

from vllm_perf.commands import channels
from vllm_perf.commands.bench_output import Result, as_json, exit_code, show, write_samples
from vllm_perf.commands.bench_target import target_of
from vllm_perf.load.counting import counter_for
from vllm_perf.load.floor import FloorMeter
from vllm_perf.load.plan import Target
from vllm_perf.load.sample import RequestSample, Run
from vllm_perf.load.session import measure
from vllm_perf.load.single import send_one, streamed_body
from vllm_perf.metrics.reasons import InvalidReason, RunFacts
from vllm_perf.metrics.validity import check_runs
from vllm_perf.spec.base import SpecError, parse
from vllm_perf.spec.client import CLIENTS, DEFAULT_CLIENT, Means
from vllm_perf.spec.files import load_workloads, pick
from vllm_perf.spec.workload import WorkloadSpec

WORKLOADS = Path("fixtures/workloads.toml")
DEFAULT_TOKENS = 512
FIRST_TIMEOUT_S = 60.0
UNIQUE_HIT_RATE = 0.05


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the bench's options."""
    where = parser.add_argument_group("the server")
    where.add_argument("--base-url", help="the base URL that clients use, http://HOST:PORT/v1")
    where.add_argument("--model", help="the model's id")
    where.add_argument("--api-key-env", metavar="VAR", help="the environment variable that holds the key")
    where.add_argument("--ca-file", help="certificate authority to trust instead of the system's")
    where.add_argument("--proxy", help="HTTP proxy to go through; those of the environment are not used")
    channels.add_options(parser)
    _configure_load(parser.add_argument_group("the load (options outweigh the workload's own values)"))
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON object")
    output.add_argument("--samples", type=Path, metavar="FILE", help="write one JSON line a request")
    output.add_argument(
        "--floor", action="store_true", help="also measure what this client itself adds to TTFT"
    )


def _configure_load(load: Any) -> None:
    load.add_argument("--workload", metavar="NAME", help="a workload of the workloads file")
    load.add_argument(
        "--workloads", type=Path, default=WORKLOADS, metavar="FILE", help=f"default {WORKLOADS}"
    )
    load.add_argument("--endpoint", choices=("chat", "completions"))
    load.add_argument("--prompt-tokens", type=int, metavar="N", help="tokens of each prompt in all")
    load.add_argument("--shared-tokens", type=int, metavar="N", help="of these, tokens common to all prompts")
    load.add_argument("--output-tokens", type=int, metavar="N")
    load.add_argument("--concurrency", type=int, metavar="N", help="requests in flight (closed loop)")
    load.add_argument("--requests", type=int, metavar="N")
    load.add_argument("--duration-s", type=float, metavar="S", help="stop sending after this long")
    load.add_argument("--rate", type=float, metavar="R", help="requests per second (open loop)")
    load.add_argument("--arrival", choices=("constant", "poisson", "gamma"), help="of the open loop")
    load.add_argument("--burstiness", type=float, metavar="B", help="shape of gamma; 1 is Poisson")
    load.add_argument(
        "--ramp-s", type=float, metavar="S", help="spread a closed loop's starts over S seconds"
    )
    load.add_argument("--repetitions", type=int, metavar="N")
    load.add_argument("--warmup-requests", type=int, metavar="N")
    load.add_argument(
        "--seed", type=int, help="equal seeds send equal bytes; without one every run's are new"
    )
    load.add_argument("--timeout-s", type=float, metavar="S", help="time limit of each request")
    load.add_argument(
        "--free-length", action="store_true", help="let answers end by themselves (servers other than vLLM)"
    )
    load.add_argument("--no-reset", action="store_true", help="do not reset the server's prefix cache")
    load.add_argument(
        "--client",
        choices=CLIENTS,
        default=DEFAULT_CLIENT,
        help="what sends it: our own sockets (default), or the openai SDK as an application does",
    )
    load.add_argument(
        "--processes", type=int, default=1, metavar="N", help="spread the load over N processes"
    )


def run(args: argparse.Namespace) -> int:
    """Run the load; 0 only where every request succeeded and the run may be judged."""
    if args.channel:
        return channels.run_channels(args, workload_of(args))
    if args.base_url is None or args.model is None:
        raise SpecError("give --base-url and --model, or one or more --channel NAME of the channels file")
    target = target_of(args)
    workload = workload_of(args)
    result = bench(target, workload, args)
    if args.samples is not None:
        write_samples(args.samples, result)
    if args.json:
        print(json.dumps(as_json(result), ensure_ascii=False))
    else:
        show(result, Console())
    return exit_code(result)


def bench(target: Target, workload: WorkloadSpec, args: argparse.Namespace) -> Result:
    """Try one request, then run every repetition.

    Raises:
        SpecError: the prompts cannot be made, or do not fit.
    """
    first = _first(target, workload)
    if not first.ok:
        return Result(workload=workload, target=target, runs=(), first=first)
    counter = counter_for(target)
    runs = []
    with Bar(console=Console(stderr=True), transient=True, disable=args.json) as bar:
        for repetition in range(workload.repetitions):
            task = bar.add_task(f"{workload.name} {repetition + 1}/{workload.repetitions}", total=None)
            runs.append(
                measure(
                    workload,
                    target,
                    counter=counter,
                    repetition=repetition,
                    means=Means(client=args.client, processes=args.processes),
                    on_progress=partial(_advance, bar, task),
                )
            )
    floor = FloorMeter(client=args.client).floor(workload) if args.floor else None
    return Result(
        workload=workload,
        target=target,
        runs=tuple(runs),
        first=first,
        invalid=_invalid(runs, workload),
        floor=floor,
    )


def _advance(bar: Bar, task: TaskID, done: int, total: int) -> None:
    bar.update(task, completed=done, total=total)


def workload_of(args: argparse.Namespace) -> WorkloadSpec:
    """Return the named workload, or one of unique prompts, with the options laid over it.

    Raises:
        SpecError: no such file or workload, or a value that cannot be.
    """
    if args.workload is not None:
        data = pick(load_workloads(args.workloads), args.workload, f"{args.workloads}: workload").model_dump()
    else:
        data = _inline(args)
    data["arrival"] = _arrival(args, data["arrival"])
    data |= {key: value for key, value in _overrides(args).items() if value is not None}
    return parse(WorkloadSpec, data, "bench")


def _inline(args: argparse.Namespace) -> dict[str, Any]:
    """Return a workload that no earlier run has left in the server's cache: its seed is new every time."""
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    plain = WorkloadSpec.model_validate({"name": "bench", "prompt": {"kind": "unique"}, "seed": seed})
    hit_rate = None if args.shared_tokens else UNIQUE_HIT_RATE
    requests = max(plain.requests, 4 * (args.concurrency or 1))
    changes = {"requests": requests, "reset_caches": False, "hit_rate_max": hit_rate}
    return {**plain.model_dump(), **changes}


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "endpoint": args.endpoint,
        "prompt": _prompt(args),
        "output_tokens": args.output_tokens,
        "requests": args.requests,
        "duration_s": args.duration_s,
        "repetitions": args.repetitions,
        "warmup_requests": args.warmup_requests,
        "seed": args.seed,
        "request_timeout_s": args.timeout_s,
        "ignore_eos": False if args.free_length else None,
        "reset_caches": False if args.no_reset else None,
    }


def _prompt(args: argparse.Namespace) -> dict[str, Any] | None:
    if args.workload is not None and args.prompt_tokens is None and args.shared_tokens is None:
        return None
    total = args.prompt_tokens or DEFAULT_TOKENS + (args.shared_tokens or 0)
    if not args.shared_tokens:
        return {"kind": "unique", "unique_tokens": total}
    if args.shared_tokens >= total:
        raise SpecError(f"--shared-tokens {args.shared_tokens} leaves nothing of --prompt-tokens {total}")
    return {
        "kind": "shared_prefix",
        "shared_tokens": args.shared_tokens,
        "unique_tokens": total - args.shared_tokens,
    }


def _arrival(args: argparse.Namespace, arrival: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {"burstiness": args.burstiness, "ramp_s": args.ramp_s}
    if args.rate is not None:
        kind = args.arrival or ("gamma" if args.burstiness is not None else "poisson")
        changes |= {"kind": kind, "rate_per_s": args.rate}
    elif args.arrival is not None:
        raise SpecError("--arrival needs --rate")
    if args.concurrency is not None:
        if args.rate is not None:
            raise SpecError("--concurrency is a closed loop, --rate an open one: give one of them")
        changes |= {"kind": "closed", "concurrency": args.concurrency}
    return arrival | {key: value for key, value in changes.items() if value is not None}


def _first(target: Target, workload: WorkloadSpec) -> RequestSample:
    """Send one small request: what is wrong with the server is said at once, not a thousand times."""
    body = streamed_body(target.model, "Say hello.", 8, workload.endpoint)
    return send_one(
        target, body, endpoint=workload.endpoint, timeout_s=min(FIRST_TIMEOUT_S, workload.request_timeout_s)
    )


def _invalid(runs: Sequence[Run], workload: WorkloadSpec) -> tuple[InvalidReason, ...]:
    return check_runs(runs, workload, RunFacts())
