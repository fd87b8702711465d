# SPDX-License-Identifier: Apache-2.0
"""An OpenAI-compatible engine with known timing that records its true send times and misbehaves on demand."""

from vllm_perf.golden.profile import Noise, Profile, ServerOptions
from vllm_perf.golden.records import Record, Records
from vllm_perf.golden.server import GoldenServer

__all__ = ["GoldenServer", "Noise", "Profile", "Record", "Records", "ServerOptions"]
