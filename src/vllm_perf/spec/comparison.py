# SPDX-License-Identifier: Apache-2.0
"""What is asked of a comparison of two runs, where nobody says otherwise."""

# The change nobody minds, as a share: what the suite and ``vllm-perf compare`` allow.
RUN_ALLOWED = 0.02
