# SPDX-License-Identifier: Apache-2.0
"""No credential survives, and no ordinary sentence is harmed."""

import hashlib

import pytest

from vllm_perf.diagnosis.redact import MASK, Redactor, looks_secret, redact

# Made here and nowhere valid; split so that no scanner takes them for real ones.
KEY = "sk-" + "proj4bcDEF123456"
PLAIN = "correct-horse-7battery"
JWT = "eyJhbGciOiJI." + "eyJzdWIiOiIx." + "c2lnbmF0dXJl"
DIGEST = hashlib.sha256(PLAIN.encode()).hexdigest()

LEAKS = {
    "prefix": (f"key {KEY} was used", KEY),
    "partial key": ("Received API Key = sk-...abcd, Key Hash", "abcd"),
    "starred key": ("Incorrect API key provided: sk-proj****wxyz.", "wxyz"),
    "hash": (f"Key Hash (Token) ={DIGEST}. Unable", DIGEST),
    "bearer": (f"Authorization: Bearer {PLAIN}", PLAIN),
    "basic": ("Proxy-Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "header dict": (f"{{'authorization': 'Bearer {PLAIN}', 'x': 'y'}}", PLAIN),
    "header tuples": (f"(b'authorization', b'Bearer {PLAIN}')", PLAIN),
    "illegal header": (f"Illegal header value b'Bearer {PLAIN}\\n'", PLAIN),
    "x-api-key": (f"x-api-key: {PLAIN}", PLAIN),
    "json": (f'{{"api_key": "{PLAIN}", "model": "m"}}', PLAIN),
    "json camel case": (f'{{"openAiApiKey":"{PLAIN}"}}', PLAIN),
    "json tokens": (f'{{"access_token": "{PLAIN}"}}', PLAIN),
    "python dict": (f"{{'api_key': ['{PLAIN}', 'other-one'], 'port': 1}}", PLAIN),
    "python list's second": (f"{{'api_key': ['other-one', '{PLAIN}']}}", PLAIN),
    "environment": (f"VLLM_API_KEY={PLAIN} vllm serve", PLAIN),
    "option": (f"vllm serve m --api-key {PLAIN} --port 1", PLAIN),
    "option with equals": (f"--api-key={PLAIN}", PLAIN),
    "option in a list": (f"['--api-key', '{PLAIN}']", PLAIN),
    "hugging face": ("token hf_" + "abcdefghijklmnop is used", "hf_" + "abcdefghijklmnop"),
    "jwt": (f"token={JWT}", JWT),
    "jwt alone": (f"got {JWT} back", JWT),
    "url user": (f"http://me:{PLAIN}@proxy:3128/", PLAIN),
    "url query": ("GET /v1/models?key=abc12345&x=1", "abc12345"),
    "cookie": ("Set-Cookie: session=abcdef; Path=/", "abcdef"),
    "spoken": ("API key provided: abcd1234x", "abcd1234x"),
}


@pytest.mark.parametrize(("text", "secret"), LEAKS.values(), ids=LEAKS.keys())
def test_credential_is_taken_out_by_its_shape(text: str, secret: str) -> None:
    shown = redact(text)
    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize(("text", "secret"), LEAKS.values(), ids=LEAKS.keys())
def test_redacting_twice_changes_nothing_more(text: str, secret: str) -> None:
    assert redact(redact(text)) == redact(text)


HARMLESS = (
    "max_tokens=128, prompt_tokens: 5, token_source: usage",
    "{'bos_token': '<s>', 'eos_token': '</s>'}",
    "Invalid bearer token; send Authorization: Bearer (not Basic)",
    "no key was sent: boot with --api-key or VLLM_API_KEY",
    "a server without --api-key takes any, such as EMPTY",
    "valid_token=None. api_key=EMPTY",
    "risk-free, task-force, ask-me",
    "the generation ended before its first token: read the server's own log",
    "saved to torch_aot_compile/" + "0af9" * 16 + "/rank_0_0",
    "prompt_set_hash: " + "0af9" * 16,
    "Maximum concurrency for 2,048 tokens per request: 256.00x",
    "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:00<00:00, 108.02it/s]",
    "http://127.0.0.1:8000/v1/chat/completions",
    "HTTP 401 from http://h:8000/v1: Unauthorized (type=token_not_found_in_db code=401)",
    "param: key, code: 401",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"as it stands {PLAIN}",
        f"in an URL /{PLAIN.replace('-', '%2D')} or ?{PLAIN}",
        f"hashed {DIGEST}",
        f"in the middle of a word x{PLAIN}y",
    ],
)
def test_known_secret_is_taken_out_of_any_text(text: str) -> None:
    shown = redact(text, [PLAIN])
    assert PLAIN not in shown
    assert DIGEST not in shown


def test_known_secret_with_a_newline_is_taken_out_in_its_escaped_spellings() -> None:
    secret = "se cret\n"
    for text in (repr(secret), repr(secret.encode()), '"se cret\\n"', "se%20cret%0A"):
        assert "cret" not in redact(text, [secret])


def test_short_secret_is_only_taken_out_where_it_stands_alone() -> None:
    assert redact("k is the key, kilo is not", ["k"]) == f"{MASK} is the key, kilo is not"


def test_stand_in_keys_are_no_secrets() -> None:
    assert redact("the key is EMPTY", ["EMPTY", ""]) == "the key is EMPTY"


def test_redactor_knows_what_the_environment_calls_a_key() -> None:
    env = {"VLLM_API_KEY": PLAIN, "HOME": "/home/x", "HF_TOKEN": "another-one-99"}
    redactor = Redactor.of_environment(env)
    assert redactor(f"{PLAIN} /home/x another-one-99") == f"{MASK} /home/x {MASK}"


def test_redactor_never_shows_what_it_holds() -> None:
    redactor = Redactor().knowing(PLAIN, None, "EMPTY")
    assert repr(redactor) == "Redactor(1 secrets)"


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "HF_TOKEN", "apiKey", "ANTHROPIC_AUTH_TOKEN", "MY_SECRET", "password"]
)
def test_names_of_credentials_are_recognised(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["PATH", "max_tokens", "bos_token", "tokenizer", "model"])
def test_other_names_are_not(name: str) -> None:
    assert not looks_secret(name)
