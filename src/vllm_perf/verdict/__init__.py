# SPDX-License-Identifier: Apache-2.0
"""Judge measurements against budgets and against each other."""
