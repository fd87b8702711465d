# SPDX-License-Identifier: Apache-2.0
"""What load clients add to the times they measure, against the golden engine's own record.

    python benchmarks/client_fidelity.py --json fidelity.json --aiperf-python AIPERF_VENV/bin/python

The golden engine runs on one core, one client process at a time on another. Truth is the engine's record: the
kernel's stamp of each request, the time of each write. AIPerf runs in a venv of its own (`pip install
aiperf==0.13.0`) and is left out without it. Every figure is the median of the repetitions; one in
which the host took CPU time away (steal in /proc/stat) is thrown away and done again. FIDELITY_REALTIME=1
runs both processes with SCHED_FIFO (root only): other work on the machine then does not get in between.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from vllm_perf.metrics.percentiles import percentile

HERE = Path(__file__).parent
CLIENTS = (
    "vllm-perf",
    "vllm-perf, no kernel stamps",
    "vLLM bench",
    "openai SDK",
    "AIPerf",
    "vLLM bench, uvloop",
)
STREAMS = (1, 64, 256, 512)
TOKENS = 64
TTFT_MS, ITL_MS = 200.0, 20.0
RATES = (2_000, 6_400, 12_800, 25_600, 51_200, 76_800, 102_400, 115_200)
RATE_SECONDS = 2.0
# Up there the client's core is nearly busy: one load alone would be luck.
REPEATED_FROM = 51_200
# Beyond its own limit the golden engine falls behind, and the client has an easier time than the rate says.
LEAST_SERVED = 0.98
RATE_LIMIT_MS = 10.0
STEAL_TICKS = 2
REALTIME = "FIDELITY_REALTIME"
TRIES = 3
PYTHONS: dict[str, str] = {}


@dataclass(frozen=True)
class Seen:
    """One load through one client; all in ms but ``cpu_s_per_1000`` (CPU seconds for 1,000 tokens).

    ``stamp_error_p99_ms``: how far the client's stamps are from the server's writes. ``served_per_s``: tokens
    a second that the server really wrote while all streams ran.
    """

    streams: int
    succeeded: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    gap_p99_ms: float
    stamp_error_p99_ms: float
    cpu_s_per_1000: float
    server_late_p99_ms: float
    served_per_s: float


def main() -> None:
    """Measure, print a table (Markdown for the docs), write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--streams", type=int, nargs="*", default=list(STREAMS))
    parser.add_argument("--rates", type=int, nargs="*", default=list(RATES), help="tokens per second to try")
    parser.add_argument("--clients", nargs="*", default=list(CLIENTS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--aiperf-python", help="python of a venv that has AIPerf")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if args.aiperf_python:
        PYTHONS["AIPerf"] = args.aiperf_python
    with cores_kept_awake():
        measure_all(args, found)
    console = Console(width=160)
    console.print(table(found))
    print(markdown(found))


def measure_all(args: argparse.Namespace, found: dict[str, Any]) -> None:
    """Measure every client asked for; what is found so far is written after each."""
    for client in [one for one in args.clients if one != "AIPerf" or args.aiperf_python]:
        rows = [typical([one_load(client, n, TOKENS) for _ in range(args.repetitions)]) for n in args.streams]
        rates = list(climb(client, args.rates, args.repetitions))
        found[client] = {"streams": [asdict(row) for row in rows], "rates": rates}
        print(f"{client}: {rows}\n  {rates}", file=sys.stderr)
        if args.json is not None:
            args.json.write_text(json.dumps({"cores": os.cpu_count(), "clients": found}, indent=1))


def one_load(client: str, streams: int, tokens: int, itl_ms: float = ITL_MS, stagger_s: float = 0.0) -> Seen:
    """Send one load through one client; again, up to three times, where the host stalled."""
    for _ in range(TRIES):
        before = steal_ticks()
        seen = try_load(client, streams, tokens, itl_ms, stagger_s)
        if steal_ticks() - before <= STEAL_TICKS:
            break
    return seen


def try_load(client: str, streams: int, tokens: int, itl_ms: float, stagger_s: float) -> Seen:
    """Send one load to a golden engine of its own and compare both records."""
    with golden(itl_ms) as (base_url, model):
        task = {
            "client": client,
            "base_url": base_url,
            "model": model,
            "streams": streams,
            "tokens": tokens,
            "stagger_s": stagger_s,
        }
        python = PYTHONS.get(client, sys.executable)
        with tempfile.NamedTemporaryFile("r") as answer_file:
            command = [python, str(HERE / "fidelity_clients.py"), json.dumps(task), answer_file.name]
            realtime = REALTIME in os.environ
            subprocess.run(command, stdout=sys.stderr, check=True, preexec_fn=lambda: pin(0, realtime))
            said = json.loads(answer_file.read())
        root = base_url.removesuffix("/v1")
        with urllib.request.urlopen(f"{root}/golden/records") as answer:
            records = {record["id"]: record for record in map(json.loads, answer.read().splitlines())}
    return compare(said, records, streams, itl_ms)


def compare(said: dict[str, Any], records: dict[str, Any], streams: int, itl_ms: float) -> Seen:
    """Compare a client's stamps with the server's."""
    ttfts, gaps, errors, late, writes = [], [], [], [], []
    tokens = 0
    for sample in said["samples"]:
        seen, record = sample["chunk_ns"], records[sample["id"]]
        true = record["sent_ns"]
        tokens += len(true)
        writes.append(true)
        ttfts.append((seen[0] - sample["wanted_ns"]) - (true[0] - record["received_ns"]))
        errors += [abs(a - b) for a, b in zip(seen, true, strict=False)]
        gaps += [abs((seen[k] - seen[k - 1]) - (true[k] - true[k - 1])) for k in range(1, len(seen))]
        due = [record["received_ns"] + (TTFT_MS + k * itl_ms) * 1e6 for k in range(len(true))]
        late += [a - b for a, b in zip(true, due, strict=True)]
    return Seen(
        streams=streams,
        succeeded=len(ttfts),
        ttft_p50_ms=percentile(ttfts, 0.5) / 1e6,
        ttft_p99_ms=percentile(ttfts, 0.99) / 1e6,
        gap_p99_ms=percentile(gaps, 0.99) / 1e6,
        stamp_error_p99_ms=percentile(errors, 0.99) / 1e6,
        cpu_s_per_1000=said["cpu_s"] / tokens * 1000,
        server_late_p99_ms=percentile(late, 0.99) / 1e6,
        served_per_s=served_rate(writes),
    )


def served_rate(writes: list[list[int]]) -> float:
    """Return the tokens a second written between the last stream's first token and the first one's last."""
    begin_ns, end_ns = max(one[0] for one in writes), min(one[-1] for one in writes)
    if end_ns <= begin_ns:
        return 0.0
    return sum(begin_ns <= at < end_ns for one in writes for at in one) / (end_ns - begin_ns) * 1e9


def typical(seen: list[Seen]) -> Seen:
    """Return the median of each figure."""
    whole = [asdict(one) for one in seen]
    return Seen(**{name: statistics.median([one[name] for one in whole]) for name in whole[0]})


def climb(client: str, rates: list[int], repetitions: int) -> Iterator[dict[str, Any]]:
    """Raise the token rate until the P99 error of the stamps passes the limit."""
    for rate in rates:
        streams = min(512, max(16, rate // 50))
        itl_ms = streams / rate * 1000
        tokens = max(2, round(RATE_SECONDS * rate / streams))
        times = repetitions if rate >= REPEATED_FROM else 1
        seen = typical([one_load(client, streams, tokens, itl_ms, stagger_s=0.4) for _ in range(times)])
        yield {"rate": rate, **asdict(seen)}
        if seen.stamp_error_p99_ms > RATE_LIMIT_MS or seen.succeeded < streams:
            return


def highest(rates: list[dict[str, Any]]) -> int | None:
    """Return the highest rate that the server really served with every stamp's P99 error within the limit."""
    held = [
        one["rate"]
        for one in rates
        if one["stamp_error_p99_ms"] <= RATE_LIMIT_MS
        and one["succeeded"] == one["streams"]
        and one["served_per_s"] >= LEAST_SERVED * one["rate"]
    ]
    return max(held, default=None)


@contextmanager
def golden(itl_ms: float) -> Iterator[tuple[str, str]]:
    """Run the golden engine on the other core."""
    options = {"ttft-ms": TTFT_MS, "itl-ms": itl_ms, "role-ms": "none", "prefix-caching": "false"}
    flags = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "vllm_perf.cli", "golden", *flags]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: pin(1, REALTIME in os.environ)
    )
    assert process.stdout is not None
    try:
        ready = json.loads(process.stdout.readline())
        yield ready["base_url"], ready["model"]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@contextmanager
def cores_kept_awake() -> Iterator[None]:
    """Run a busy process of the lowest priority on each core: waking a halted virtual core takes longer than
    all that is measured here, and whether it halts depends on what else runs."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=lambda core=core: idle(core))
        for core in range(2)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def idle(core: int) -> None:
    """Put this process behind all others of one core."""
    pin(core, realtime=False)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def pin(core: int, realtime: bool) -> None:
    """Keep this process on one core, where there are several; ``realtime`` puts it before all others."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def steal_ticks() -> int:
    """Return how many ticks the host has taken away so far."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8])


def rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the table's rows as text; figures in ms."""
    for client, figures in found.items():
        by = {one["streams"]: one for one in figures["streams"]}
        most = by[max(by)]
        rate = highest(figures["rates"])
        yield (
            client,
            *(pair(by.get(n)) for n in STREAMS),
            f"{most['gap_p99_ms']:.2f}",
            f"{most['cpu_s_per_1000']:.3f}",
            "-" if rate is None else f"{rate:,}",
        )


def pair(seen: dict[str, Any] | None) -> str:
    """Return what is added to TTFT as P50 / P99."""
    return "-" if seen is None else f"{seen['ttft_p50_ms']:.1f} / {seen['ttft_p99_ms']:.1f}"


def headings() -> tuple[str, ...]:
    """Return the table's head."""
    return (
        "client",
        *(f"{n} streams" for n in STREAMS),
        "added gap P99 at most streams",
        "CPU s per 1,000 tokens",
        "highest tokens/s",
    )


def table(found: dict[str, Any]) -> Table:
    """Return the table for a terminal."""
    made = Table(title="added to TTFT, P50 / P99 (ms)")
    for heading in headings():
        made.add_column(heading)
    for row in rows(found):
        made.add_row(*row)
    return made


def markdown(found: dict[str, Any]) -> str:
    """Return the table for docs/client.md."""
    lines = ["| " + " | ".join(headings()) + " |", "|---" * len(headings()) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows(found))])


if __name__ == "__main__":
    main()
