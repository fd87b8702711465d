# SPDX-License-Identifier: Apache-2.0
"""``vllm-perf bench --channel``, whole, against channels whose truth is known."""

import itertools
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.unit.channel.picky import PickyChannel, Ways
from vllm_perf.channel.side import watched
from vllm_perf.cli import main
from vllm_perf.golden import GoldenServer, Profile, ServerOptions
from vllm_perf.metrics import validity_client

KEY = "sk-live-0123456789abcdef"
LOAD = ["--prompt-tokens", "40", "--output-tokens", "4", "--requests", "4", "--warmup-requests", "1"]


class Bench:
    """Run the command with a channels file of its own."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, channels: str, names: Sequence[str], *more: str) -> tuple[int, str, str]:
        """Return exit code, standard output and standard error."""
        file = self.folder / "channels.toml"
        file.write_text(channels, encoding="utf-8")
        words = ["--channels-file", str(file), "--store", str(self.folder / "store"), *LOAD, *more]
        code = main(["bench", *(word for name in names for word in ("--channel", name)), *words])
        seen = self._capsys.readouterr()
        return code, seen.out, seen.err

    def stored(self) -> dict[str, Any]:
        """Return the one document that was stored."""
        (path,) = (self.folder / "store").iterdir()
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found


@pytest.fixture
def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Return the command; a busy machine sends late and reads in bursts, which is not what is tested here."""
    monkeypatch.setattr(validity_client, "LATE_SHARE_OF_TTFT", 100.0)
    monkeypatch.setattr(validity_client, "BURST_SHARE", 1.0)
    return Bench(tmp_path, capsys)


def entry(name: str, url: str, **more: Any) -> str:
    """Return one table of a channels file."""
    values = {"base_url": url, "model": "m", **more}
    return f"[channels.{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in values.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def row(document: dict[str, Any], metric: str) -> dict[str, Any]:
    """Return one metric of a document."""
    return next(one for one in document["metrics"] if one["metric"] == metric)


def test_two_golden_channels_differ_by_what_their_profiles_say(bench: Bench) -> None:
    with GoldenServer(Profile(ttft_ms=20, itl_ms=2)) as near, GoldenServer(Profile(ttft_ms=220)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url, model="golden")
        code, out, err = bench(channels, ["near", "far"], "--pairs", "2", "--json")
    assert code == 0
    document = json.loads(out)
    found = row(document, "ttft_p50")["against"][0]
    assert found["comparable"]
    # 200 ms by the profiles; a busy machine may add to either side, never 100 ms to one median of four.
    assert 100 < found["difference"]["mean"] < 300
    assert abs(found["rest"]["mean"] - 200) < 100
    order = [line.split(":")[0] for line in err.splitlines() if ": block " in line]
    assert order == ["near", "far", "far", "near"]
    assert bench.stored() == document


def test_both_channels_get_the_same_work(bench: Bench) -> None:
    with GoldenServer(Profile(ttft_ms=5, itl_ms=1)) as near, GoldenServer(Profile(ttft_ms=5)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url, model="golden")
        code, out, _ = bench(channels, ["near", "far"], "--pairs", "2", "--json")
    assert code == 0
    sides = json.loads(out)["channels"]
    assert sides["near"]["prompt_tokens_median"] == sides["far"]["prompt_tokens_median"] == 40
    assert sides["near"]["outcomes"] == sides["far"]["outcomes"] == {"ok": 8}


def test_the_table_shows_facts_values_and_what_cannot_be_compared(bench: Bench) -> None:
    with GoldenServer(Profile(ttft_ms=5, itl_ms=1)) as near, PickyChannel(Ways(usage=False)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url)
        code, out, _ = bench(channels, ["near", "far"], "--pairs", "2")
    assert code == 0
    assert "usage in the stream" in out
    assert "far - near" in out
    assert "output_throughput" in out
    assert "far sends no usage: its tokens are not counted" in out


def test_a_dry_run_sends_nothing_and_needs_no_key(bench: Bench) -> None:
    prices = {"currency": "EUR", "prompt_per_million": 2, "output_per_million": 10}
    with PickyChannel() as channel:
        far = entry("far", channel.base_url, key_env="FAR_KEY", prices=prices, spend_cap=1.0)
        code, out, _ = bench(far, ["far"], "--dry-run")
        assert channel.account.asked == 0
    assert code == 0
    assert "key from FAR_KEY" in out
    assert "cost: about" in out
    assert not (bench.folder / "store").exists()


def test_a_run_beyond_the_cap_is_refused_before_anything_is_sent(bench: Bench) -> None:
    prices = {"prompt_per_million": 1_000_000, "output_per_million": 1_000_000}
    with PickyChannel() as channel:
        code, out, err = bench(entry("far", channel.base_url, prices=prices, spend_cap=10.0), ["far"])
        assert channel.account.asked == 0
    assert code == 2
    assert "the spend cap is 10.000000; nothing was sent" in err
    assert out == ""


def test_a_channel_that_counts_more_than_planned_is_stopped_within_its_cap(bench: Bench) -> None:
    prices = {"currency": "EUR", "prompt_per_million": 1_000_000, "output_per_million": 1_000_000}
    cap = 32_000.0
    # 40 words are planned as 40 tokens; this channel counts nearly every byte.
    with PickyChannel(Ways(tokens_a_byte=0.9)) as channel:
        far = entry("far", channel.base_url, prices=prices, spend_cap=cap)
        code, out, _ = bench(far, ["far"], "--pairs", "60", "--json")
        billed = channel.account.prompt_tokens + channel.account.output_tokens
    document = json.loads(out)
    assert code == 10
    assert document["stopped"]["reason"].startswith("spend cap:")
    assert 0 < document["pairs"] < 60
    assert billed <= cap
    assert document["channels"]["far"]["spent"] == pytest.approx(billed)


def test_a_429_is_waited_for_counted_and_not_hidden_in_latency(bench: Bench) -> None:
    # Completions: 3 of the handshake, 6 of the cache probe, 1 warm-up; the 12th is the second measured one.
    with PickyChannel(Ways(refuse_at=frozenset({12}), retry_after="0.2")) as channel:
        code, out, err = bench(entry("far", channel.base_url), ["far"], "--pairs", "2", "--json")
    far = json.loads(out)["channels"]["far"]
    assert code == 10
    assert (far["refused_429"], far["outcomes"]["RATE_LIMITED"], far["waited_s"]) == (1, 1, 0.2)
    assert "far: rate limit reached; waiting 0.2 s as it asks" in err
    assert any("TOO_MANY_FAILED" in reason for reason in far["invalid"])


def test_a_wrong_key_fails_with_its_category_and_shows_nowhere(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", KEY)
    with GoldenServer(Profile(ttft_ms=5), ServerOptions(api_key="right")) as golden:
        channels = entry("far", golden.base_url, model="golden", key_env="FAR_KEY")
        code, out, err = bench(channels, ["far"], "--json")
    assert code == 1
    assert json.loads(out)["failure"]["category"] == "AUTH_WRONG_OR_MISSING_KEY"
    assert KEY not in out + err + json.dumps(bench.stored())


def test_an_unknown_channel_lists_the_known_ones(bench: Bench) -> None:
    code, _, err = bench(entry("far", "http://127.0.0.1:1/v1"), ["near"])
    assert code == 2
    assert "channel 'near' is not known. Known: far" in err


def test_a_server_that_is_down_fails_with_its_category(bench: Bench) -> None:
    code, out, _ = bench(entry("far", "http://127.0.0.1:1/v1"), ["far"])
    assert code == 1
    assert "SERVER_DOWN" in out


def test_a_channel_that_stops_answering_ends_the_run_with_its_category(bench: Bench) -> None:
    # Everything from the first measured request on is refused without a way out.
    ways = Ways(refuses=("seed",), breaks_after=10)
    with PickyChannel(ways) as channel:
        code, out, _ = bench(entry("far", channel.base_url), ["far"], "--pairs", "2", "--json")
    document = json.loads(out)
    assert code == 1
    assert document["failure"]["category"] == "SERVER_ERROR"
    assert document["failure"]["cause"] == "none of the 4 requests of a block succeeded"
    assert channel.account.asked < 20


@pytest.mark.parametrize(
    "option",
    [("--base-url", "http://127.0.0.1:1/v1"), ("--repetitions", "2"), ("--samples", "x"), ("--floor",)],
)
def test_an_option_that_would_be_ignored_is_refused(bench: Bench, option: tuple[str, ...]) -> None:
    code, _, err = bench(entry("far", "http://127.0.0.1:1/v1"), ["far"], *option)
    assert code == 2
    assert f"{option[0]} does not go with --channel" in err


def test_the_document_holds_every_round_so_that_any_two_channels_can_be_paired(bench: Bench) -> None:
    with GoldenServer(Profile(ttft_ms=20, itl_ms=2)) as near, GoldenServer(Profile(ttft_ms=220)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url, model="golden")
        _, out, _ = bench(channels, ["near", "far"], "--pairs", "2", "--json")
    found = row(json.loads(out), "ttft_p50")
    differences = [b - a for a, b in zip(found["rounds"]["near"], found["rounds"]["far"], strict=True)]
    assert len(differences) == 2
    assert found["against"][0]["difference"]["mean"] == pytest.approx(sum(differences) / 2)
    assert row(json.loads(out), "preemptions")["rounds"].keys() == {"near", "far"}


@pytest.mark.parametrize("caches", [True, False])
def test_repeating_prompts_shows_whether_a_channel_caches_them(bench: Bench, caches: bool) -> None:
    profile = Profile(ttft_ms=5, itl_ms=1, prefill_us=100)
    with GoldenServer(profile, ServerOptions(prefix_caching=caches)) as golden:
        _, out, _ = bench(entry("far", golden.base_url, model="golden"), ["far"], "--pairs", "1", "--json")
    probe = json.loads(out)["channels"]["far"]["prompt_cache"]
    # A busy machine may leave a channel without a cache "not known", never make one of it.
    assert (probe["caches"] is True) is caches
    assert (len(probe["first_ms"]), len(probe["again_ms"])) == (3, 3)


def test_the_users_own_rate_cap_holds_and_a_capped_rate_is_not_compared(bench: Bench) -> None:
    capped = ("--most-per-min", "600", "--concurrency", "4", "--pairs", "1", "--json")
    with GoldenServer(Profile(ttft_ms=60)) as near, GoldenServer(Profile(ttft_ms=60)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url, model="golden")
        code, out, _ = bench(channels, ["near", "far"], *capped)
        starts = sorted(record.received_ns for record in near.records.all())
    assert code == 0, out
    document = json.loads(out)
    assert any("0.10 s apart on all channels, as --most-per-min asks" in note for note in document["notes"])
    assert "the load kept to a rate limit" in row(document, "request_throughput")["against"][0]["reason"]
    # The last four are the measured ones: 100 ms apart, less what the first was held up on its way.
    assert min(b - a for a, b in pairwise(starts[-4:])) > 60e6


def interrupting(after: int) -> Callable[..., Any]:
    """Return a stand-in for sending a block that is Ctrl-C from the given block on."""
    sent = itertools.count()

    def send(*args: Any, **options: Any) -> Any:
        if next(sent) >= after:
            raise KeyboardInterrupt
        return watched(*args, **options)

    return send


# Of each channel first the cache probe, then its blocks.
@pytest.mark.parametrize(("blocks", "rounds"), [(2 + 5, 2), (2 + 1, None)])
def test_ctrl_c_keeps_the_rounds_that_are_whole(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, blocks: int, rounds: int | None
) -> None:
    monkeypatch.setattr("vllm_perf.channel.compare.watched", interrupting(blocks))
    with GoldenServer(Profile(ttft_ms=5, itl_ms=1)) as near, GoldenServer(Profile(ttft_ms=5)) as far:
        channels = entry("near", near.base_url, model="golden") + entry("far", far.base_url, model="golden")
        code, out, err = bench(channels, ["near", "far"], "--pairs", "6")
    assert code == 130
    if rounds is None:
        assert "bench: interrupted" in err
        assert out == ""
        return
    assert f"interrupted: {rounds} of 6 rounds are whole and shown" in out
    assert (bench.stored()["interrupted"], bench.stored()["pairs"]) == (True, rounds)
    assert row(bench.stored(), "ttft_p50")["against"][0]["comparable"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[channels.far\n", "channels.toml"),
        ('[channels.far]\nbase_url = "http://127.0.0.1:1/v1"\ncolour = 1\n', "colour"),
        ('[channels.far]\nmodel = "m"\n', "base_url"),
        (entry("far", "http://127.0.0.1:1/v1", key_env="UNSET_KEY"), "export UNSET_KEY"),
        (entry("far", "https://far.example/v1"), "has no prices"),
    ],
    ids=["bad TOML", "unknown field", "no URL", "key not set", "no prices"],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(bench: Bench, text: str, said: str) -> None:
    code, out, err = bench(text, ["far"])
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1
