# SPDX-License-Identifier: Apache-2.0
"""Frozen descriptions of engines, workloads and budgets, and the words the whole project shares."""
