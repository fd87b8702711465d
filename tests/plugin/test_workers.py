# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a worker of xdist gets: a set of its own as long as there are enough, and never half a set."""

import pytest

from tests.plugin.projects import CONFTEST, Project
from vllm_perf.pytest_plugin.workers import deal_gpus

FOUR = ("a", "b", "c", "d")
# A host with GPUs as NVML would list them, and each worker's note of those it was left.
HOST = """
import os
from pathlib import Path

import pytest

from vllm_perf.engine import gpu
from vllm_perf.engine.fake_nvml import FakeNvml, fake_gpu

gpu.open_nvml = lambda: FakeNvml(cards=tuple(fake_gpu(number) for number in range(COUNT)))

@pytest.fixture(autouse=True)
def _note(worker_id, request):
    yield
    with Path(f"seen-{worker_id}").open("a") as seen:
        seen.write(os.environ["CUDA_VISIBLE_DEVICES"] + "\\n")
"""


@pytest.mark.parametrize(
    ("gpus", "per_engine", "dealt"),
    [
        (FOUR, 1, ["a", "b", "c", "d", "a"]),
        (FOUR, 2, ["ab", "cd", "ab", "cd", "ab"]),
        (FOUR, 4, ["abcd"] * 5),
        (("a", "b", "c"), 2, ["ab"] * 5),
        (("a",), 1, ["a"] * 5),
        (("a",), 2, ["a"] * 5),
        ((), 1, [""] * 5),
    ],
)
def test_workers_share_no_gpu_unless_there_are_too_few(
    gpus: tuple[str, ...], per_engine: int, dealt: list[str]
) -> None:
    assert ["".join(deal_gpus(gpus, worker, per_engine)) for worker in range(5)] == dealt


def seen(project: Project, gpus: int) -> tuple[str, dict[str, set[str]]]:
    """Run the ladder's boots on two workers of a host with so many GPUs; return output and what each saw."""
    project.write("conftest.py", CONFTEST + HOST.replace("COUNT", str(gpus)))
    project.env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(gpus)))
    run = project.run_apart("-n", "2", "-k", "boot or ttft_p50", "-p", "no:benchmark")
    assert run.code == 0, run.text
    return run.text, {path.name: set(path.read_text().split()) for path in project.root.glob("seen-*")}


def test_two_workers_on_two_gpus_have_one_each_and_do_not_wait(ladder: Project) -> None:
    text, found = seen(ladder, 2)
    assert found == {"seen-gw0": {"GPU-00000000-aaaa"}, "seen-gw1": {"GPU-10000000-aaaa"}}
    assert "waiting for GPU" not in text


def test_two_workers_on_one_gpu_take_turns_and_say_so(ladder: Project) -> None:
    text, found = seen(ladder, 1)
    assert found == {"seen-gw0": {"GPU-00000000-aaaa"}, "seen-gw1": {"GPU-00000000-aaaa"}}
    assert "vllm-perf: waiting for GPU-00000000-aaaa" in text
