# SPDX-License-Identifier: Apache-2.0
"""Which client sends the load."""

from dataclasses import dataclass
from typing import Literal, get_args

Client = Literal["socket", "openai"]
"""``socket`` is this project's own, stamped by the kernel; ``openai`` the SDK, as an application uses it."""

CLIENTS: tuple[Client, ...] = get_args(Client)
DEFAULT_CLIENT: Client = "socket"


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """By what a load is sent: ``client``, in ``processes`` processes."""

    client: Client = DEFAULT_CLIENT
    processes: int = 1
