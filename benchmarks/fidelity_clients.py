# SPDX-License-Identifier: Apache-2.0
"""One client under test in a process of its own: send one load, print when it thinks tokens came.

Run by ``client_fidelity.py``; the argument is a JSON object with ``client``, ``base_url``, ``model``,
``streams``, ``tokens`` and ``stagger_s`` (starts are spread over that long), the second the file to write the
answer to, one JSON object: ``cpu_s``, and per request ``id``, ``wanted_ns`` and ``chunk_ns``.
"""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT = "count up from one"
TIMEOUT_S = 120.0
NS = 1_000_000_000


@dataclass(frozen=True)
class Task:
    """What to send."""

    client: str
    base_url: str
    model: str
    streams: int
    tokens: int
    stagger_s: float

    def delay_s(self, number: int) -> float:
        """Return how long after the first request ``number`` is wanted."""
        return number * self.stagger_s / self.streams


Stamps = dict[str, Any]


def ours(task: Task, kernel_stamps: bool) -> tuple[float, list[Stamps]]:
    """Send by this project's client, in a closed loop of one request a slot."""
    from vllm_perf.load.generator import run_load
    from vllm_perf.load.plan import LoadPlan, PlannedRequest, Target
    from vllm_perf.spec.workload import ArrivalSpec

    body = json.dumps(request_body(task)).encode()
    plan = LoadPlan(
        workload="fidelity",
        endpoint="chat",
        target=Target(base_url=task.base_url, model=task.model),
        requests=tuple(PlannedRequest(prompt_id=str(n), body=body) for n in range(task.streams)),
        arrival=ArrivalSpec(concurrency=task.streams, ramp_s=task.stagger_s),
        pinned_output_tokens=task.tokens,
        request_timeout_s=TIMEOUT_S,
        kernel_stamps=kernel_stamps,
    )
    before_s = time.process_time()
    run = run_load(plan)
    cpu_s = time.process_time() - before_s
    return cpu_s, [
        {"id": one.id, "wanted_ns": one.scheduled_ns, "chunk_ns": list(one.chunk_ns)}
        for one in run.samples
        if one.ok
    ]


async def vllm_bench(task: Task) -> tuple[float, list[Stamps]]:
    """Send by the request function of vLLM's own benchmark, with the session its benchmark makes."""
    import aiohttp
    from vllm.benchmarks.lib.endpoint_request_func import (
        AIOHTTP_TIMEOUT,
        RequestFuncInput,
        async_request_openai_chat_completions,
    )

    connector = aiohttp.TCPConnector(
        limit=0, limit_per_host=0, ttl_dns_cache=300, keepalive_timeout=60, force_close=False
    )
    async with aiohttp.ClientSession(connector=connector, trust_env=True, timeout=AIOHTTP_TIMEOUT) as session:

        async def send(number: int, wanted_ns: int) -> Stamps | None:
            asked = RequestFuncInput(
                prompt=PROMPT,
                api_url=f"{task.base_url}/chat/completions",
                prompt_len=4,
                output_len=task.tokens,
                model=task.model,
                ignore_eos=True,
                request_id=f"v-{number}",
            )
            said = await async_request_openai_chat_completions(asked, session)
            if not said.success:
                return None
            stamps = [said.start_time + said.ttft]
            for gap in said.itl:
                stamps.append(stamps[-1] + gap)
            chunk_ns = [round(stamp * NS) for stamp in stamps]
            return {"id": f"v-{number}", "wanted_ns": wanted_ns, "chunk_ns": chunk_ns}

        return await gather(task, send)


async def openai_sdk(task: Task) -> tuple[float, list[Stamps]]:
    """Send by the openai SDK, stamping each chunk as it is handed out."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(
        base_url=task.base_url, api_key="none", max_retries=0, timeout=TIMEOUT_S
    ) as client:

        async def send(number: int, wanted_ns: int) -> Stamps | None:
            stream = await client.chat.completions.create(
                model=task.model,
                messages=[{"role": "user", "content": PROMPT}],
                max_tokens=task.tokens,
                stream=True,
                stream_options={"include_usage": True},
                extra_body={"ignore_eos": True},
                extra_headers={"X-Request-Id": f"o-{number}"},
            )
            chunk_ns = []
            async for chunk in stream:
                now_ns = time.perf_counter_ns()
                if chunk.choices and chunk.choices[0].delta.content:
                    chunk_ns.append(now_ns)
            return {"id": f"o-{number}", "wanted_ns": wanted_ns, "chunk_ns": chunk_ns}

        return await gather(task, send)


async def aiperf(task: Task) -> tuple[float, list[Stamps]]:
    """Send by AIPerf's own HTTP client, as one of its workers does; reading comes afterwards."""
    from aiperf.transports.aiohttp_client import AioHttpClient

    gc.freeze()
    gc.disable()
    client = AioHttpClient(timeout=TIMEOUT_S)
    body = json.dumps(request_body(task)).encode()

    async def send(number: int, wanted_ns: int) -> Stamps | None:
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            "X-Request-Id": f"a-{number}",
        }
        record = await client.post_request(f"{task.base_url}/chat/completions", body, headers)
        if record.error is not None:
            return None
        return {"id": f"a-{number}", "wanted_ns": wanted_ns, "chunk_ns": [], "responses": record.responses}

    cpu_s, found = await gather(task, send)
    await client.close()
    for one in found:
        one["chunk_ns"] = [said.perf_ns for said in one.pop("responses") if has_token(said.packets[0].value)]
    return cpu_s, found


def has_token(data: str) -> bool:
    """Tell whether an event's data holds generated text."""
    choices = json.loads(data).get("choices") if data != "[DONE]" else None
    return bool(choices and choices[0]["delta"].get("content"))


async def gather(
    task: Task, send: Callable[[int, int], Awaitable[Stamps | None]]
) -> tuple[float, list[Stamps]]:
    """Start every request when it is wanted, and wait for all."""
    before_s, begin_ns = time.process_time(), time.perf_counter_ns()

    async def start(number: int) -> Stamps | None:
        wanted_ns = begin_ns + round(task.delay_s(number) * NS)
        left_ns = wanted_ns - time.perf_counter_ns()
        if left_ns > 0:
            await asyncio.sleep(left_ns / NS)
        return await send(number, wanted_ns)

    found = await asyncio.gather(*(start(number) for number in range(task.streams)), return_exceptions=True)
    cpu_s = time.process_time() - before_s
    return cpu_s, [one for one in found if isinstance(one, dict)]


def request_body(task: Task) -> dict[str, Any]:
    """Return the request that every client sends."""
    return {
        "model": task.model,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": task.tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
        "ignore_eos": True,
    }


def send(task: Task) -> tuple[float, list[Stamps]]:
    """Send by the client that the task names."""
    if task.client == "vllm-perf":
        return ours(task, kernel_stamps=True)
    if task.client == "vllm-perf, no kernel stamps":
        return ours(task, kernel_stamps=False)
    if task.client == "vLLM bench":
        return asyncio.run(vllm_bench(task))
    if task.client == "vLLM bench, uvloop":
        import uvloop

        return uvloop.run(vllm_bench(task))
    if task.client == "AIPerf":
        import uvloop

        return uvloop.run(aiperf(task))
    return asyncio.run(openai_sdk(task))


def main() -> None:
    """Warm the client up on two short streams, then send the load and print what it saw."""
    task = Task(**json.loads(sys.argv[1]))
    send(Task(**{**vars(task), "streams": 2, "tokens": 2, "stagger_s": 0.0}))
    cpu_s, samples = send(task)
    # Into a file: clients' own logging may go to stdout.
    Path(sys.argv[2]).write_text(json.dumps({"cpu_s": cpu_s, "samples": samples}))


if __name__ == "__main__":
    main()
