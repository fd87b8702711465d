# SPDX-License-Identifier: Apache-2.0
"""Walk a server, a boot log or a client's settings and stop at the first thing wrong."""
