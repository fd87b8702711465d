# SPDX-License-Identifier: Apache-2.0
"""Small blocking requests to a server on this host: never through a proxy, always with a deadline."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back; ``status`` is ``None`` when nothing did, and ``error`` says why."""

    status: int | None
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    error: Exception | None = None

    @property
    def ok(self) -> bool:
        """Tell whether the status was 2xx."""
        return self.status is not None and 200 <= self.status < 300

    def json(self) -> Any:
        """Return the body as JSON, or ``None`` when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def ask(
    url: str, *, payload: dict[str, Any] | None = None, key: str | None = None, timeout_s: float = 5.0
) -> Answer:
    """Send GET, or POST with a JSON ``payload``; every failure comes back as an Answer."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    data = None if payload is None else json.dumps(payload).encode()
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        with _OPENER.open(request, timeout=timeout_s) as response:
            return Answer(
                status=response.status, body=response.read(), headers=tuple(response.headers.items())
            )
    except urllib.error.HTTPError as error:
        return Answer(status=error.code, body=error.read(), headers=tuple(error.headers.items()))
    except (OSError, ValueError) as error:
        return Answer(status=None, error=error)
