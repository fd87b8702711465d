# SPDX-License-Identifier: Apache-2.0
"""What a comparison of two runs goes by, where nobody says otherwise."""

# The change nobody minds, as a share: what the suite and ``vllm-perf compare`` allow.
RUN_ALLOWED = 0.02
# How the golden engine's version ends: by it a comparison knows that no real engine answered.
GOLDEN_MARK = "+golden"
