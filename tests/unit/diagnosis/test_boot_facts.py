# SPDX-License-Identifier: Apache-2.0
"""What a booted engine says about itself, and whether that is what was asked."""

from dataclasses import fields
from pathlib import Path

import pytest

from vllm_perf.diagnosis.boot_checks import check_boot
from vllm_perf.diagnosis.boot_facts import BootFacts, read_boot_facts
from vllm_perf.spec.category import Category

LOGS = Path(__file__).parent / "data" / "logs"


def facts_of(name: str) -> BootFacts:
    return read_boot_facts((LOGS / f"{name}.log").read_text(encoding="utf-8"))


def test_gpu_log_of_0_26_gives_every_fact() -> None:
    assert facts_of("gpu-0.26-awq-boots") == BootFacts(
        version="0.26.0",
        platform="cuda",
        model="models/qwen7b-awq",
        dtype="float16",
        attention_backend="FLASH_ATTN",
        quantization="auto_awq",
        quantization_kernel="MacheteLinearKernel",
        kv_cache_dtype="auto",
        kv_cache_tokens=2_099_104,
        max_concurrency=256.24,
        max_model_len=8192,
        available_kv_gib=112.11,
        weights_gib=5.38,
        weights_load_s=1.714851,
        prefix_caching=True,
        enforce_eager=False,
        compile_s=19.34,
        graph_capture_s=4.0,
        graph_memory_gib=0.92,
        engine_init_s=41.98,
        serving=True,
        asked={
            "model_tag": "models/qwen7b-awq",
            "model": "models/qwen7b-awq",
            "max_model_len": "8192",
            "served_model_name": "['m']",
            "load_format": "dummy",
            "attention_backend": "FLASH_ATTN",
            "gpu_memory_utilization": "0.85",
            "enable_prefix_caching": "True",
        },
    )


def test_cpu_log_of_0_32_gives_what_a_cpu_has() -> None:
    facts = facts_of("cpu-0.32-boots")
    assert (facts.version, facts.platform, facts.attention_backend) == ("0.32.0", "cpu", "CPU_ATTN")
    assert (facts.kv_cache_tokens, facts.max_concurrency, facts.available_kv_gib) == (524_288, 256.0, 1.0)
    assert (facts.max_model_len, facts.prefix_caching, facts.enforce_eager) == (2048, True, False)
    assert facts.engine_init_s == 42.11
    assert facts.weights_gib is None


def test_prefix_caching_off_is_seen() -> None:
    assert facts_of("gpu-0.26-serves-then-stops").prefix_caching is False


def test_fp8_cache_and_its_doubled_tokens_are_seen() -> None:
    facts = facts_of("cpu-0.32-real-kv-fp8-boots")
    assert (facts.kv_cache_dtype, facts.kv_cache_tokens) == ("fp8", 524_288)


def test_cpu_kernel_of_awq_is_seen() -> None:
    facts = facts_of("cpu-0.32-real-awq-boots")
    assert (facts.quantization, facts.quantization_kernel) == ("awq", "CPUWNA16LinearKernel")


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_no_log_makes_up_a_zero(path: Path) -> None:
    facts = read_boot_facts(path.read_text(encoding="utf-8"))
    numbers = [getattr(facts, field.name) for field in fields(facts) if field.name != "serving"]
    assert not [number for number in numbers if number == 0 and not isinstance(number, bool)]


BACKENDS = {
    "Using AttentionBackendEnum.TRITON_ATTN backend.": "TRITON_ATTN",
    "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].": (
        "FLASHINFER"
    ),
    "Using Flash Attention backend on V1 engine.": "FLASH_ATTN",
    "Using Triton backend on V1 engine.": "TRITON_ATTN",
    "Using Flash Attention backend.": "FLASH_ATTN",
    "Using FlashInfer backend.": "FLASHINFER",
    "Using XFormers backend.": "XFORMERS",
    "Using Torch SDPA backend.": "TORCH_SDPA",
    "Using FLASH_ATTN_MLA backend.": "FLASH_ATTN_MLA",
}


@pytest.mark.parametrize(("line", "backend"), BACKENDS.items(), ids=BACKENDS.values())
def test_backend_is_read_from_every_wording(line: str, backend: str) -> None:
    assert read_boot_facts(f"INFO 06-17 13:04:11 [cuda.py:290] {line}\n").attention_backend == backend


@pytest.mark.parametrize(
    "line", ["Using Flash Attention backend for ViT model.", "Using FlashAttention version 3"]
)
def test_other_backends_are_not_the_attention_backend(line: str) -> None:
    assert read_boot_facts(f"INFO 06-17 13:04:11 [cuda.py:290] {line}\n").attention_backend is None


OLD = (
    "INFO 11-18 18:07:20 llm_engine.py:237] Initializing an LLM engine (v0.6.4.post1) with config: "
    "model='m', "
    "dtype=torch.float16, max_seq_len=4096, quantization=None, enforce_eager=True, kv_cache_dtype=auto, "
    "device_config=cuda, enable_prefix_caching=False\n"
    "INFO 11-18 18:07:21 model_runner.py:1077] Loading model weights took 14.2487 GB\n"
    "INFO 11-18 18:07:22 distributed_gpu_executor.py:57] # GPU blocks: 27,102, # CPU blocks: 4681\n"
    "INFO 11-18 18:07:22 distributed_gpu_executor.py:61] Maximum concurrency for 4096 tokens per "
    "request: 105.87x\n"
)


def test_v0_log_gives_blocks_instead_of_tokens() -> None:
    facts = read_boot_facts(OLD)
    assert (facts.version, facts.kv_blocks, facts.kv_cache_tokens) == ("0.6.4.post1", 27_102, None)
    assert (facts.weights_gib, facts.max_model_len, facts.prefix_caching) == (14.2487, 4096, False)


UPGRADED = (
    "(EngineCore pid=9) INFO 03-01 10:00:00 [gpu_worker.py:1] In v0.19, CUDA graph memory profiling "
    "will be enabled by "
    "default (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1). increase --gpu-memory-utilization from "
    "0.7000 to 0.7021 to "
    "maintain the same effective KV cache size.\n"
    "(EngineCore pid=9) INFO 03-01 10:00:00 [g.py:1] Estimated CUDA graph memory: 0.26 GiB total\n"
    "(EngineCore pid=9) INFO 03-01 10:00:00 [g.py:1] Available KV cache memory: 17.36 GiB\n"
    "(EngineCore pid=9) INFO 03-01 10:00:00 [g.py:1] GPU KV cache size: 188,640 tokens\n"
    "(EngineCore pid=9) INFO 03-01 10:00:00 [g.py:1] Maximum concurrency for 131,072 tokens per "
    "request: 5.23x\n"
)


def test_h92_success_lines_are_read_with_their_commas() -> None:
    facts = read_boot_facts(UPGRADED)
    assert (facts.kv_cache_tokens, facts.available_kv_gib, facts.graph_memory_gib) == (188_640, 17.36, 0.26)
    assert (facts.max_concurrency, facts.max_model_len) == (5.23, 131_072)
    assert [note.kind for note in facts.notes] == ["kv_cache_shrunk"]


@pytest.mark.parametrize(
    "text",
    [
        "Default vLLM sampling parameters have been overridden by the model's "
        "`generation_config.json`: `{'top_k': 20}`.",
        "Default sampling parameters have been overridden by the model's Hugging Face generation "
        "config recommended",
    ],
)
def test_h94_changed_sampling_is_noted(text: str) -> None:
    facts = read_boot_facts(f"(APIServer pid=1) WARNING 11-30 06:44:01 [model.py:1894] {text}\n")
    assert [note.kind for note in facts.notes] == ["sampling_overridden"]
    assert "--generation-config vllm" in facts.warnings[0]


FORCED = (
    "INFO 06-17 13:04:11 [awq_marlin.py:120] Detected that the model can run with awq_marlin, however "
    "you specified "
    "quantization=awq explicitly, so forcing awq. Use quantization=awq_marlin for faster inference\n"
    "WARNING 06-17 13:04:11 [config.py:960] awq quantization is not fully optimized yet. The speed can "
    "be slower than "
    "non-quantized models.\n"
)


def test_h47_forced_slow_kernel_is_a_configuration_that_was_not_meant() -> None:
    facts = read_boot_facts(FORCED)
    (found,) = check_boot(facts, asked={"quantization": "awq"})
    assert facts.quantization_kernel == "awq"
    assert found.category is Category.CONFIG_NOT_APPLIED
    assert found.remedy.startswith("drop --quantization")
    assert "forcing awq" in found.evidence


def test_h48_ignored_variable_is_named_with_both_backends() -> None:
    facts = read_boot_facts(
        "INFO 06-17 13:04:11 [cuda.py:422] Using AttentionBackendEnum.FLASH_ATTN backend.\n"
    )
    (found,) = check_boot(facts, env={"VLLM_ATTENTION_BACKEND": "TRITON_ATTN"})
    assert found.category is Category.BACKEND_NOT_APPLIED
    assert found.figures == {"asked": "TRITON_ATTN", "applied": "FLASH_ATTN"}
    assert "--attention-backend" in found.remedy


def test_h48_backend_that_the_platform_ignores_is_found_in_a_real_log() -> None:
    facts = facts_of("cpu-0.32-real-backend-ignored")
    assert [found.category for found in check_boot(facts)] == [Category.BACKEND_NOT_APPLIED]
    assert "backend_ignored" in [note.kind for note in facts.notes]


@pytest.mark.parametrize(
    "name", ["gpu-0.26-awq-boots", "gpu-0.26-bf16-boots", "gpu-0.26-serves-then-stops", "cpu-0.32-boots"]
)
def test_engine_that_runs_what_was_asked_passes(name: str) -> None:
    assert check_boot(facts_of(name)) == ()


@pytest.mark.parametrize(
    ("flag", "value"),
    [("max_model_len", "4096"), ("kv_cache_dtype", "fp8"), ("enable_prefix_caching", "False")],
)
def test_any_other_difference_is_named(flag: str, value: str) -> None:
    (found,) = check_boot(facts_of("gpu-0.26-awq-boots"), asked={flag: value})
    assert found.category is Category.CONFIG_NOT_APPLIED
    assert found.figures["asked"] == value
