# SPDX-License-Identifier: Apache-2.0
"""Ways to the golden engine: TLS, IPv6, its own process, and a key that is asked for."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.load.plan import Target
from vllm_perf.load.single import send_one, streamed_body
from vllm_perf.spec.category import Category

QUICK = Profile(ttft_ms=5, itl_ms=1)
BODY = streamed_body("golden", "hi there", 4)
KEY_VARIABLE = "GOLDEN_TEST_KEY"


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ServerOptions, str]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    cert, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(ca)
    return ServerOptions(cert_file=str(cert), key_file=str(key)), str(ca)


def test_tls_gives_the_same_tokens_and_times(tls: tuple[ServerOptions, str]) -> None:
    options, ca = tls
    with GoldenServer(QUICK, options) as server:
        sample = send_one(Target(base_url=server.base_url, model="golden", ca_file=ca), BODY)
        record = server.record(sample.id)
    assert (sample.outcome, sample.output_tokens, len(sample.chunk_ns)) == (Category.OK, 4, 4)
    assert all(seen >= sent for seen, sent in zip(sample.chunk_ns, record.sent_ns, strict=True))


@pytest.mark.parametrize("case", ["H21", "H22", "H22-reset", "H17"])
def test_faults_are_the_same_over_tls(case: str, tls: tuple[ServerOptions, str]) -> None:
    options, ca = tls
    with GoldenServer(QUICK, options) as server:
        plain = {"H21": Category.OK, "H17": Category.IN_BAND_ERROR}.get(case, Category.TRUNCATED_STREAM)
        target = Target(base_url=server.base_url_for(fault=case), model="golden", ca_file=ca)
        assert send_one(target, BODY).outcome is plain


def test_an_authority_nobody_trusts_is_named_and_the_engine_lives_on(tls: tuple[ServerOptions, str]) -> None:
    options, ca = tls
    with GoldenServer(QUICK, options) as server:
        strange = Target(base_url=server.base_url, model="golden")
        assert send_one(strange, BODY).outcome is Category.TLS_TRUST
        plain = Target(base_url=server.base_url.replace("https", "http"), model="golden")
        assert send_one(plain, BODY).outcome is not Category.OK
        assert send_one(Target(base_url=server.base_url, model="golden", ca_file=ca), BODY).ok


def test_ipv6_is_written_in_brackets_and_works() -> None:
    with GoldenServer(QUICK, ServerOptions(host="::1")) as server:
        assert server.base_url.startswith("http://[::1]:")
        assert send_one(Target(base_url=server.base_url, model="golden"), BODY).ok


def test_the_probe_takes_the_key_from_the_environment_and_never_shows_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with GoldenServer(QUICK, ServerOptions(api_key="right-key-0123456789")) as server:
        command = ["probe", "--base-url", server.base_url, "--model", "golden", "--json"]
        for key, outcome in (
            ("right-key-0123456789", "ok"),
            ("wrong-key-0123456789", "AUTH_WRONG_OR_MISSING_KEY"),
        ):
            monkeypatch.setenv(KEY_VARIABLE, key)
            main([*command, "--api-key-env", KEY_VARIABLE])
            shown = capsys.readouterr()
            assert json.loads(shown.out)["outcome"] == outcome
            assert key not in shown.out + shown.err
        main(command)
        assert json.loads(capsys.readouterr().out)["outcome"] == "AUTH_WRONG_OR_MISSING_KEY"


def test_a_key_with_a_line_break_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "secret-0123456789\n")
    url = "http://127.0.0.1:1/v1"
    assert main(["probe", "--base-url", url, "--model", "m", "--json", "--api-key-env", KEY_VARIABLE]) == 1
    shown = capsys.readouterr().out
    assert (json.loads(shown)["outcome"], "secret-0123456789" in shown) == ("KEY_MALFORMED", False)


def test_a_variable_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    url = "http://127.0.0.1:1/v1"
    assert main(["probe", "--base-url", url, "--model", "m", "--api-key-env", "NO_SUCH_VARIABLE_HERE"]) == 2
    assert "NO_SUCH_VARIABLE_HERE" in capsys.readouterr().err


def test_environment_proxies_are_not_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with GoldenServer(QUICK) as server:
        assert main(["probe", "--base-url", server.base_url, "--model", "golden", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "ok"


def test_the_command_says_where_it_listens_and_ends_with_a_signal() -> None:
    command = [
        sys.executable,
        "-m",
        "vllm_perf.cli",
        "golden",
        "--port",
        "0",
        "--ttft-ms",
        "3",
        "--model",
        "m",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as output:
        try:
            ready = json.loads(output.readline())
            assert send_one(Target(base_url=ready["base_url"], model="m"), streamed_body("m", "hi", 2)).ok
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0


@pytest.mark.parametrize("option", [["--ttft-ms", "soon"], ["--port", "1.5"]])
def test_a_wrong_option_is_a_usage_error(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["golden", *option]) == 2
    assert "golden: " in capsys.readouterr().err
