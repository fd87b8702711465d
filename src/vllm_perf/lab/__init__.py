# SPDX-License-Identifier: Apache-2.0
"""One engine under one workload, measured once: engine, load, metrics and validity put together."""
