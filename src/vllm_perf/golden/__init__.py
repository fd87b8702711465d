# SPDX-License-Identifier: Apache-2.0
"""An OpenAI-compatible server with known timing, for measuring ourselves and for faults on demand."""
