# SPDX-License-Identifier: Apache-2.0
"""What to do about a request's outcome where its answer did not say."""

from vllm_perf.spec.category import Category

READ_SERVER_LOG = "read the server's own log around that time; the request counts as failed"
CHECK_PATH = (
    "send the same request straight to the engine: if it succeeds there, the gateway on the way is to blame"
)

REMEDIES: dict[Category, str] = {
    Category.IN_BAND_ERROR: READ_SERVER_LOG,
    Category.NO_TOKEN: f"the generation ended before its first token: {READ_SERVER_LOG}",
    Category.NULL_EVENT: f"the server or a gateway writes null where a chunk belongs; {CHECK_PATH}",
    Category.TRUNCATED_STREAM: "see whether the server process is alive and read the last ERROR line of its"
    " log; if it is alive, look for a proxy with a time limit",
    Category.NO_FINISH_REASON: CHECK_PATH,
    Category.MALFORMED_STREAM: f"check that the base URL is an OpenAI-compatible API; {CHECK_PATH}",
    Category.MAX_TOKENS_TOO_SMALL: "ask for more max_tokens, or turn the model's thinking off",
    Category.LENGTH_MISMATCH: "check that the server honours ignore_eos and max_tokens, and that prompt and"
    " output fit into max_model_len together",
    Category.ENGINE_STALLED: "the engine is stuck while its API answers: read its log and restart it",
    Category.TIMEOUT: "raise the time limit, or see in /metrics whether requests queue at the server",
    Category.CANCELLED: "see who aborted the request: the server's log names it",
    Category.SERVER_DOWN: "start the server, or correct host and port in the base URL",
    Category.CONNECTION_RESET: "see whether the server crashed or a proxy on the way closes connections",
    Category.DNS_FAILED: "correct the host name in the base URL",
    Category.SCHEME_MISMATCH: "use http:// for a server that speaks plain HTTP (vLLM's default), else https://",
    Category.TLS_TRUST: "point SSL_CERT_FILE at the authority that signed the server's certificate",
    Category.LOCAL_PROXY_FAILED: "correct or drop the proxy that was asked for",
    Category.KEY_MALFORMED: "write the key anew without line breaks, blanks or quotes",
}


def remedy_for(outcome: Category, own: str | None = None) -> str | None:
    """Return what to do about ``outcome``; ``own`` is what the answer's own diagnosis says, if it says."""
    if outcome is Category.OK:
        return None
    return own or REMEDIES.get(outcome, READ_SERVER_LOG)
