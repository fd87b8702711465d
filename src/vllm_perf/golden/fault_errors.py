# SPDX-License-Identifier: Apache-2.0
"""Error answers, byte for byte; the ids are those of the project's case list, variants after a dash."""

from vllm_perf.golden.fault import HTML, Fault, answer

JSON_RETRY = (("content-type", "application/json"), ("retry-after", "7"))
OVER = (
    "This model's maximum context length is 2048 tokens. However, you requested 2723 tokens"
    " (1699 in the messages, 1024 in the completion). Please reduce the length of the messages or completion."
)
NO_TEMPLATE = (
    "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat"
    " template if the tokenizer does not define one."
)
KEY_HASH = "0123456789abcdef" * 4
NGINX_502 = (
    "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr>"
    "<center>nginx</center></body></html>"
)
CLOUDFLARE_502 = (
    '<!DOCTYPE html>\n<html lang="en-US">\n<head>\n<title>example.com | 502: Bad gateway</title>\n'
    "</head>\n<body>\n<h1>Bad gateway <span>Error code 502</span></h1>\n"
    "<p>The web server reported a bad gateway error.</p>\n"
    "</body>\n</html>\n"
)


def _flat(status: int, message: str, kind: str) -> str:
    return f'{{"object":"error","message":"{message}","type":"{kind}","param":null,"code":{status}}}'


def _nested(status: int, message: str, kind: str, param: str = "null") -> str:
    return f'{{"error":{{"message":"{message}","type":"{kind}","param":{param},"code":{status}}}}}'


CASES: tuple[Fault, ...] = (
    answer("H01", "vLLM's 401: error is a string", 401, '{"error":"Unauthorized"}', scope="v1"),
    answer("H02", "a key demanded although none was set", 401, '{"error":"Unauthorized"}', scope="v1"),
    answer(
        "H03",
        "a gateway's 401, code is the string 401",
        401,
        '{"error":{"message":"Authentication Error, Invalid proxy server token passed. '
        f"Received API Key = sk-...abcd, Key Hash (Token) ={KEY_HASH}. "
        'Unable to find token in cache or `LiteLLM_VerificationTokenTable`",'
        '"type":"token_not_found_in_db","param":"key","code":"401"}}',
        scope="v1",
    ),
    answer(
        "H03-old",
        "an older gateway's 401",
        401,
        '{"error":{"message":"Authentication Error, Invalid proxy server token passed. valid_token=None.",'
        '"type":"auth_error","param":"None","code":"401"}}',
        scope="v1",
    ),
    answer("H04", "base URL without /v1", 404, '{"detail":"Not Found"}'),
    answer(
        "H05",
        "wrong model, flat",
        404,
        _flat(404, "The model `Qwen1.5-14B-Chat` does not exist.", "NotFoundError"),
    ),
    answer(
        "H05-nested",
        "wrong model, nested",
        404,
        _nested(404, "The model `x` does not exist.", "NotFoundError", '"model"'),
    ),
    answer(
        "H05-null-param",
        "wrong model, nested, no param",
        404,
        _nested(404, "The model `x` does not exist.", "NotFoundError"),
    ),
    answer(
        "H05-served",
        "wrong model, nested, names listed",
        404,
        _nested(404, "The model `x` does not exist. Served models: my-model.", "NotFoundError", '"model"'),
    ),
    answer(
        "H06",
        "endpoint twice in the URL",
        404,
        '{"error":{"message":"Invalid URL (POST /v1/chat/completions/chat/completions)",'
        '"type":"invalid_request_error","param":null,"code":null}}',
    ),
    answer(
        "H06-no-v1",
        "unknown request URL",
        404,
        '{"error":{"type":"invalid_request_error","code":"unknown_url",'
        '"message":"Unknown request URL: POST /chat/completions. …","param":null}}',
    ),
    answer("H07", "context exceeded, flat", 400, _flat(400, OVER, "BadRequestError")),
    answer("H07-nested", "context exceeded, nested", 400, _nested(400, OVER, "BadRequestError")),
    answer("H08", "no chat template, flat", 400, _flat(400, NO_TEMPLATE, "BadRequestError")),
    answer(
        "H08-nested", "no chat template, nested", 400, _nested(400, f"{NO_TEMPLATE} None", "BadRequestError")
    ),
    answer("H09", "nginx's 502 page", 502, NGINX_502, headers=HTML, scope="all"),
    answer("H09-cloudflare", "Cloudflare's 502 page", 502, CLOUDFLARE_502, headers=HTML, scope="all"),
    answer("H11", "404 without a body", 404, "", headers=()),
    answer("H11-401", "401 without a body", 401, "", headers=()),
    answer(
        "H62",
        "429 with Retry-After",
        429,
        _nested(429, "Too many requests", "rate_limit_error"),
        headers=JSON_RETRY,
    ),
    answer(
        "H62-503",
        "503 with Retry-After",
        503,
        _nested(503, "The engine is overloaded", "ServiceUnavailableError"),
        headers=JSON_RETRY,
    ),
    answer(
        "500",
        "vLLM's engine died",
        500,
        _nested(
            500,
            "EngineCore encountered an issue. See stack trace (above) for the root cause.",
            "InternalServerError",
        ),
    ),
)
