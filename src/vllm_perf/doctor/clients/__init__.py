# SPDX-License-Identifier: Apache-2.0
"""Read the settings of coding clients and judge whether they can reach an OpenAI-compatible server."""
