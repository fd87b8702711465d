# SPDX-License-Identifier: Apache-2.0
"""The channels file: what it may hold, and that a key in it is refused without being shown."""

from pathlib import Path

import pytest

from vllm_perf.channel.errors import ChannelUnusable
from vllm_perf.channel.target import channel_target
from vllm_perf.golden import GoldenServer
from vllm_perf.spec.base import SpecError
from vllm_perf.spec.category import Category
from vllm_perf.spec.channel import load_channels

KEY = "sk-live-0123456789abcdef"
FIXTURES = Path(__file__).parents[3] / "fixtures"


def write(folder: Path, text: str) -> Path:
    """Write a channels file."""
    path = folder / "channels.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_this_labs_own_file_is_valid_and_holds_local_and_the_articles_channel() -> None:
    channels = load_channels(FIXTURES / "channels.toml")
    assert list(channels) == ["local", "taotoken"]
    assert channels["taotoken"].base_url == "https://taotoken.net/api/v1"
    assert channels["taotoken"].prices is not None


@pytest.mark.parametrize(
    "line",
    [
        f'api_key = "{KEY}"',
        f'key_env = "{KEY}"',
        f'proxy = "http://user:{KEY}@127.0.0.1:8080"',
    ],
)
def test_a_key_in_the_file_is_refused_and_not_shown(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f'[channels.x]\nbase_url = "http://127.0.0.1/v1"\n{line}\n')
    with pytest.raises(SpecError) as caught:
        load_channels(path)
    assert KEY not in str(caught.value)
    assert "[channels.x]" in str(caught.value)


def test_an_unknown_setting_is_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    path = write(tmp_path, '[channels.x]\nbase_url = "http://127.0.0.1/v1"\nmodle = "m"\n')
    with pytest.raises(SpecError, match=r"unknown key 'modle', did you mean 'model'"):
        load_channels(path)


def test_an_unknown_channel_is_answered_with_those_that_exist(tmp_path: Path) -> None:
    path = write(tmp_path, '[channels.one]\nbase_url = "http://127.0.0.1/v1"\nmodel = "m"\n')
    with pytest.raises(SpecError, match=r"channel 'two' is not known\. Known: one"):
        channel_target("two", path, {})


def test_the_key_comes_from_the_named_variable_and_shows_in_no_repr(tmp_path: Path) -> None:
    text = '[channels.x]\nbase_url = "http://127.0.0.1/v1/"\nmodel = "m"\nkey_env = "X_KEY"\n'
    target, spec = channel_target("x", write(tmp_path, text), {"X_KEY": KEY})
    assert (target.api_key, target.base_url, target.name) == (KEY, "http://127.0.0.1/v1", "x")
    assert KEY not in repr(target)
    assert KEY not in repr(spec)


@pytest.mark.parametrize("env", [{}, {"X_KEY": ""}, {"X_KEY": f" {KEY}"}])
def test_a_missing_or_malformed_key_is_named_by_its_variable_alone(
    tmp_path: Path, env: dict[str, str]
) -> None:
    text = '[channels.x]\nbase_url = "http://127.0.0.1/v1"\nmodel = "m"\nkey_env = "X_KEY"\n'
    with pytest.raises(SpecError, match="X_KEY") as caught:
        channel_target("x", write(tmp_path, text), env)
    assert KEY not in str(caught.value)


def test_a_channel_without_a_model_takes_the_first_that_the_server_lists(tmp_path: Path) -> None:
    with GoldenServer() as golden:
        path = write(tmp_path, f'[channels.x]\nbase_url = "{golden.base_url}"\n')
        target, _ = channel_target("x", path, {})
    assert target.model == "golden"


def test_a_channel_without_a_model_on_a_closed_port_is_a_server_down(tmp_path: Path) -> None:
    path = write(tmp_path, '[channels.x]\nbase_url = "http://127.0.0.1:1/v1"\n')
    with pytest.raises(ChannelUnusable) as caught:
        channel_target("x", path, {})
    assert caught.value.diagnosis.category is Category.SERVER_DOWN
