# SPDX-License-Identifier: Apache-2.0
"""Turn a run's samples into named measurements."""
