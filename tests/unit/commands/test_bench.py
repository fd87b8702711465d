# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf bench`` against the golden engine: numbers, samples, exit codes, and no key anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer, Profile, ServerOptions

KEY = "sk-bench-secret-key"
SMALL = ["--requests", "6", "--output-tokens", "4", "--prompt-tokens", "48", "--warmup-requests", "2"]


@pytest.fixture
def golden() -> Iterator[GoldenServer]:
    """Offer a fast golden engine."""
    with GoldenServer(Profile(ttft_ms=20, itl_ms=2), ServerOptions()) as server:
        yield server


@pytest.fixture
def bench(golden: GoldenServer, capsys: pytest.CaptureFixture[str]) -> Any:
    """Offer a call of the command that returns its exit code and standard output."""

    def call(*options: str) -> tuple[int, str]:
        code = main(["bench", "--base-url", golden.base_url, "--model", golden.options.model, *options])
        return code, capsys.readouterr().out

    return call


def said(result: tuple[int, str]) -> Any:
    """Return the JSON object that was printed."""
    return json.loads(result[1])


@pytest.fixture
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take a busy test machine out of the verdict: a late generator would make it exit code 10."""
    monkeypatch.setattr("vllm_perf.commands.bench.check_runs", lambda runs, workload, facts: ())


@pytest.mark.usefixtures("calm")
def test_a_good_run_exits_0_and_prints_its_numbers(bench: Any) -> None:
    code, text = bench(*SMALL, "--json")
    result = json.loads(text)
    assert (code, result["outcome"], result["sent"], result["failed"]) == (0, "ok", 6, 0)
    assert result["metrics"]["ttft_p50"]["value"] >= 20
    assert result["valid"] is True


@pytest.mark.usefixtures("calm")
@pytest.mark.parametrize("client", ["socket", "openai"])
def test_the_client_can_be_chosen_and_is_named(client: str, bench: Any) -> None:
    code, text = bench(*SMALL, "--client", client, "--json")
    (repetition,) = json.loads(text)["repetitions"]
    assert (code, repetition["client"].split(" ")[0]) == (0, client)


def test_options_shape_the_load(bench: Any, golden: GoldenServer) -> None:
    result = said(bench(*SMALL, "--concurrency", "3", "--ramp-s", "0.05", "--seed", "9", "--json"))
    workload = result["workload"]
    assert (workload["arrival"]["concurrency"], workload["arrival"]["ramp_s"], workload["seed"]) == (
        3,
        0.05,
        9,
    )
    assert result["repetitions"][0]["peak_in_flight"] <= 3
    assert {record.prompt_tokens for record in golden.records.all()} >= {48}


def test_shared_tokens_are_part_of_the_prompts_tokens(bench: Any) -> None:
    prompt = said(bench(*SMALL, "--shared-tokens", "32", "--json"))["workload"]["prompt"]
    assert (prompt["kind"], prompt["shared_tokens"], prompt["unique_tokens"]) == ("shared_prefix", 32, 16)


def test_a_rate_makes_an_open_loop(bench: Any) -> None:
    result = said(bench(*SMALL, "--rate", "200", "--arrival", "constant", "--json"))
    assert result["workload"]["arrival"]["kind"] == "constant"
    assert result["repetitions"][0]["asked_rate_per_s"] == pytest.approx(200)


def test_a_workload_of_a_file_is_run_by_name(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "workloads.toml"
    path.write_text(
        '[workloads.tiny]\nprompt = { kind = "unique", unique_tokens = 40 }\nrequests = 3\n'
        "output_tokens = 2\nrepetitions = 2\n"
    )
    result = said(bench("--workload", "tiny", "--workloads", str(path), "--json"))
    assert (result["workload"]["name"], result["sent"], len(result["repetitions"])) == ("tiny", 6, 2)
    assert len({run["prompt_set_hash"] for run in result["repetitions"]}) == 1


def test_without_a_seed_no_two_runs_send_the_same(bench: Any) -> None:
    hashes = [said(bench(*SMALL, "--json"))["repetitions"][0]["prompt_set_hash"] for _ in range(2)]
    assert hashes[0] != hashes[1]


def test_the_same_seed_is_noticed_by_the_servers_cache(bench: Any) -> None:
    assert "HIT_RATE" not in bench(*SMALL, "--seed", "3")[1]
    code, text = bench(*SMALL, "--seed", "3")
    assert code == 10
    assert "no verdict: HIT_RATE" in text


def test_samples_are_one_json_line_a_request(bench: Any, golden: GoldenServer, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    bench(*SMALL, "--samples", str(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 6
    for line in lines:
        record = golden.record(line["id"])
        assert line["scheduled_ns"] <= line["sent_ns"] < line["first_token_ns"] <= line["last_token_ns"]
        assert line["first_token_ns"] >= (record.first_token_ns or 0)
        assert (line["output_tokens"], line["outcome"]) == (4, "ok")


@pytest.mark.usefixtures("calm")
def test_people_get_a_table_with_units(bench: Any) -> None:
    code, text = bench(*SMALL)
    assert code == 0
    assert "TTFT" in text
    assert "output throughput" in text
    assert "tokens/s" in text


def test_the_clients_own_share_is_shown_when_asked_for(bench: Any) -> None:
    floor = said(bench(*SMALL, "--floor", "--json"))["floor"]
    assert 0 < floor["ttft_p50_ms"] <= floor["ttft_p99_ms"]


def test_a_dead_server_is_said_at_once_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["bench", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--requests", "1000"])
    text = capsys.readouterr().out
    assert code == 1
    assert "1 x SERVER_DOWN" in text
    assert "do:" in text


def test_a_wrong_model_is_named_with_what_to_do(
    golden: GoldenServer, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["bench", "--base-url", golden.base_url, "--model", "nope", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, result["outcome"], result["valid"]) == (1, "MODEL_NOT_FOUND", False)
    assert result["remedy"]


def test_a_run_that_gives_no_verdict_exits_10_and_says_why(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "workloads.toml"
    path.write_text(
        '[workloads.hot]\nprompt = { kind = "unique", unique_tokens = 64 }\nrequests = 3\noutput_tokens = 2\n'
        "hit_rate_min = 0.9\n"
    )
    code, text = bench("--workload", "hot", "--workloads", str(path))
    assert code == 10
    assert "no verdict: HIT_RATE" in text


def test_failed_requests_exit_1_and_are_counted_by_kind(
    golden: GoldenServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = golden.base_url_for(fault="H62-503")
    code = main(["bench", "--base-url", url, "--model", golden.options.model, *SMALL, "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (code, sum(result["outcomes"].values()), result["failed"]) == (1, 1, 1)
    assert result["valid"] is False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rate", "5", "--concurrency", "2"], "give one of them"),
        (["--arrival", "poisson"], "--arrival needs --rate"),
        (["--shared-tokens", "50", "--prompt-tokens", "40"], "leaves nothing"),
        (["--workload", "chatt", "--workloads", "/nowhere.toml"], "cannot be read"),
        (["--requests", "0"], "requests"),
        (["--api-key-env", "NO_SUCH_VARIABLE"], "no variable 'NO_SUCH_VARIABLE'"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(
    bench: Any, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    code = main(["bench", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", *options])
    assert code == 2
    assert said in capsys.readouterr().err


def test_an_unknown_workload_is_refused_with_the_known_ones(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "workloads.toml"
    path.write_text('[workloads.chat]\nprompt = { kind = "unique", unique_tokens = 40 }\n')
    url = "http://127.0.0.1:9/v1"
    options = ["--workload", "chatt", "--workloads", str(path)]
    assert main(["bench", "--base-url", url, "--model", "m", *options]) == 2
    assert "did you mean 'chat'" in capsys.readouterr().err


@pytest.mark.parametrize("key", [KEY, KEY + "\n"])
def test_the_key_is_sent_and_never_shown(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_KEY", key)
    path = tmp_path / "samples.jsonl"
    with GoldenServer(Profile(ttft_ms=2, itl_ms=1), ServerOptions(api_key=KEY)) as server:
        url, model = server.base_url, server.options.model
        for options in (["--json"], []):
            where = ["--base-url", url, "--model", model, "--api-key-env", "BENCH_KEY"]
            code = main(["bench", *where, *SMALL, *options, "--samples", str(path)])
            assert (code == 1) is (key != KEY)
    shown = capsys.readouterr()
    assert KEY not in shown.out + shown.err + path.read_text()
