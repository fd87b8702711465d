# SPDX-License-Identifier: Apache-2.0
"""One file a command of `vllm-perf`; each offers `configure(parser)` and `run(args) -> exit code`."""
