# SPDX-License-Identifier: Apache-2.0
"""Proxy variables: what the doctor and the openai SDK say of them, and that the probe goes around them."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.errors.three_ways import SDK_MAJOR, doctor, prepare_environment, sdk
from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer
from vllm_perf.spec.category import Category


@pytest.fixture(scope="module")
def golden() -> Iterator[GoldenServer]:
    with GoldenServer() as server:
        yield server


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare_environment(monkeypatch)


def _dead_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# {dead} is a proxy on a port where nothing listens. The last of each: what the SDK's failure is called.
PROXY_SETTINGS: dict[str, tuple[dict[str, str], str, Category, Category]] = {
    "dead proxy": (
        {"HTTP_PROXY": "{dead}"},
        "HTTP_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "dead proxy for everything": (
        {"ALL_PROXY": "{dead}"},
        "ALL_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "NO_PROXY with the name alone": (
        {"HTTP_PROXY": "{dead}", "NO_PROXY": "localhost"},
        "HTTP_PROXY",
        Category.LOCAL_PROXY_FAILED,
        Category.LOCAL_PROXY_FAILED,
    ),
    "brackets in NO_PROXY": (
        {"HTTP_PROXY": "{dead}", "NO_PROXY": "[::1]"},
        "NO_PROXY",
        Category.PROXY_ENV_INVALID,
        # httpx2 reads the brackets, and then meets the dead proxy; a client on httpx cannot be built.
        Category.LOCAL_PROXY_FAILED if SDK_MAJOR >= 3 else Category.PROXY_ENV_INVALID,
    ),
    "SOCKS without its package": (
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        "ALL_PROXY",
        Category.PROXY_ENV_INVALID,
        Category.PROXY_ENV_INVALID,
    ),
    "no such scheme": (
        {"ALL_PROXY": "socks://127.0.0.1:9"},
        "ALL_PROXY",
        Category.PROXY_ENV_INVALID,
        Category.PROXY_ENV_INVALID,
    ),
}


@pytest.mark.parametrize(
    ("settings", "variable", "category", "in_sdk"), PROXY_SETTINGS.values(), ids=PROXY_SETTINGS.keys()
)
def test_proxy_variable_is_named_by_doctor_and_sdk_and_left_alone_by_the_probe(
    golden: GoldenServer,
    settings: dict[str, str],
    variable: str,
    category: Category,
    in_sdk: Category,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dead = f"http://127.0.0.1:{_dead_port()}"
    for name, value in settings.items():
        monkeypatch.setenv(name, value.format(dead=dead))
    found, evidence, remedy = doctor(golden.base_url, capsys)
    assert found == category, evidence
    assert evidence.count(variable) >= 2, "in the cause and in the evidence"
    assert "unset" in remedy
    seen = sdk(golden.base_url)
    assert seen.category is in_sdk, seen.paragraph()
    assert str(seen.figures["variable"]) in settings
    assert "unset" in seen.remedy
    assert main(["probe", "--base-url", golden.base_url, "--model", "golden", "--max-tokens", "2"]) == 0


def test_proxy_that_does_not_stand_in_the_way_is_no_finding(
    golden: GoldenServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{_dead_port()}")
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1,::1")
    assert main(["doctor", "--json", "--base-url", golden.base_url, "--model", "golden"]) == 0
    assert json.loads(capsys.readouterr().out)["category"] == Category.OK
