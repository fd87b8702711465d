# SPDX-License-Identifier: Apache-2.0
"""The grammar of prefixes: who wrote a line, at which level, and what it says."""

import json

import pytest

from vllm_perf.diagnosis.envelope import read_object
from vllm_perf.diagnosis.errortext import by_process, error_lines, squeezed
from vllm_perf.diagnosis.logtext import read_lines

LINES: dict[str, tuple[str, tuple[str, str | None, str, str]]] = {
    "0.6": ("ERROR 11-18 18:07:28 engine.py:366] boom", ("", "ERROR", "engine.py:366", "boom")),
    "0.8": ("ERROR 04-30 10:20:36 [core.py:396] boom", ("", "ERROR", "core.py:396", "boom")),
    "0.8 worker": (
        "(VllmWorker rank=1 pid=9) ERROR 05-10 16:00:15 [multiproc_executor.py:470] boom",
        ("VllmWorker", "ERROR", "multiproc_executor.py:470", "boom"),
    ),
    "0.11.1, path": (
        "(EngineCore_DP0 pid=9) ERROR 11-19 12:16:36 [v1/engine/core.py:842] boom",
        ("EngineCore_DP0", "ERROR", "v1/engine/core.py:842", "boom"),
    ),
    "stage": (
        "(Worker pid=9) [Stage-0] WARNING 11-19 12:16:36 [core.py:1] boom",
        ("Worker", "WARNING", "core.py:1", "boom"),
    ),
    "no level": ("(EngineCore pid=9) boom", ("EngineCore", None, "", "boom")),
    "uvicorn": ("INFO:     Application startup complete.", ("", "INFO", "", "Application startup complete.")),
    "uvicorn in a process": ("(APIServer pid=9) INFO:     up", ("APIServer", "INFO", "", "up")),
    "docker-compose": (
        "vllm-1  | ERROR 04-30 10:20:36 [core.py:396] boom",
        ("", "ERROR", "core.py:396", "boom"),
    ),
    "iso": (
        "[2025-03-10T15:07:20Z] ERROR 04-30 10:20:36 [core.py:396] boom",
        ("", "ERROR", "core.py:396", "boom"),
    ),
    "cloud": (
        "2025-11-19T20:16:36.096Z [resource.labels.containerName: vllm] (EngineCore pid=9) boom",
        ("EngineCore", None, "", "boom"),
    ),
    "kubernetes": ("2025-11-19T20:16:36.096123456Z stderr F boom", ("", None, "", "boom")),
    "syslog": ("Nov 30 06:24:46 gpu7 vllm[7]: boom", ("", None, "", "boom")),
    "rank": ("[rank0]: boom", ("", None, "", "boom")),
    "ray": (
        "(EngineCore pid=9) (RayWorkerWrapper pid=8, ip=192.0.2.4) boom",
        ("RayWorkerWrapper", None, "", "boom"),
    ),
    "colours": (
        "\x1b[1;36m(EngineCore pid=9)\x1b[0;0m \x1b[31mERROR\x1b[0m 11-30 06:46:41 [core.py:1] "
        "\x1b[1mbo\x1b[0mom",
        ("EngineCore", "ERROR", "core.py:1", "boom"),
    ),
    "docker's JSON": (
        json.dumps({"log": "(EngineCore pid=9) boom\n", "stream": "stderr"}),
        ("EngineCore", None, "", "boom"),
    ),
    "structured JSON": (json.dumps({"severity": "ERROR", "message": "boom"}), ("", None, "", "boom")),
    "indentation is kept": ("(EngineCore pid=9)     raise X", ("EngineCore", None, "", "    raise X")),
    "nothing to strip": ("ValueError: a | b", ("", None, "", "ValueError: a | b")),
}


@pytest.mark.parametrize(("raw", "expected"), LINES.values(), ids=LINES.keys())
def test_prefix_is_stripped_and_read(raw: str, expected: tuple[str, str | None, str, str]) -> None:
    (line,) = read_lines(raw)
    assert (line.process, line.level, line.source, line.text) == expected


def test_line_without_a_prefix_belongs_to_the_process_before_it() -> None:
    lines = read_lines("(EngineCore pid=9) ERROR 11-30 06:46:41 [core.py:1] first part of\na long message\n")
    assert [line.process for line in lines] == ["EngineCore", "EngineCore"]
    assert [line.stamped for line in lines] == [True, False]


def test_rewritten_progress_bars_and_farewells_of_native_libraries_are_left_out() -> None:
    log = (
        "Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]\n"
        "a:   0%|          | 0/51 [00:00<?, ?it/s]\ra: 100%|███| 51/51 [00:02<00:00, 20it/s]\n"
        'nanobind: leaked 4 instances!\n - leaked type "x"\n\nkept\n'
    )
    assert [(line.number, line.text) for line in read_lines(log)] == [(6, "kept")]


def test_missing_values_of_an_error_body_are_empty_whatever_their_spelling() -> None:
    envelope = read_object({"error": {"message": "m", "param": "None", "code": None, "type": 7}})
    assert (envelope.param, envelope.code, envelope.type) == ("", "", "7")


def test_hours_of_complaints_are_not_read_to_the_end() -> None:
    log = "ValueError: the cause\n" + "(EngineCore pid=9) ERROR 11-30 06:46:41 [core.py:1] again\n" * 5000
    texts = by_process(error_lines(read_lines(log)))
    assert [len(text.numbers) for text in texts] == [1, 4000]
    assert len(squeezed(texts[1]).numbers) == 400
