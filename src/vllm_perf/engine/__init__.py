# SPDX-License-Identifier: Apache-2.0
"""Boot, prove, watch and stop one vLLM server, or attach to one that someone else runs."""
