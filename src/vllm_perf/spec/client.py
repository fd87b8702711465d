# SPDX-License-Identifier: Apache-2.0
"""Which client sends the load."""

from typing import Literal, get_args

Client = Literal["socket", "openai"]
"""``socket`` is this project's own, stamped by the kernel; ``openai`` the SDK, as an application uses it."""

CLIENTS: tuple[Client, ...] = get_args(Client)
DEFAULT_CLIENT: Client = "socket"
