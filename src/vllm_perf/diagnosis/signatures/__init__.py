# SPDX-License-Identifier: Apache-2.0
"""The table of vLLM's known failures, by theme; the first root cause in a log is looked up here."""

from vllm_perf.diagnosis.signatures import device, flags, memory, model, process, quantization
from vllm_perf.diagnosis.signatures.signature import Signature

SIGNATURES: tuple[Signature, ...] = (
    # Before the flags, whose refused values are a wider net.
    *quantization.SIGNATURES,
    *flags.SIGNATURES,
    *model.SIGNATURES,
    *memory.SIGNATURES,
    *device.SIGNATURES,
    *process.SIGNATURES,
)
