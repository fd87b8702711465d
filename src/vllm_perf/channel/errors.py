# SPDX-License-Identifier: Apache-2.0
"""What can keep a channel from being measured: it is unusable, or a cap stops the run."""

from vllm_perf.diagnosis.types import Diagnosis


class ChannelUnusable(Exception):
    """Say that a channel cannot be measured at all; ``diagnosis`` names the cause."""

    def __init__(self, channel: str, diagnosis: Diagnosis) -> None:
        super().__init__(f"channel '{channel}' cannot be measured: {diagnosis.paragraph()}")
        self.channel = channel
        self.diagnosis = diagnosis


class Stopped(Exception):
    """Say that a run ended early on purpose: the spend cap, or a rate limit that does not let up."""

    def __init__(self, channel: str, reason: str) -> None:
        super().__init__(f"channel '{channel}': {reason}")
        self.channel = channel
        self.reason = reason
