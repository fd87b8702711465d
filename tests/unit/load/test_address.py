# SPDX-License-Identifier: Apache-2.0
"""Base URLs of every form."""

import pytest

from vllm_perf.load.address import parse_address
from vllm_perf.spec.base import SpecError


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "root"),
    [
        ("http://127.0.0.1:8000/v1", "127.0.0.1", 8000, "/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "127.0.0.1", 8000, "/v1", "http://127.0.0.1:8000"),
        ("https://api.example/v1", "api.example", 443, "/v1", "https://api.example"),
        ("http://api.example/a/v1", "api.example", 80, "/a/v1", "http://api.example/a"),
        ("http://[::1]:8000/v1", "::1", 8000, "/v1", "http://[::1]:8000"),
    ],
)
def test_a_base_url_is_taken_apart(url: str, host: str, port: int, path: str, root: str) -> None:
    address = parse_address(url)
    assert (address.host, address.port, address.path, address.root) == (host, port, path, root)


def test_the_host_header_leaves_out_the_schemes_own_port() -> None:
    assert parse_address("https://api.example:443/v1").host_header == "api.example"


def test_the_host_header_of_ipv6_has_brackets() -> None:
    assert parse_address("http://[::1]:8000/v1").host_header == "[::1]:8000"


def test_a_tunnel_is_asked_for_with_the_port() -> None:
    assert parse_address("https://api.example/v1").netloc == "api.example:443"


@pytest.mark.parametrize("url", ["127.0.0.1:8000/v1", "ftp://a/v1", "http:///v1", "http://a:none/v1", ""])
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match="base URL"):
        parse_address(url)


def test_a_refusal_does_not_show_a_password() -> None:
    with pytest.raises(SpecError) as caught:
        parse_address("ftp://me:hunter2@a/v1")
    assert "hunter2" not in str(caught.value)


def test_a_proxys_user_and_password_are_unquoted() -> None:
    address = parse_address("http://me:p%40ss@proxy:3128", what="proxy")
    assert (address.user, address.password) == ("me", "p@ss")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "[::1]", "localhost", "a.localhost"])
def test_loopback_is_known_in_every_spelling(host: str) -> None:
    assert parse_address(f"http://{host}:1/v1").loopback


@pytest.mark.parametrize("host", ["10.0.0.1", "example.com", "localhost.example.com"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not parse_address(f"http://{host}:1/v1").loopback
