# SPDX-License-Identifier: Apache-2.0
"""One HTTP answer together with what is known about the question."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vllm_perf.diagnosis.envelope import Envelope
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """What the asker knows besides the answer.

    ``env`` is the client's environment (for its proxies); ``keyless_server``: the server was booted without
    ``--api-key``; ``key_header`` carried the key; ``secrets`` are taken out of everything that is said.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    keyless_server: bool = False
    key_header: str = "Authorization"
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One HTTP answer to a request that went to ``url``."""

    status: int
    headers: Mapping[str, str]
    body: Envelope
    url: str
    key_sent: bool
    model: str | None
    served_models: tuple[str, ...]
    hints: Hints

    def header(self, name: str) -> str:
        """Return a header whatever its case, "" where it is missing."""
        return next((value for key, value in self.headers.items() if key.lower() == name), "")

    def says(self, *words: str) -> bool:
        """Tell whether message, type or code of the body holds one of ``words`` (lower case)."""
        return any(word in self.body.words for word in words)

    def diagnosis(
        self,
        category: Category,
        cause: str,
        remedy: str,
        figures: Mapping[str, float | int | str] | None = None,
    ) -> Diagnosis:
        """Build the diagnosis, with status and body as its evidence and without any secret."""
        kind = self.header("content-type").partition(";")[0]
        page = f" {kind}" if self.body.shape in ("html", "text") and kind else ""
        seen = f"HTTP {self.status}{page} from {self.url}: {self.body.line()}"
        secrets = self.hints.secrets
        return Diagnosis(
            category=category,
            cause=redact(cause, secrets),
            evidence=redact(seen, secrets),
            remedy=redact(remedy, secrets),
            figures={"status": self.status, **(figures or {})},
        )
