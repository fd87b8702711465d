# SPDX-License-Identifier: Apache-2.0
"""Spec files: what they may say, and how a mistake is reported."""

from pathlib import Path

import pytest

from vllm_perf.spec.base import SpecError
from vllm_perf.spec.files import load_budgets, load_engines, load_workloads, load_workloads_for

ENGINES = """
[models.small]
config = { vocab_size = 512 }
[engines.a]
model = "small"
flags = { x = 1, y = true }
env = { A = "1" }
[engines.b]
extends = "a"
title = "b adds z"
flags = { z = "w", x = 2 }
[ladders.l]
platform = "cpu"
engines = ["a", "b"]
"""


def write(folder: Path, text: str, name: str = "f.toml") -> Path:
    """Write a spec file."""
    path = folder / name
    path.write_text(text)
    return path


def test_an_engine_inherits_key_by_key_and_knows_what_it_added(tmp_path: Path) -> None:
    engine = load_engines(write(tmp_path, ENGINES)).engine("b")
    assert engine.flags == {"x": 2, "y": True, "z": "w"}
    assert engine.own_flags == {"z": "w", "x": 2}
    assert engine.env == {"A": "1"}
    assert engine.model == "small"


def test_a_title_is_never_inherited(tmp_path: Path) -> None:
    text = '[engines.a]\nmodel = "m"\ntitle = "first"\n[engines.b]\nextends = "a"\n'
    assert load_engines(write(tmp_path, text)).engine("b").title == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[engines.a]\nmodel = "m"\nflag = {}\n', "unknown key 'flag', did you mean 'flags'?"),
        ('[engines.a]\nmodel = "m"\nextends = "c"\n', "engine 'c' is not known"),
        ('[engines.a]\nextends = "b"\n[engines.b]\nextends = "a"\n', "extends itself: a -> b -> a"),
        ('[engines.a]\ntitle = "x"\n', "'model': Field required"),
        ('[ladders.l]\nplatform = "cpu"\nengines = ["nope"]\n', "engine 'nope' is not known"),
        ("[engine.a]\n", "unknown table 'engine'"),
        ("[engines.a\n", "cannot be read as TOML"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SpecError) as caught:
        load_engines(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_unknown_engine_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"did you mean 'a'|Known: a, b"):
        load_engines(write(tmp_path, ENGINES)).engine("aa")


def test_an_open_loop_without_a_rate_is_refused(tmp_path: Path) -> None:
    text = '[workloads.w]\nprompt = { kind = "unique", unique_tokens = 8 }\narrival = { kind = "poisson" }\n'
    with pytest.raises(SpecError, match="needs rate_per_s"):
        load_workloads(write(tmp_path, text))


def test_a_prompt_file_is_looked_for_beside_the_spec(tmp_path: Path) -> None:
    text = '[workloads.w]\nprompt = { kind = "jsonl", path = "p.jsonl" }\n'
    assert load_workloads(write(tmp_path, text))["w"].prompt.path == str(tmp_path / "p.jsonl")


def test_a_budget_without_a_limit_is_refused(tmp_path: Path) -> None:
    write(tmp_path, 'platform = "cpu"\n[[budgets]]\nmetric = "ttft_p50"\n')
    with pytest.raises(SpecError, match="needs min or max"):
        load_budgets(tmp_path)


def test_this_labs_own_files_are_valid() -> None:
    fixtures = Path(__file__).parents[3] / "fixtures"
    book = load_engines(fixtures / "engines.toml")
    workloads = load_workloads(fixtures / "workloads.toml")
    assert {ladder.platform for ladder in book.ladders.values()} == {"cpu", "cuda", "golden"}
    assert all(len(book.ladder_for(platform).engines) >= 5 for platform in ("cpu", "cuda"))
    assert {"article", "chat", "unique"} <= workloads.keys()
    assert load_budgets(fixtures / "budgets")


def test_every_ladder_of_this_lab_can_serve_the_workloads_it_names() -> None:
    fixtures = Path(__file__).parents[3] / "fixtures"
    book = load_engines(fixtures / "engines.toml")
    named = 0
    for ladder in book.ladders.values():
        workloads = load_workloads_for(fixtures / "workloads.toml", ladder.platform)
        for engine in map(book.engine, ladder.engines):
            for workload in (workloads[name] for name in ladder.workloads):
                named += 1
                prompt = workload.prompt.shared_tokens + workload.prompt.unique_tokens
                assert prompt + workload.output_tokens <= int(engine.flags["max-model-len"]), engine.name
                arrival = workload.arrival
                assert arrival.rate_share is None or arrival.capacity_from in ladder.workloads, workload.name
    assert named
