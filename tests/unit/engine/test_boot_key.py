# SPDX-License-Identifier: Apache-2.0
"""A server that refuses the key of its own data: said at once, and not waited for until the time is over."""

from pathlib import Path

import pytest

from vllm_perf.engine.boot import BootSettings, boot
from vllm_perf.engine.errors import BootFailed
from vllm_perf.spec.category import Category
from vllm_perf.spec.engine import EngineSpec
from vllm_perf.spec.files import EngineBook

MARK = "Planted4711marker"
TIMEOUT_S = 300.0
SPEC = EngineSpec(
    name="e", model="golden", platform="golden", flags={"api-key": MARK}, boot_timeout_s=TIMEOUT_S
)


@pytest.mark.parametrize(
    ("known", "cause", "remedy"),
    [
        (None, "VLLM_API_KEY in its environment is the likely cause", "unset VLLM_API_KEY"),
        ("another-key-12", "a key was sent, and refused", "use the key that the server was started with"),
    ],
)
def test_h02_key_that_nobody_asked_for_is_named_at_once(
    known: str | None,
    cause: str,
    remedy: str,
    tmp_path: Path,
    state_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vllm_perf.engine.boot.server_key", lambda spec: known)
    settings = BootSettings(model_cache=tmp_path, log_dir=tmp_path, stop_patience_s=0.5)
    book = EngineBook(path=tmp_path, engines={"e": SPEC}, ladders={}, models={})
    waited: list[float] = []
    with pytest.raises(BootFailed) as caught:
        boot(SPEC, book, settings, lambda _name, _step, elapsed_s: waited.append(elapsed_s))
    found = caught.value.diagnosis
    assert found.category is Category.AUTH_WRONG_OR_MISSING_KEY
    assert cause in found.cause
    assert remedy in found.remedy
    assert found.log_path is not None
    assert "did not boot: it answers 401 to its own key" in str(caught.value)
    assert MARK not in str(caught.value)
    assert max(waited) < TIMEOUT_S / 2
