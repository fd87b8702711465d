# SPDX-License-Identifier: Apache-2.0
"""Failures of processes and ports."""

from vllm_perf.diagnosis.boot_context import BootContext
from vllm_perf.diagnosis.signatures.signature import Figures, Signature
from vllm_perf.spec.category import Category


def _port(figures: Figures, context: BootContext) -> str:
    return str(
        figures.get("port")
        or figures.get("listen_port")
        or figures.get("bound_port")
        or context.asked.get("port")
        or "the server's"
    )


SIGNATURES = (
    Signature(
        name="port taken",
        category=Category.PORT_IN_USE,
        pattern=r"(?:\[Errno (?:98|48)\] error while attempting to bind on address \('[^']*',"
        r" (?P<port>\d+)[^)]*\): (?:\[errno (?:98|48)\] )?"
        r"address already in use"
        r"|\[Errno (?:98|48)\] Address already in use"
        r"|server socket has failed to bind to \S*:(?P<bound_port>\d+) \(errno: (?:98|48)"
        r"|port: (?P<listen_port>\d+)[\s\S]{0,80}?EADDRINUSE)",
        cause=lambda figures, context: f"another process already listens on port {_port(figures, context)}",
        remedy="stop that process (ss -ltnp shows it), or choose another --port; an answer on this "
        "port is not this "
        "server's",
        versions="vllm#7514, #8204, 0.32 on the CPU",
    ),
)
