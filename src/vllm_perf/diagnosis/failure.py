# SPDX-License-Identifier: Apache-2.0
"""One exception on the way to a server, together with what is known about the way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vllm_perf.diagnosis import causes
from vllm_perf.diagnosis.redact import redact
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An exception with its causes. ``connect(host, port)`` tells whether a bare TCP connection opens.

    ``after_chunks``: how many chunks of a stream had arrived; above 0, a broken connection is a cut stream.
    """

    errors: tuple[BaseException, ...]
    url: str
    env: Mapping[str, str]
    key: str | None
    connect: Callable[[str, int], bool]
    after_chunks: int = 0

    def is_a(self, *class_names: str) -> bool:
        """Tell whether any cause is of one of these classes, by name, subclasses included."""
        return not causes.names(self.errors).isdisjoint(class_names)

    def has_errno(self, *numbers: int) -> bool:
        """Tell whether any cause carries one of these error numbers."""
        return not causes.errnos(self.errors).isdisjoint(numbers)

    def says(self, *words: str) -> bool:
        """Tell whether any cause's text holds one of ``words`` (lower case)."""
        text = causes.texts(self.errors).lower()
        return any(word in text for word in words)

    def diagnosis(
        self,
        category: Category,
        cause: str,
        remedy: str,
        figures: Mapping[str, float | int | str] | None = None,
    ) -> Diagnosis:
        """Build the diagnosis; the evidence is the causes' class names and the innermost text, redacted."""
        secrets = (self.key,) if self.key else ()
        path = " <- ".join(causes.own_names(self.errors))
        # What a library says of a malformed key quotes the key, or the part of it that it fell over.
        said = "" if category is Category.KEY_MALFORMED else f" ({causes.innermost_line(self.errors)})"
        seen = f"{path} for {self.url}{said}"
        return Diagnosis(
            category=category,
            cause=redact(cause, secrets),
            evidence=redact(seen, secrets),
            remedy=redact(remedy, secrets),
            figures=dict(figures or {}),
        )
