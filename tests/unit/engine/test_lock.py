# SPDX-License-Identifier: Apache-2.0
"""One engine per device set: the second session waits, says so, and gives up in time."""

from pathlib import Path

import pytest

from vllm_perf.engine.errors import LabBusy
from vllm_perf.engine.lock import acquire


def test_another_device_set_is_another_lock(state_dir: Path) -> None:
    first = acquire(("cpu",), wait_s=0, say=print)
    second = acquire(("GPU-1",), wait_s=0, say=print)
    assert first.is_locked
    assert second.is_locked
    first.release()
    second.release()


def test_a_held_lock_is_waited_for_aloud_and_then_reported(state_dir: Path) -> None:
    held = acquire(("cpu",), wait_s=0, say=print)
    said: list[str] = []
    with pytest.raises(LabBusy) as caught:
        acquire(("cpu",), wait_s=0.3, say=said.append, say_every_s=0.1)
    held.release()
    assert said
    assert said[0].startswith("waiting for cpu")
    assert "LAB_BUSY" in str(caught.value)
    assert "--perf-lock-wait" in str(caught.value)


def test_a_released_lock_can_be_taken_again(state_dir: Path) -> None:
    acquire(("cpu",), wait_s=0, say=print).release()
    assert acquire(("cpu",), wait_s=0, say=print).is_locked
