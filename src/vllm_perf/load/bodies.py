# SPDX-License-Identifier: Apache-2.0
"""Write the exact JSON a request sends; nothing a server could default differently is left out."""

import json
from typing import Any

from vllm_perf.load.counting import Prompt
from vllm_perf.spec.workload import WorkloadSpec


def body(workload: WorkloadSpec, model: str, prompt: Prompt, output_tokens: int) -> bytes:
    """Return the request's body; sampling is explicit, as a model's generation_config would change it.

    ``ignore_eos`` and ``min_tokens`` are vLLM's own: they are left out where the workload does not pin the
    length, since other servers refuse them.
    """
    data: dict[str, Any] = {"model": model}
    if isinstance(prompt, str):
        data["prompt"] = prompt
    else:
        data["messages"] = list(prompt)
    data |= {
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": workload.temperature,
        "top_p": workload.top_p,
        "seed": workload.seed,
        "max_tokens": output_tokens,
    }
    if workload.ignore_eos:
        data |= {"ignore_eos": True, "min_tokens": output_tokens}
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
