# SPDX-License-Identifier: Apache-2.0
"""Open a bare TCP connection, to tell a closed port from a proxy that is in the way."""

import socket


def tcp_opens(host: str, port: int, timeout_s: float = 2.0) -> bool:
    """Tell whether something accepts connections at ``host``:``port``; proxies are not used."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False
