# SPDX-License-Identifier: Apache-2.0
"""Boots that fail on an NVIDIA GPU, on real vLLM; each must be explained from its real log.

Selected with ``-m gpu``: scripts/test leaves them out, because a machine without a GPU cannot show them.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from fixtures.booting import Booter, Change
from vllm_perf.lab.machine import detect_machine
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec

pytestmark = pytest.mark.gpu

HOLD = """
import sys, torch
free, total = torch.cuda.mem_get_info()
keep = torch.empty(int(total * 0.6), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def neighbour() -> Iterator[int]:
    """Hold 60 % of the GPU's memory in another process, as another engine would; return its pid."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.terminate()


def test_there_is_a_gpu() -> None:
    machine = detect_machine()
    assert machine.kind == "cuda", machine.reason


def test_fp16_awq_with_an_fp8_kv_cache_is_explained(booter: Booter, changed: Change) -> None:
    spec: EngineSpec = changed("gpu-fp8-kv", {"dtype": "float16"})
    diagnosis = booter.failure(spec).diagnosis
    assert diagnosis.category is Category.FP8_HW_UNSUPPORTED
    assert "--dtype bfloat16" in diagnosis.remedy


def test_a_share_that_a_neighbour_does_not_leave_is_explained(
    booter: Booter, changed: Change, neighbour: int
) -> None:
    diagnosis = booter.failure(changed("gpu-prefix-caching")).diagnosis
    assert diagnosis.category is Category.GPU_BUSY_OR_UTIL_TOO_HIGH
    assert float(diagnosis.figures["free_gib"]) < float(diagnosis.figures["wanted_gib"])
    assert "--gpu-memory-utilization" in diagnosis.remedy


def test_a_share_that_cannot_hold_the_weights_is_explained(booter: Booter, changed: Change) -> None:
    diagnosis = booter.failure(changed("gpu-initial", {"gpu-memory-utilization": 0.05})).diagnosis
    assert diagnosis.category is Category.KV_ZERO
    assert "--gpu-memory-utilization" in diagnosis.remedy


def test_weights_that_are_not_quantized_as_asked_are_explained(booter: Booter, changed: Change) -> None:
    diagnosis = booter.failure(changed("gpu-initial", {"quantization": "awq_marlin"})).diagnosis
    assert diagnosis.category is Category.QUANT_MISMATCH
    assert "--quantization" in diagnosis.remedy
