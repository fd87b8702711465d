# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: options, fixtures, the pytest-benchmark bridge and reporting."""
