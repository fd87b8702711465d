# SPDX-License-Identifier: Apache-2.0
"""Where requests go."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go. ``base_url`` ends in ``/v1``; ``api_key`` is never written anywhere."""

    base_url: str
    model: str
    api_key: str | None = None
    name: str = ""
    ca_file: str | None = None
    proxy: str | None = None

    def __repr__(self) -> str:
        """Leave the key out, so that no traceback or log can show it."""
        return f"Target(base_url={self.base_url!r}, model={self.model!r}, name={self.name!r})"
