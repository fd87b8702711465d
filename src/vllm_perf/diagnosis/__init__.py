# SPDX-License-Identifier: Apache-2.0
"""Name the root cause of a failure, with evidence and a remedy."""
