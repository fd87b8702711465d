# SPDX-License-Identifier: Apache-2.0
"""Keep one record a run and find the baseline to compare with."""
