# SPDX-License-Identifier: Apache-2.0
"""A marked key is planted wherever one could come from; nothing that we print or write may hold it."""

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.errors.gateways import Gateway, running
from tests.plugin.projects import DROPPED, Finished, Project
from vllm_perf.cli import main
from vllm_perf.load.golden_process import golden_process
from vllm_perf.load.plan import Target

# It looks like no key of anybody: only knowing it can hide it.
MARK = "Planted4711marker"
SPELLINGS = (MARK, hashlib.sha256(MARK.encode()).hexdigest())
ECHOES: dict[str, Gateway] = {
    "401 that repeats it": Gateway(status=401, body='{"error":{"message":"no such key: KEY","code":"401"}}'),
    "500 that repeats it": Gateway(status=500, body='{"error":{"message":"crashed with KEY in hand"}}'),
    "page that repeats it": Gateway(
        status=502, body="<html><title>502 KEY</title></html>", headers={"Content-Type": "text/html"}
    ),
    "stream that repeats it": Gateway(
        status=200,
        body='data: {"error":{"message":"KEY is not welcome"}}\n\ndata: [DONE]\n\n',
        headers={"Content-Type": "text/event-stream"},
    ),
    "event that repeats it and is no JSON": Gateway(
        status=200, body="data: KEY\n\n", headers={"Content-Type": "text/event-stream"}
    ),
    "header that repeats it": Gateway(
        status=302, body="", headers={"Location": f"http://127.0.0.1:9/?who={MARK}"}
    ),
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Plant the mark in every variable that usually holds a credential."""
    inherited = {name: value for name, value in os.environ.items() if name not in DROPPED}
    planted = ("LAB_KEY", "OPENAI_API_KEY", "VLLM_API_KEY", "HF_TOKEN", "ANTHROPIC_AUTH_TOKEN")
    return {**inherited, **dict.fromkeys(planted, MARK), "VLLM_PERF_STATE_DIR": str(tmp_path / "state")}


@pytest.fixture(scope="module")
def golden() -> Iterator[Target]:
    """Run an engine that wants the mark as its key."""
    with golden_process(api_key=MARK, ttft_ms=20, itl_ms=2) as target:
        yield target


def _run(words: list[str], env: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run ``vllm-perf`` in ``folder``; nothing of what it prints or writes may hold the mark."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        patch.chdir(folder)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = main(words)
    _clean(printed.getvalue(), folder)
    return code, printed.getvalue()


def _clean(printed: str, *folders: Path) -> None:
    for spelling in SPELLINGS:
        assert spelling not in printed
        for folder in folders:
            found = [
                path
                for path in folder.rglob("*")
                if path.is_file() and spelling.encode() in path.read_bytes()
            ]
            assert found == []


def test_the_search_itself_finds_a_mark(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text(f"x{SPELLINGS[1]}x")
    with pytest.raises(AssertionError):
        _clean("", tmp_path)
    with pytest.raises(AssertionError):
        _clean(f"the key is {MARK}")


@pytest.mark.parametrize("gateway", ECHOES.values(), ids=ECHOES.keys())
def test_answers_that_repeat_the_key(gateway: Gateway, environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with running(gateway) as url:
        where = ["--base-url", url, "--model", "m", "--api-key-env", "LAB_KEY"]
        load = ["--requests", "2", "--concurrency", "1", "--warmup-requests", "0", "--repetitions", "1"]
        for words in (
            ["probe", *where],
            ["probe", "--json", *where],
            ["doctor", "--timeout", "5", *where],
            ["doctor", "--timeout", "5", "--json", *where],
            ["bench", "--json", "--samples", "samples.jsonl", *load, *where],
        ):
            code, printed = _run(words, environment, folder)
            assert code != 0
            assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("key", "command"),
    [(f"{MARK}\n", "probe"), (f"{MARK}\n", "doctor"), (f'"{MARK}"', "probe"), (f"{MARK} €", "doctor")],
)
def test_keys_that_cannot_be_sent(
    key: str, command: str, golden: Target, environment: dict[str, str], tmp_path: Path
) -> None:
    where = ["--base-url", golden.base_url, "--model", golden.model, "--api-key-env", "LAB_KEY"]
    code, printed = _run([command, *where], {**environment, "LAB_KEY": key}, tmp_path)
    assert (code, "KEY_MALFORMED" in printed) == (1, True)


@pytest.mark.parametrize("command", ["probe", "doctor"])
def test_key_inside_the_url(
    command: str, golden: Target, environment: dict[str, str], tmp_path: Path
) -> None:
    url = golden.base_url.replace("http://", f"http://user:{MARK}@")
    code, _ = _run([command, "--base-url", url, "--model", golden.model], environment, tmp_path)
    assert code != 0


def test_proxies_that_hold_a_password(golden: Target, environment: dict[str, str], tmp_path: Path) -> None:
    env = {**environment, "HTTP_PROXY": f"http://me:{MARK}@127.0.0.1:9"}
    code, printed = _run(["doctor", "--base-url", golden.base_url, "--model", golden.model], env, tmp_path)
    assert (code, "LOCAL_PROXY_FAILED" in printed) == (1, True)


CLIENTS: dict[str, tuple[str, str]] = {
    "codex": ("auth.json", json.dumps({"OPENAI_API_KEY": MARK, "tokens": {"access_token": MARK}})),
    "claude-code": (
        "settings.json",
        json.dumps({"env": {"ANTHROPIC_AUTH_TOKEN": MARK, "ANTHROPIC_API_KEY": MARK}}),
    ),
    "cline": ("cline.json", json.dumps({"apiProvider": "openai", "openAiApiKey": MARK})),
}


@pytest.mark.parametrize(("client", "file"), CLIENTS.items(), ids=CLIENTS.keys())
def test_settings_of_clients(
    client: str, file: tuple[str, str], environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "settings").mkdir()
    path = tmp_path / "settings" / file[0]
    path.write_text(file[1])
    (tmp_path / "run").mkdir()
    words = ["doctor", "--client-config", str(path), "--client", client]
    for more in ([], ["--json"]):
        _, printed = _run([*words, *more], environment, tmp_path / "run")
        assert "Traceback" not in printed


def test_boot_log_that_shows_the_key(environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "boot.log"
    log.write_text(
        f"INFO non-default args: {{'api_key': ['{MARK}'], 'model': 'm'}}\n"
        f"api_server.py: error: unrecognized arguments: --no-such-flag --api-key {MARK}\n"
    )
    (tmp_path / "run").mkdir()
    for more in ([], ["--json"]):
        code, _ = _run(["doctor", "--log", str(log), *more], environment, tmp_path / "run")
        assert code == 1


def test_whole_suite_against_a_server_that_wants_the_key(
    golden: Target, environment: dict[str, str], tmp_path: Path
) -> None:
    _suite(tmp_path, environment, golden.base_url, golden.model)


def test_whole_suite_against_a_server_that_repeats_the_key(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with running(ECHOES["500 that repeats it"]) as url:
        _suite(tmp_path, environment, url, "m", failing=True)


def test_whole_suite_against_a_url_that_holds_the_key(environment: dict[str, str], tmp_path: Path) -> None:
    with golden_process(ttft_ms=20, itl_ms=2) as target:
        url = target.base_url.replace("http://", f"http://user:{MARK}@")
        run = _suite_run(tmp_path, environment, url, target.model)
    assert run.code == 11, run.text
    assert "BASE_URL_INVALID" in run.text


@pytest.mark.parametrize("place", ["flag", "environment"])
def test_whole_suite_with_an_engine_of_its_own_that_wants_the_key(
    place: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """The key stands in the engine's own data; golden's command line shows it as vLLM's log used to."""
    project = _planted(tmp_path, environment)
    flags = "itl-ms = 15, ttft-ms = 100"
    project.engines(
        "flags = { ttft-ms = 100, itl-ms = 15 }",
        f'flags = {{ {flags}, api-key = "{MARK}" }}'
        if place == "flag"
        else f'flags = {{ {flags} }}\nenv = {{ VLLM_API_KEY = "{MARK}" }}',
    )
    run = project.run_apart(*_everything(project), "--showlocals", "--tb=long", "-k", "[last:")
    assert run.ended("passed"), run.text
    _clean_but_the_plant(run.text, project)


def test_engine_that_repeats_the_key_while_it_fails_to_boot(
    environment: dict[str, str], tmp_path: Path
) -> None:
    project = _planted(tmp_path, environment)
    project.engines(
        "flags = { ttft-ms = 100, itl-ms = 15 }", f'flags = {{ api-key = "{MARK}", no-such-flag = "{MARK}" }}'
    )
    run = project.run_apart(*_everything(project), "--showlocals", "--tb=long", "-k", "[last:")
    assert run.code == 11, run.text
    logs = [path.read_text() for path in project.root.rglob("*.log")]
    assert any("unrecognized arguments: --no-such-flag [redacted]" in log for log in logs), logs
    assert "FLAG_UNKNOWN" in run.text
    _clean_but_the_plant(run.text, project)


def _clean_but_the_plant(printed: str, project: Project) -> None:
    """Search everything but the engines file, where the key was planted."""
    (project.root / "fixtures" / "engines.toml").unlink()
    _clean(printed, project.root)


def _suite(
    folder: Path, environment: dict[str, str], base_url: str, model: str, *, failing: bool = False
) -> None:
    run = _suite_run(folder, environment, base_url, model)
    assert run.cases, run.text
    assert bool(run.ended("passed")) is not failing, run.text


def _suite_run(folder: Path, environment: dict[str, str], base_url: str, model: str) -> Finished:
    """Run the suite with everything that it can write; nothing of it may hold the mark."""
    project = _planted(folder, environment)
    where = ("--perf-base-url", base_url, "--perf-model", model, "--perf-api-key-env", "LAB_KEY")
    run = project.run_apart(*where, *_everything(project), "--showlocals", "--tb=long", golden=False)
    _clean(run.text, project.root)
    return run


def _planted(folder: Path, environment: dict[str, str]) -> Project:
    """Return a project with the mark in its environment."""
    project = Project(folder / "project")
    project.env |= {name: value for name, value in environment.items() if value == MARK}
    return project


def _everything(project: Project) -> list[str]:
    """Return the options that make the suite write all that it can write."""
    outputs = {"perf-html": "report.html", "perf-markdown": "summary.md", "benchmark-json": "b.json"}
    return [f"--{name}={project.root / path}" for name, path in outputs.items()]
