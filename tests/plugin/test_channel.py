# SPDX-License-Identifier: Apache-2.0
"""``pytest tests/perf --perf-channel NAME``: met, loaded within its limits, and asserted fairly."""

from itertools import pairwise

import pytest

from tests.plugin.projects import Finished, Project
from tests.plugin.servers import golden_process
from tests.unit.channel.picky import PickyChannel, Ways
from vllm_perf.load.golden_process import read_records
from vllm_perf.load.plan import Target

KEY = "sk-planted-0123456789abcdef0123456789"
FILE = "fixtures/channels.toml"
MILLION = 1_000_000
# Long beside what a busy machine adds, so that chunks are not read in bursts.
GAP_S = 0.01


def entry(base_url: str, model: str = "golden", more: str = "") -> str:
    """Return a channels file with one channel, which needs a key."""
    return f'[channels.far]\nbase_url = "{base_url}"\nmodel = "{model}"\nkey_env = "FAR_KEY"\n{more}\n'


@pytest.fixture
def channel(project: Project) -> Project:
    """Return a project with the key in its environment and short runs."""
    project.env["FAR_KEY"] = KEY
    project.change("fixtures/workloads.toml", "repetitions = 3", "repetitions = 2")
    # Where words stand for tokens, the template alone is counted with 8 of them.
    project.change("fixtures/workloads.toml", "unique_tokens = 8", "unique_tokens = 16")
    return project


def measure(project: Project, text: str, *more: str) -> Finished:
    """Run the suite on the channel that ``text`` describes."""
    project.write(FILE, text)
    return project.run("--perf-channel", "far", *more, golden=False)


def golden_again(target: Target) -> Target:
    """Return the golden engine with the key that it wants."""
    return Target(base_url=target.base_url, model=target.model, api_key=KEY)


def test_a_channel_that_gives_everything_is_asserted_in_everything(channel: Project) -> None:
    with golden_process(ttft_ms=30, itl_ms=10, api_key=KEY) as target:
        run = measure(channel, entry(target.base_url))
        bodies = read_records(golden_again(target))
    assert run.code == 0, run.text
    assert run.counts == {"tests": 12, "failures": 0, "errors": 0, "skipped": 0}
    assert {name.split("[")[1].split(":")[0] for name in run.cases} == {"far"}
    # 3 questions of the handshake, then two repetitions of 1 request to warm up and 8 measured.
    assert len(bodies) == 3 + 2 * (1 + 8)


def test_the_handshake_and_the_account_are_shown_and_the_key_is_nowhere(channel: Project) -> None:
    with golden_process(ttft_ms=30, itl_ms=10, api_key=KEY) as target:
        run = measure(channel, entry(target.base_url), "-vv", "--showlocals")
    assert "far: usage in the stream: yes" in run.text
    assert "far: output length can be pinned (ignore_eos): yes" in run.text
    assert "far: network round trip (TCP), ms: " in run.text
    assert "far: 21 requests, 0 refused (429), waited 0.0 s, spent nothing" in run.text
    assert KEY not in run.text
    files = [path for path in channel.root.rglob("*") if path.is_file()]
    assert [path for path in files if KEY in path.read_text("latin-1")] == []


def test_what_a_channel_cannot_give_is_skipped_with_its_reason_and_not_asserted(channel: Project) -> None:
    with PickyChannel(Ways(chunk_gap_s=GAP_S, usage=False)) as far:
        run = measure(channel, entry(far.base_url, "m"))
    assert run.code == 0, run.text
    without_tokens = {"tpot_mean", "tpot_p50", "output_throughput"}
    assert run.metrics("skipped") == {"prefix_hit_rate", *without_tokens}
    assert "not comparable: far shows no /metrics" in run.junit
    assert "not comparable: far sends no usage: its tokens are not counted" in run.text
    recorded = {row["params"]["metric"] for row in channel.records()[0]["benchmarks"]}
    assert "output_throughput" not in recorded
    assert "ttft_p50" in recorded


def test_a_budget_on_what_a_channel_cannot_give_has_no_verdict(channel: Project) -> None:
    channel.write(
        "fixtures/budgets/cpu.toml",
        'platform = "cpu"\n[[budgets]]\nmetric = "output_throughput"\n'
        'engine = "far"\nworkload = "chat"\nmin = 1\n',
    )
    with PickyChannel(Ways(chunk_gap_s=GAP_S, usage=False)) as far:
        run = measure(channel, entry(far.base_url, "m"))
    assert run.code == 10, run.text
    assert run.metrics("failed") == {"output_throughput"}


def test_a_field_that_the_channel_refuses_is_left_out_of_the_load(channel: Project) -> None:
    with PickyChannel(Ways(chunk_gap_s=GAP_S, refuses=("ignore_eos",))) as far:
        run = measure(channel, entry(far.base_url, "m"))
    assert run.code == 0, run.text
    assert "far: output length can be pinned (ignore_eos): no" in run.text
    assert all("ignore_eos" not in body for body in far.account.completions)


def test_the_channels_limits_are_kept_and_a_limited_rate_is_not_asserted(channel: Project) -> None:
    limits = "limits = { requests_per_min = 600, max_concurrency = 2 }"
    with golden_process(ttft_ms=30, itl_ms=10, api_key=KEY) as target:
        run = measure(channel, entry(target.base_url, more=limits))
        records = read_records(golden_again(target))
    assert run.code == 0, run.text
    assert run.metrics("skipped") == {"output_throughput", "request_throughput"}
    assert "concurrency 8 was lowered to 2 for all: far allows no more" in run.text
    starts = sorted(record["received_ns"] for record in records.values())
    # 100 ms asked for; what arrives may have been held up a little on its way.
    assert min(b - a for a, b in pairwise(starts)) > 60e6


def test_a_429_is_waited_for_and_counted(channel: Project) -> None:
    with PickyChannel(Ways(chunk_gap_s=GAP_S, refuse_at=frozenset({8}), retry_after="1")) as far:
        run = measure(channel, entry(far.base_url, "m"))
    assert "far: rate limit reached; waiting 1 s as it asks" in run.text
    assert f"{far.account.asked} requests, 1 refused (429), waited 1.0 s" in run.text
    assert "request_throughput" not in run.metrics("passed")


def test_a_run_beyond_the_cap_is_refused_before_anything_is_sent(channel: Project) -> None:
    prices = 'prices = { currency = "EUR", prompt_per_million = 1000 }\nspend_cap = 0.5'
    with PickyChannel(Ways()) as far:
        run = measure(channel, entry(far.base_url, "m", prices))
        assert far.account.asked == 0
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert "the spend cap is 0.500000; nothing was sent" in run.text


def test_a_channel_that_counts_more_than_planned_is_stopped_within_its_cap(channel: Project) -> None:
    cap = 4.0
    prices = 'prices = { currency = "EUR", prompt_per_million = 1000 }'
    with PickyChannel(Ways(chunk_gap_s=GAP_S, tokens_a_byte=0.9)) as far:
        run = measure(channel, entry(far.base_url, "m", prices), "--perf-spend-cap", f"{cap:g}")
        spent = far.account.prompt_tokens * 1000 / MILLION
        asked = far.account.asked
    assert run.code == 10, run.text
    assert "spend cap: " in run.text
    assert asked > 3, "more than the handshake was sent"
    assert spent <= cap
    assert run.metrics("passed") == {"boot_time"}


def test_a_wrong_key_is_11_with_its_category(channel: Project) -> None:
    with golden_process(api_key="another") as target:
        run = measure(channel, entry(target.base_url))
    assert run.code == 11, run.text
    assert "AUTH_WRONG_OR_MISSING_KEY" in run.junit
    assert run.ended("passed") == set()
    assert KEY not in run.text + run.junit


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (entry("http://127.0.0.1:9/v1").replace("FAR_KEY", "UNSET_KEY"), (), "variable UNSET_KEY"),
        (entry("http://127.0.0.1:9/v1").replace("far", "near"), (), "near"),
        (entry("http://127.0.0.1:9/v1", more="colour = 1"), (), "colour"),
        ("[channels.far\n", (), "channels.toml"),
        (entry("https://far.example/v1"), (), "has no prices"),
        (entry("http://127.0.0.1:9/v1"), ("--perf-golden",), "--perf-golden and --perf-channel exclude"),
        (
            entry("http://127.0.0.1:9/v1"),
            ("--perf-base-url", "http://127.0.0.1:9/v1", "--perf-model", "m"),
            "--perf-base-url and --perf-channel exclude",
        ),
    ],
    ids=["key not set", "unknown name", "unknown field", "bad TOML", "no prices", "golden", "base URL"],
)
def test_what_is_wrong_with_an_entry_is_said_before_anything_is_sent(
    channel: Project, text: str, options: tuple[str, ...], said: str
) -> None:
    run = measure(channel, text, *options)
    assert run.code == pytest.ExitCode.USAGE_ERROR, run.text
    assert said in run.text
    assert "Traceback" not in run.text
    assert KEY not in run.text


def test_a_cap_without_a_channel_is_refused(project: Project) -> None:
    run = project.run("--perf-spend-cap", "1")
    assert run.code == pytest.ExitCode.USAGE_ERROR
    assert "--perf-spend-cap caps nothing without --perf-channel" in run.text
