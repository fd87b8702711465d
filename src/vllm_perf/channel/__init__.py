# SPDX-License-Identifier: Apache-2.0
"""Compare a local server with remote OpenAI-compatible channels: same load, same numbers, good manners."""
