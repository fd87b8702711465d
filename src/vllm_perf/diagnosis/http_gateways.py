# SPDX-License-Identifier: Apache-2.0
"""Rules for a gateway's own way of saying things: LiteLLM gives other statuses than the servers behind it."""

from vllm_perf.diagnosis.answer import Answer
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_UNREACHABLE = (
    "connection error",
    "cannot connect to host",
    "connect call failed",
    "connection refused",
    "server disconnected",
    "apiconnectionerror",
)


def unknown_to_gateway(answer: Answer) -> Diagnosis | None:
    """A LiteLLM without a database answers 400 "No connected db." to every key but its own."""
    if answer.status != 400 or not answer.says("no_db_connection", "no connected db"):
        return None
    sent = "a key was sent, and it is" if answer.key_sent else "no key was sent, or one that is"
    return answer.diagnosis(
        Category.AUTH_WRONG_OR_MISSING_KEY,
        f"{sent} not the gateway's own: LiteLLM looks any other key up in a database that it does not have",
        "send the gateway's master key, or a virtual key of a gateway that has its database",
    )


def refused_behind_gateway(answer: Answer) -> Diagnosis | None:
    """The gateway took our key; the server behind it refused the gateway's."""
    if answer.status not in (401, 403) or not answer.says("litellm.authenticationerror"):
        return None
    return answer.diagnosis(
        Category.AUTH_WRONG_OR_MISSING_KEY,
        "the gateway took the key, but the server behind it refused the key that the gateway sends",
        "correct the key in the gateway's own settings (LiteLLM: litellm_params.api_key); ours is right",
    )


def unreachable_behind_gateway(answer: Answer) -> Diagnosis | None:
    """LiteLLM answers 500, not 502, when nobody listens where it looks."""
    if answer.status < 500 or not answer.says("litellm.") or not answer.says(*_UNREACHABLE):
        return None
    return answer.diagnosis(
        Category.UPSTREAM_DOWN_BEHIND_PROXY,
        "the gateway answered, but could not reach the server behind it",
        "check the server behind the gateway: is it up, and does it listen where the gateway looks?",
    )
