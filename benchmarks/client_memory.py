# SPDX-License-Identifier: Apache-2.0
"""How much memory a long load takes: 100,000 requests of 128 tokens must stay under 500 MB.

python benchmarks/client_memory.py --requests 100000 --tokens 128
"""

import argparse
import json
import resource
import time

from vllm_perf.load.generator import run_load
from vllm_perf.load.golden_process import golden_process
from vllm_perf.load.plan import LoadPlan, PlannedRequest
from vllm_perf.spec.workload import ArrivalSpec

KIB_PER_MB = 1000.0 / 1.024


def main() -> None:
    """Send the load to a golden engine in another process; print the peak of this process's memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--prompt-bytes", type=int, default=400)
    args = parser.parse_args()
    with golden_process(ttft_ms=1, itl_ms=1) as target:
        body = json.dumps(
            {
                "model": target.model,
                "messages": [{"role": "user", "content": "PROMPT"}],
                "max_tokens": args.tokens,
                "stream": True,
                "stream_options": {"include_usage": True},
                "ignore_eos": True,
            }
        )
        requests = tuple(
            PlannedRequest(
                prompt_id=f"p{n:06d}",
                body=body.replace("PROMPT", f"{n:06d} ".ljust(args.prompt_bytes, "x")).encode(),
            )
            for n in range(args.requests)
        )
        plan = LoadPlan(
            workload="memory",
            endpoint="chat",
            target=target,
            requests=requests,
            arrival=ArrivalSpec(concurrency=args.concurrency),
            pinned_output_tokens=args.tokens,
            request_timeout_s=60.0,
        )
        started_s, cpu_s = time.perf_counter(), time.process_time()
        run = run_load(plan)
        took_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
    tokens = sum(len(sample.chunk_ns) for sample in run.samples)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIB_PER_MB
    print(f"{run.sent} requests, {run.failed} failed, {tokens} chunks stamped in {took_s:.1f} s")
    print(f"peak memory {peak_mb:.0f} MB; CPU {cpu_s:.1f} s, {cpu_s / tokens * 1e6:.1f} us a token")
    print(f"{tokens / took_s:,.0f} tokens/s; {run.clock}; warnings: {run.warnings}")


if __name__ == "__main__":
    main()
