# SPDX-License-Identifier: Apache-2.0
"""Golden gates are judged on a busy machine as well."""

import pytest

from tests.unit.gate.golden_gate import judge_on_a_busy_machine


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    judge_on_a_busy_machine(monkeypatch.setattr)
