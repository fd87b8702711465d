# SPDX-License-Identifier: Apache-2.0
"""Tell whether vLLM got slower, what is wrong when it fails, and what each flag is worth."""

__version__ = "0.1.0"
