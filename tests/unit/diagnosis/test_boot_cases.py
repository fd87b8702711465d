# SPDX-License-Identifier: Apache-2.0
"""The boot failures by the id of their case (H30 to H46), under every prefix that a line may carry."""

import pytest

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

PREFIXES = {
    "bare": "",
    "0.6": "ERROR 11-18 18:07:28 engine.py:366] ",
    "0.8": "ERROR 04-30 10:20:36 [core.py:396] ",
    "0.8 worker": "(VllmWorker rank=1 pid=311) ERROR 05-10 16:00:15 [multiproc_executor.py:470] ",
    "0.11": "(EngineCore_DP0 pid=312) ERROR 10-25 13:08:43 [core.py:708] ",
    "0.11.1": "(EngineCore_DP0 pid=312) ERROR 11-19 12:16:36 [v1/engine/core.py:842] ",
    "0.12": "(Worker_TP0 pid=313) ERROR 11-30 06:46:41 [core.py:1330] ",
    "stage": "(Worker pid=313) [Stage-0] ERROR 11-30 06:46:41 [core.py:1330] ",
    "no level": "(EngineCore pid=314) ",
    "docker-compose": "vllm-1  | ERROR 04-30 10:20:36 [core.py:396] ",
    "iso": "[2025-03-10T15:07:20Z] ERROR 04-30 10:20:36 [core.py:396] ",
    "cloud": "2025-11-19T20:16:36.096Z [resource.labels.containerName: vllm] "
    "(EngineCore_DP0 pid=312) ERROR 11-19 12:16:36 [v1/engine/core.py:842] ",
    "kubernetes": "2025-11-19T20:16:36.096123456Z stderr F (EngineCore pid=314) ",
    "colours": "\x1b[1;36m(EngineCore pid=314)\x1b[0;0m \x1b[31mERROR\x1b[0m 11-30 06:46:41 [core.py:1330] ",
}

FREE_MEMORY = (
    "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory "
    "utilization (0.95, "
    "45.01 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes."
)
NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
    "when initializing "
    "the engine."
)
V0_LENGTH = (
    "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can "
    "be stored in KV "
    "cache (7344). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
V1_LENGTH = (
    "ValueError: To serve at least one request with the models's max seq len (1048576), (24.00 GiB KV "
    "cache is needed, "
    "which is larger than the available KV cache memory (9.97 GiB). Try increasing "
    "`gpu_memory_utilization` or "
    "decreasing `max_model_len` when initializing the engine."
)
SAMPLER = (
    "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy requests. Please "
    "try lowering "
    "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine."
)
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.74 GiB. GPU 1 has a total "
    "capacity of 23.57 GiB of "
    "which 605.88 MiB is free. Process 133288 has 22.97 GiB memory in use. Of the allocated memory 0 "
    "bytes is allocated"
)
OLD_OOM = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total "
    "capacty of 23.64 "
    "GiB of which 134.81 MiB is free. Including non-PyTorch memory, this process has 23.50 GiB memory in use."
)
MISMATCH = (
    "ValueError: Quantization method specified in the model config (gptq) does not match the "
    "quantization method "
    "specified in the `quantization` argument (gptq_marlin)."
)
UNKNOWN_METHOD = (
    "ValueError: Unknown quantization method: awq_Marlin. Must be one of ['awq', 'awq_marlin', 'gptq']."
)
REFUSED_METHOD = (
    "api_server.py: error: argument --quantization/-q: invalid choice: 'awq_Marlin' "
    "(choose from 'aqlm', 'awq', 'awq_marlin', 'gptq')"
)
OLD_GPU = (
    "ValueError: The quantization method awq is not supported for the current GPU. Minimum capability: 75. "
    "Current capability: 70."
)
BF16 = (
    "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your "
    "Tesla T4 GPU has "
    "compute capability 7.5. You can use float16 instead by explicitly setting the`dtype` flag in CLI, "
    "for example: "
    "--dtype=half."
)
FP8 = (
    "RuntimeError: Worker failed with error 'at 1:0:\ndef kernel(q, k):\n^\nValueError(\"type fp8e4nv "
    "not supported "
    "in this architecture. The supported fp8 dtypes are ('fp8e4b15', 'fp8e5')\")', please check the "
    "stack trace"
)
FLAG = (
    "usage: vllm [-h] {serve,complete,chat} ...\nvllm: error: unrecognized arguments: --disable-log-requests"
)
HEADS = "ValueError: Total number of attention heads (40) must be divisible by tensor parallel size (6)."
GATED = (
    "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
    "https://hub.example/org/model.\n"
    "401 Client Error. (Request ID: Root=1-68)\nCannot access gated repo for url "
    "https://hub.example/config.json."
)
NO_DEVICE = "RuntimeError: Failed to infer device type"

CASES: dict[str, tuple[str, Category]] = {
    "H30": (FREE_MEMORY, Category.GPU_BUSY_OR_UTIL_TOO_HIGH),
    "H31": (NO_BLOCKS, Category.KV_ZERO),
    "H32": (V0_LENGTH, Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "H33": (V1_LENGTH, Category.KV_TOO_SMALL_FOR_MAX_LEN),
    "H34": (SAMPLER, Category.OOM_SAMPLER_WARMUP),
    "H35": (OOM, Category.OOM_WEIGHTS),
    "H35 older": (OLD_OOM, Category.OOM_WEIGHTS),
    "H36": (MISMATCH, Category.QUANT_MISMATCH),
    "H37": (UNKNOWN_METHOD, Category.QUANT_UNKNOWN),
    "H37 argparse": (REFUSED_METHOD, Category.QUANT_UNKNOWN),
    "H38": (OLD_GPU, Category.QUANT_HW_UNSUPPORTED),
    "H39": (BF16, Category.DTYPE_HW_UNSUPPORTED),
    "H40": (FP8, Category.FP8_HW_UNSUPPORTED),
    "H41": (FLAG, Category.FLAG_UNKNOWN),
    "H42": (HEADS, Category.TP_HEADS),
    "H43": (GATED, Category.MODEL_DOWNLOAD_AUTH),
    "H44": (NO_DEVICE, Category.NO_DEVICE),
}


def prefixed(text: str, prefix: str) -> str:
    return "\n".join(prefix + line for line in text.split("\n")) + "\n"


def diagnose(log: str, exit_code: int | None = 1, argv: tuple[str, ...] = ()) -> Diagnosis:
    found = classify_boot(log, exit_code=exit_code, argv=argv)
    assert found is not None
    return found


@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES.keys())
@pytest.mark.parametrize(("text", "category"), CASES.values(), ids=CASES.keys())
def test_case_gets_its_category_under_every_prefix(text: str, category: Category, prefix: str) -> None:
    assert diagnose(prefixed(text, prefix)).category is category


@pytest.mark.parametrize(("text", "category"), CASES.values(), ids=CASES.keys())
def test_case_is_recognised_without_knowing_how_the_process_ended(text: str, category: Category) -> None:
    assert diagnose(text, exit_code=None).category is category


def test_h30_computes_the_highest_share_that_fits() -> None:
    found = diagnose(FREE_MEMORY)
    # 31.44 / 47.38 = 0.6636, rounded down
    assert found.figures["fitting_utilization"] == 0.66
    assert (found.figures["free_gib"], found.figures["total_gib"], found.figures["wanted_gib"]) == (
        31.44,
        47.38,
        45.01,
    )
    assert "--gpu-memory-utilization 0.66" in found.remedy


def test_h31_never_advises_a_lower_share_and_tells_the_weights() -> None:
    log = "INFO 11-18 18:07:20 model_runner.py:1077] Loading model weights took 13.50 GB\n"
    log += (
        "INFO 11-18 18:07:21 [gpu_model_runner.py:1777] Model loading took 14.25 GiB and 3.2 seconds\n"
        + NO_BLOCKS
    )
    remedy = diagnose(log, argv=("--gpu-memory-utilization", "0.3")).remedy
    assert remedy.startswith("raise --gpu-memory-utilization (now 0.3)")
    assert "14.25 GiB" in remedy


def test_h31_source_line_of_the_traceback_is_not_the_message() -> None:
    frame = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\n'
    source = '    raise ValueError("No available memory for the cache blocks. "\n'
    log = f"{frame}{source}KeyError: 'something else'\n"
    assert diagnose(log).category is Category.UNKNOWN


def test_h32_suggests_the_length_that_fits() -> None:
    found = diagnose(V0_LENGTH)
    assert (found.figures["max_model_len"], found.figures["fitting_len"]) == (32768, 7344)
    assert "--max-model-len 7344" in found.remedy


def test_h33_estimates_by_proportion_and_says_so() -> None:
    found = diagnose(V1_LENGTH)
    # 1048576 * 9.97 / 24.00 = 435595.9, down to a multiple of 16
    assert found.figures["approximate_len"] == 435584
    assert "approximate" in found.remedy


def test_h33_prefers_the_printed_estimate() -> None:
    text = V1_LENGTH.replace(
        "Try", "Based on the available memory, the estimated maximum model length is 435200. Try"
    )
    found = diagnose(text)
    assert found.figures["fitting_len"] == 435200
    assert "approximate" not in found.remedy


def test_h33_computes_the_share_that_would_do() -> None:
    seen = (
        "Free memory on device (139.0/140.0 GiB) on startup. Desired GPU memory utilization is (0.5, 70 GiB)."
    )
    log = f"INFO 11-30 06:44:49 [gpu_worker.py:857] {seen}\n{V1_LENGTH}"
    found = diagnose(log, argv=("--gpu-memory-utilization=0.5",))
    # 0.5 + (24.00 - 9.97) / 140 = 0.6002, rounded up
    assert found.figures["needed_utilization"] == 0.61
    assert "to 0.61" in found.remedy


def test_h34_prints_the_number_of_sequences() -> None:
    assert "--max-num-seqs (now 256)" in diagnose(SAMPLER).remedy


def test_h34_is_not_the_plain_out_of_memory_that_caused_it() -> None:
    chain = f"{OLD_OOM}\n\nThe above exception was the direct cause of the following exception:\n\n{SAMPLER}"
    assert diagnose(chain).category is Category.OOM_SAMPLER_WARMUP


def test_h35_names_the_process_that_holds_the_gpu() -> None:
    found = diagnose(OOM)
    assert found.cause.startswith("GPU 1 ran out of memory")
    assert "process 133288 holds 22.97 GiB" in found.cause
    assert "stop process 133288" in found.remedy


def test_h35_own_process_is_not_another_one() -> None:
    found = diagnose("(EngineCore pid=133288) " + OOM)
    assert "holds" not in found.cause


def test_h36_names_both_methods_and_drops_the_flag() -> None:
    found = diagnose(MISMATCH)
    assert (found.figures["config_method"], found.figures["argument"]) == ("gptq", "gptq_marlin")
    assert found.remedy.startswith("drop --quantization")


def test_h37_names_the_nearest_method() -> None:
    assert diagnose(UNKNOWN_METHOD).figures["nearest"] == "awq_marlin"
    assert diagnose(REFUSED_METHOD, exit_code=2).figures["nearest"] == "awq_marlin"


def test_h38_shows_capabilities_as_people_write_them() -> None:
    assert diagnose(OLD_GPU).cause == "awq needs a GPU of capability 7.5, and this one has 7.0"


def test_h39_advises_half() -> None:
    assert diagnose(BF16).remedy == "add --dtype half"


def test_h40_names_the_flag_where_it_was_given_and_the_checkpoint_where_not() -> None:
    assert "--kv-cache-dtype fp8" in diagnose(FP8, argv=("serve", "m", "--kv-cache-dtype", "fp8")).cause
    assert "checkpoint" in diagnose(FP8).cause


def test_h41_names_the_flag_the_version_and_what_replaced_it() -> None:
    found = classify_boot(FLAG, exit_code=2, vllm_version="0.12.0")
    assert found is not None
    assert found.cause == "vLLM 0.12.0 has no flag --disable-log-requests"
    assert "--enable-log-requests" in found.remedy


def test_h42_lists_the_sizes_that_divide() -> None:
    # divisors of 40 up to 8
    assert "1, 2, 4, 5, 8" in diagnose(HEADS).remedy


def test_h43_is_not_the_servers_own_401() -> None:
    assert "not the server's API key" in diagnose(GATED).cause
