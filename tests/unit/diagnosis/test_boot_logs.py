# SPDX-License-Identifier: Apache-2.0
"""Whole boot logs of real vLLM: each boots, or has its one category; none is left out."""

import re
from pathlib import Path

import pytest

from vllm_perf.diagnosis.boot import classify_boot
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

LOGS = Path(__file__).parent / "data" / "logs"

# None: it boots (and may have been stopped later).
EXPECTED: dict[str, Category | None] = {
    "cpu-0.32-boots": None,
    "cpu-0.32-flash-attn-requested": None,
    "cpu-0.32-no-such-model-dies": Category.MODEL_NOT_AVAILABLE,
    "cpu-0.32-quantization-mismatch-dies": Category.QUANT_MISMATCH,
    "cpu-0.32-real-api-server-killed": None,
    "cpu-0.32-real-awq-asked-boots": None,
    "cpu-0.32-real-awq-boots": None,
    "cpu-0.32-real-awq-marlin-on-plain": Category.QUANT_MISMATCH,
    "cpu-0.32-real-awq-on-plain": Category.QUANT_MISMATCH,
    "cpu-0.32-real-backend-ignored": None,
    "cpu-0.32-real-backend-unknown": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-batched-tokens-below-length": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-boot-hangs": Category.UNKNOWN,
    "cpu-0.32-real-dtype-unknown": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-engine-killed": Category.ENGINE_DIED,
    "cpu-0.32-real-engine-suspended": None,
    "cpu-0.32-real-fp8-weights": Category.FP8_HW_UNSUPPORTED,
    "cpu-0.32-real-gptq-on-awq": Category.QUANT_MISMATCH,
    "cpu-0.32-real-hub-id-offline": Category.MODEL_NOT_AVAILABLE,
    "cpu-0.32-real-hub-unreachable": Category.MODEL_NOT_AVAILABLE,
    "cpu-0.32-real-kv-dtype-unknown": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-kv-fp8-boots": None,
    "cpu-0.32-real-kv-space-empty": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-kv-space-huge": Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    "cpu-0.32-real-kv-space-not-whole": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-length-above-kv-cache": Category.KV_TOO_SMALL_FOR_MAX_LEN,
    "cpu-0.32-real-length-above-model": Category.MAX_LEN_TOO_LARGE,
    "cpu-0.32-real-length-not-a-number": Category.FLAG_VALUE_INVALID,
    "cpu-0.32-real-missing-folder": Category.MODEL_NOT_AVAILABLE,
    "cpu-0.32-real-port-taken": Category.PORT_IN_USE,
    "cpu-0.32-real-removed-flag": Category.FLAG_UNKNOWN,
    "cpu-0.32-real-tp-above-numa-nodes": Category.NO_DEVICE,
    "cpu-0.32-real-tp-heads": Category.TP_HEADS,
    "cpu-0.32-real-unknown-method": Category.QUANT_UNKNOWN,
    "cpu-0.32-real-unknown-method-on-awq": Category.QUANT_MISMATCH,
    "cpu-0.32-real-utilization-too-high": Category.GPU_BUSY_OR_UTIL_TOO_HIGH,
    "cpu-0.32-real-utilization-too-low": Category.KV_ZERO,
    "cpu-0.32-real-worker-killed": Category.ENGINE_DIED,
    "cpu-0.32-unknown-flag-dies": Category.FLAG_UNKNOWN,
    "gpu-0.26-awq-bf16-serves": None,
    "gpu-0.26-awq-boots": None,
    "gpu-0.26-awq-fp16-kv-fp8-dies": Category.FP8_HW_UNSUPPORTED,
    "gpu-0.26-bf16-boots": None,
    "gpu-0.26-import-error-dies": Category.IMPORT_ERROR,
    "gpu-0.26-serves-then-stops": None,
}
FAILED = sorted(name for name, category in EXPECTED.items() if category is not None)


def read(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def diagnose(name: str) -> Diagnosis:
    found = classify_boot(read(name), exit_code=None)
    assert found is not None
    return found


def test_every_log_has_an_expectation_and_every_expectation_a_log() -> None:
    assert {path.stem for path in LOGS.glob("*.log")} == set(EXPECTED)


@pytest.mark.parametrize(("name", "category"), EXPECTED.items(), ids=EXPECTED.keys())
def test_log_gets_its_category_or_boots(name: str, category: Category | None) -> None:
    found = classify_boot(read(name), exit_code=None)
    assert (found.category if found else None) is category


@pytest.mark.parametrize("exit_code", [1, 2, -6])
@pytest.mark.parametrize("name", sorted(set(FAILED) - {"cpu-0.32-real-boot-hangs"}))
def test_exit_code_does_not_change_the_category(name: str, exit_code: int) -> None:
    found = classify_boot(read(name), exit_code=exit_code)
    assert found is not None
    assert found.category is EXPECTED[name]


@pytest.mark.parametrize("exit_code", [0, -15, -2, 143, 130])
@pytest.mark.parametrize("name", sorted(name for name, category in EXPECTED.items() if category is None))
def test_booted_server_that_was_asked_to_stop_is_healthy(name: str, exit_code: int) -> None:
    assert classify_boot(read(name), exit_code=exit_code) is None


@pytest.mark.parametrize("name", FAILED)
def test_evidence_points_at_a_line_that_exists_and_is_no_wrapper(name: str) -> None:
    evidence = diagnose(name).evidence
    number = re.search(r"line (\d+)", evidence)
    if number is not None:
        assert read(name).split("\n")[int(number[1]) - 1].strip()
    assert "Engine core initialization failed" not in evidence.partition("; last lines")[0]


def test_api_server_that_was_killed_is_told_from_one_that_still_serves() -> None:
    found = classify_boot(read("cpu-0.32-real-api-server-killed"), exit_code=-9)
    assert found is not None
    assert found.category is Category.ENGINE_DIED
    assert "SIGKILL" in found.cause
    assert "out-of-memory killer" in found.remedy


def test_server_that_hangs_while_booting_is_a_timeout_and_still_alive() -> None:
    found = classify_boot(read("cpu-0.32-real-boot-hangs"), exit_code=None, alive=True, elapsed_s=600)
    assert found is not None
    assert found.category is Category.BOOT_TIMEOUT
    assert "within 600 s" in found.cause


def test_server_that_still_boots_is_left_alone() -> None:
    assert classify_boot(read("cpu-0.32-real-boot-hangs"), exit_code=None, alive=True) is None


def test_negative_kv_memory_means_too_low_a_share_whatever_the_message_says() -> None:
    found = diagnose("cpu-0.32-real-utilization-too-low")
    # (0.08 + 0.7) / 8.34 = 0.0935, rounded up
    assert found.figures["needed_utilization"] == 0.1
    assert found.remedy.startswith("raise --gpu-memory-utilization to more than 0.1 (now 0.01)")


def test_length_that_fits_is_taken_from_the_message() -> None:
    assert "--max-model-len 262016" in diagnose("cpu-0.32-real-length-above-kv-cache").remedy


def test_misspelt_flag_is_corrected_from_the_usage_text() -> None:
    assert diagnose("cpu-0.32-unknown-flag-dies").remedy == "write --attention-backend"


def test_port_is_taken_from_the_arguments_where_the_message_lacks_it() -> None:
    assert "port 18432" in diagnose("cpu-0.32-real-port-taken").cause


def test_missing_package_is_named_from_the_first_link_of_the_chain() -> None:
    assert diagnose("gpu-0.26-import-error-dies").figures == {"module": "pycountry"}


def test_unknown_failure_quotes_the_first_error_and_says_that_it_is_unknown() -> None:
    log = read("cpu-0.32-real-kv-space-empty").replace("ValueError: invalid literal", "FrobError: no frobs")
    found = classify_boot(log, exit_code=None)
    assert found is not None
    assert found.category is Category.UNKNOWN
    assert "none of the known ones" in found.cause
    assert "FrobError: no frobs for int() with base 10: ''" in found.evidence


def test_variable_that_is_set_and_empty_is_named() -> None:
    found = diagnose("cpu-0.32-real-kv-space-empty")
    assert found.figures["variable"] == "VLLM_CPU_KVCACHE_SPACE"
    assert "correct VLLM_CPU_KVCACHE_SPACE" in found.remedy
    assert "invalid literal for int() with base 10: ''" in found.evidence


def test_no_log_holds_a_path_of_the_machine_it_was_made_on() -> None:
    for path in LOGS.glob("*.log"):
        assert not re.search(r"(?<![\w.-])/(?:root|home|work|farm|tmp)/", path.read_text(encoding="utf-8")), (
            path.name
        )


def test_boot_that_was_broken_off_is_nobodys_fault() -> None:
    log = "INFO 12-01 10:00:01 [x.py:1] Starting to load model m...\nKeyboardInterrupt: terminated\n"
    found = classify_boot(log, exit_code=1)
    assert found is not None
    assert found.category is Category.CANCELLED
