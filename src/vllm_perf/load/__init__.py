# SPDX-License-Identifier: Apache-2.0
"""Send a workload's requests and turn the streams into timed samples."""
