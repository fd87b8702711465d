# SPDX-License-Identifier: Apache-2.0
"""Equal parts have equal keys, and what differs can be listed."""

from dataclasses import fields, replace

import pytest

from tests.unit.history.builders import H200, environment
from vllm_perf.history.environment import (
    Hardware,
    Software,
    Workload,
    diff,
    identity_diff,
    identity_key,
    stable_hash,
)
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.history import (
    HARDWARE_FIELDS,
    SOFTWARE_FIELDS,
    WORKLOAD_FIELDS,
    IdentitySpec,
    load_history_spec,
)


def test_keys_do_not_depend_on_the_process() -> None:
    assert stable_hash({"b": 1, "a": [1.5, None, "x"]}) == "52686768c7445ae4"


def test_equal_numbers_have_equal_keys() -> None:
    assert stable_hash({"rate": 5}) == stable_hash({"rate": 5.0})


def test_each_part_has_a_key_of_its_own() -> None:
    a, b = environment(), environment(vllm="0.33.0")
    assert (a.hardware_key, a.workload_key) == (b.hardware_key, b.workload_key)
    assert a.software_key != b.software_key
    assert a.key != b.key


def test_differences_are_listed_by_name() -> None:
    a, b = environment(), environment(vllm="0.33.0", seed=7)
    b = replace(b, software=replace(b.software, engine_args={"max-model-len": 8192, "dtype": "half"}))
    assert diff(a, b) == [
        "software.vllm_version: 0.32.0 → 0.33.0",
        "software.engine_args.max-model-len: 4096 → 8192",
        "software.engine_args.dtype: (none) → half",
        "workload.seed: (none) → 7",
    ]


def test_a_difference_in_every_gpu_is_shown_as_lists() -> None:
    two = replace(H200, gpu_names=("NVIDIA H200", "NVIDIA H200"))
    assert identity_diff(environment(), environment(hardware=two), IdentitySpec()) == [
        "hardware.gpu_names: NVIDIA H200 → NVIDIA H200, NVIDIA H200"
    ]


def test_the_identity_key_ignores_the_subject() -> None:
    policy = IdentitySpec()
    assert identity_key(environment(), policy) == identity_key(environment(vllm="0.33.0"), policy)
    assert identity_key(environment(), policy) != identity_key(environment(seed=7), policy)


@pytest.mark.parametrize(
    ("part", "known"), [(Hardware, HARDWARE_FIELDS), (Software, SOFTWARE_FIELDS), (Workload, WORKLOAD_FIELDS)]
)
def test_the_policy_knows_every_field(part: type, known: tuple[str, ...]) -> None:
    assert tuple(field.name for field in fields(part)) == known


def test_the_policy_is_read_from_a_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("policy") / "history.toml"
    path.write_text('keep_good = 7\n[identity]\nhardware = ["*"]\nsoftware = ["vllm_version"]\n')
    policy = load_history_spec(path)
    assert policy.keep_good == 7
    assert policy.identity.fields("hardware") == HARDWARE_FIELDS
    assert policy.identity.fields("software") == ("vllm_version",)
    assert policy.identity.fields("workload") == WORKLOAD_FIELDS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[identity]\nhardware = ["gpu_name"]\n', "hardware has no field 'gpu_name'"),
        ("keep = 3\n", "unknown key 'keep'"),
        ("keep_good = 0\n", "keep_good"),
    ],
)
def test_a_policy_that_names_nothing_known_is_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str, says: str
) -> None:
    path = tmp_path_factory.mktemp("policy") / "history.toml"
    path.write_text(text)
    with pytest.raises(SpecError, match=says):
        load_history_spec(path)


def test_without_a_file_the_policy_compares_across_software_alone() -> None:
    identity = load_history_spec(None).identity
    assert identity.software == ()
    assert "gpu_names" in identity.hardware
