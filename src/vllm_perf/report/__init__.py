# SPDX-License-Identifier: Apache-2.0
"""Show results in a terminal, in Markdown and in HTML."""
