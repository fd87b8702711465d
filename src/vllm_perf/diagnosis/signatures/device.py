# SPDX-License-Identifier: Apache-2.0
"""Failures of the machine: no GPU, too few, a package missing."""

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.diagnosis.signatures.signature import Figures, Signature
from vllm_perf.spec.category import Category


def _missing(figures: Figures, _: BootContext) -> str:
    what = figures.get("module") or figures.get("problem", "see the evidence")
    return f"a Python package cannot be imported: {what}"


def _install(figures: Figures, _: BootContext) -> str:
    module = figures.get("module")
    if module is None:
        return (
            "reinstall vLLM in a clean environment: its compiled parts do not fit torch, CUDA or this machine"
        )
    package = str(module).partition(".")[0]
    return f"install '{package}' into the environment that runs vLLM, or reinstall vLLM there"


SIGNATURES = (
    Signature(
        name="no device found",
        category=Category.NO_DEVICE,
        pattern=r"(?:Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver on"
        r" your system"
        r"|no CUDA-capable device is detected|libcuda\.so\.1: cannot open shared object file"
        r"|Device string must not be empty|CUDA unknown error - this may be due to an incorrectly set up)",
        cause="vLLM sees no GPU on this machine",
        remedy="check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's GPU option, or install a "
        "vLLM for the CPU; "
        "without a GPU, leave out the GPU configurations",
        versions="0.7.2 (vllm#12847); torch's own texts",
    ),
    Signature(
        name="driver too old",
        category=Category.NO_DEVICE,
        pattern=r"The NVIDIA driver on your system is too old \(found version (?P<driver>\d+)\)",
        cause="the GPU's driver (CUDA {driver}) is older than this build of torch needs",
        remedy="upgrade the driver, or install a vLLM built for an older CUDA",
        versions="torch's own text (source)",
    ),
    Signature(
        name="fewer GPUs than asked for",
        category=Category.NO_DEVICE,
        pattern=r"(?:CUDA error: invalid device ordinal|(?:World size|Tensor parallel size|tensor"
        r" parallel size)"
        r" \((?P<wanted>\d+)\) (?:is larger than|cannot be larger than) the number of available"
        r" (?:GPUs|devices)"
        r" \((?P<present>\d+)\)|The number of required GPUs exceeds the total number of available GPUs)",
        cause="more GPUs are asked for than are visible",
        remedy="lower --tensor-parallel-size, or make more GPUs visible (CUDA_VISIBLE_DEVICES)",
        versions="source of 0.32; torch's own text",
    ),
    Signature(
        name="fewer NUMA nodes than workers",
        category=Category.NO_DEVICE,
        pattern=r"Not enough allowed NUMA nodes to bind threads of (?P<wanted>\d+) local CPUWorkers",
        cause="{wanted} CPU workers are asked for, and there are fewer NUMA nodes",
        remedy="lower --tensor-parallel-size, or bind threads by hand (VLLM_CPU_OMP_THREADS_BIND)",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="kernel missing in this build",
        category=Category.FP8_HW_UNSUPPORTED,
        pattern=r"_C::static_scaled_fp8_quant\(\) expected at most 0 argument",
        cause="this build of vLLM has no fp8 kernels (the CPU build has none)",
        remedy="serve without --quantization fp8",
        versions="0.32 on the CPU",
    ),
    Signature(
        name="module missing",
        category=Category.IMPORT_ERROR,
        pattern=r"(?:ModuleNotFoundError|ImportError): (?:No module named"
        r" '(?P<module>[\w.]+)'|(?P<problem>[^\n]+))",
        cause=_missing,
        remedy=_install,
        versions="0.26 on an H200",
        weak=True,
    ),
)
