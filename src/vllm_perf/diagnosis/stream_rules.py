# SPDX-License-Identifier: Apache-2.0
"""Rules for failures inside an answer that had begun: cut, malformed, empty of choices."""

from vllm_perf.diagnosis.envelope import read_object
from vllm_perf.diagnosis.failure import Failure
from vllm_perf.diagnosis.types import Diagnosis
from vllm_perf.spec.category import Category

_CUT = (
    "IncompleteRead",
    "ClientPayloadError",
    "TransferEncodingError",
    "ContentLengthError",
    "ChunkedEncodingError",
)
_CUT_TEXT = ("incomplete chunked read", "without sending complete message body", "incomplete read")
_BROKEN = (
    "ConnectionResetError",
    "ReadError",
    "RemoteProtocolError",
    "ServerDisconnectedError",
    "BrokenPipeError",
)


def in_band_error(failure: Failure) -> Diagnosis | None:
    """The SDK found an error object in a 200 stream; its body is the error, and it has no status."""
    error = failure.errors[0]
    body = getattr(error, "body", None)
    if type(error).__name__ != "APIError" or not isinstance(body, dict):
        return None
    envelope = read_object({"error": body})
    return failure.diagnosis(
        Category.IN_BAND_ERROR,
        f"the server reported an error inside the stream: {envelope.line()}",
        "read the server's log; count the request as failed",
    )


def cancelled(failure: Failure) -> Diagnosis | None:
    """Our own side gave up."""
    # Only the outermost: asyncio's clients raise their timeouts from a cancellation.
    if type(failure.errors[0]).__name__ not in ("CancelledError", "KeyboardInterrupt"):
        return None
    return failure.diagnosis(Category.CANCELLED, "the request was cancelled on our side", "run it again")


def truncated(failure: Failure) -> Diagnosis | None:
    """The answer stopped before its end: server or engine died, or something on the way cut it."""
    cut = failure.is_a(*_CUT) or failure.says(*_CUT_TEXT)
    if not cut and not (failure.after_chunks and failure.is_a(*_BROKEN)):
        return None
    return failure.diagnosis(
        Category.TRUNCATED_STREAM,
        f"the connection broke in the middle of the answer, after {failure.after_chunks} chunks",
        "check whether server and engine are alive and read the last ERROR of their log",
        {"chunks": failure.after_chunks},
    )


def malformed(failure: Failure) -> Diagnosis | None:
    """Something in the answer is not what the protocol says."""
    if not failure.is_a(
        "JSONDecodeError", "DecodingError", "UnicodeDecodeError", "APIResponseValidationError"
    ):
        return None
    return failure.diagnosis(
        Category.MALFORMED_STREAM,
        "the answer is not the JSON that the protocol says "
        "(an SSE event without data, such as 'retry: 3000', makes the openai SDK fail so)",
        "look at the raw answer (curl -N); blame the gateway in front before the engine",
    )


def missing_choices(failure: Failure) -> Diagnosis | None:
    """The caller's own code fell over an answer without choices."""
    if failure.is_a("AttributeError") and failure.says("'nonetype' object has no attribute 'choices'"):
        return failure.diagnosis(
            Category.NULL_EVENT,
            "the server sent JSON null as an event or body, and the client read its choices",
            "look at the raw answer; check the model id, and /v1 in the base URL",
        )
    if failure.is_a("TypeError") and failure.says("'nonetype' object is not subscriptable"):
        return failure.diagnosis(
            Category.IN_BAND_ERROR,
            "the answer had no choices: most likely an error object that came with status 200",
            "look at the raw answer; check the model id, and /v1 in the base URL",
        )
    return None
