# SPDX-License-Identifier: Apache-2.0
"""Shared by every test of this repository; the perf suite itself comes from the installed plugin."""

pytest_plugins = ["fixtures.booting"]
