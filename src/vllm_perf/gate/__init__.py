# SPDX-License-Identifier: Apache-2.0
"""Decide whether head is slower than base: interleaved boots, a journal, a verdict, and what CI needs."""
