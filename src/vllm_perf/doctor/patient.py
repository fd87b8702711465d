# SPDX-License-Identifier: Apache-2.0
"""What the doctor is told about a server, and what it has found out so far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vllm_perf.diagnosis.answer import Hints
from vllm_perf.diagnosis.base_url import suggest
from vllm_perf.diagnosis.connection import classify_exception
from vllm_perf.diagnosis.http import classify_response
from vllm_perf.diagnosis.reach import tcp_opens
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.doctor.ask import Reply


@dataclass(slots=True, kw_only=True)
class Patient:
    """One server under examination; ``passed`` and ``served`` grow while it goes on.

    ``base_url`` is as the user gave it, ``api`` what is asked. ``is_vllm``: ``/version`` answered as vLLM's.
    """

    base_url: str
    model: str
    key: str | None = field(repr=False, default=None)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 30.0
    connect: Callable[[str, int], bool] = tcp_opens
    is_vllm: bool = False
    vllm_version: str | None = None
    health_status: int | None = None
    served: tuple[str, ...] = ()
    max_model_len: int | None = None
    passed: list[str] = field(default_factory=list)
    api: str = ""

    def __post_init__(self) -> None:
        """Assume the base URL that the user must have meant, until an answer shows otherwise."""
        self.api = self.api or suggest(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return what must not be shown."""
        return (self.key,) if self.key else ()

    def explain(self, error: BaseException, url: str, *, after_chunks: int = 0) -> Diagnosis:
        """Return what an exception on the way to ``url`` means, or within its stream."""
        return classify_exception(
            error, url=url, env=self.env, key=self.key, connect=self.connect, after_chunks=after_chunks
        )

    def judge(self, reply: Reply, url: str) -> Diagnosis:
        """Return what an answer from ``url`` means."""
        return classify_response(
            reply.status,
            reply.headers,
            reply.body,
            url=url,
            key_sent=self.key is not None,
            model=self.model,
            served_models=self.served,
            hints=Hints(env=self.env, secrets=self.secrets),
        )
