"""Which pages may open a socket; every trick with an origin is another origin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.exceptions import ImproperlyConfigured
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from mqservice.delivery.origins import Origins
from mqservice.env import envorigin
from mqservice.lib.problem import Problem
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

OURS = Origins("https://mq.example.com", ["https://app.example.com:8443"])

TRICKS = [
    "https://evil.example",
    "null",
    "",
    "http://mq.example.com",
    "https://mq.example.com:8443",
    "https://mq.example.com:443",
    "https://mq.example.com.evil.example",
    "https://evilmq.example.com",
    "https://mq.example.co",
    "https://MQ.example.com",
    "https://mq.example.com/",
    "https://mq.example.com.",
    "https://user@mq.example.com",
    "https://mq.example.com@evil.example",
    "https://mq.example.com https://evil.example",
    "https://mq.exаmple.com",
    "https://app.example.com",
    "wss://mq.example.com",
]


def header(origin: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"mq.example.com"), (b"origin", origin.encode())]


@pytest.mark.parametrize("origin", TRICKS)
def test_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(Problem) as caught:
        OURS.check(header(origin))
    assert (caught.value.status, caught.value.code) == (403, "FORBIDDEN")


def test_two_origins_are_refused() -> None:
    with pytest.raises(Problem):
        OURS.check(header("https://mq.example.com") * 2)


@pytest.mark.parametrize("origin", ["https://mq.example.com", "https://app.example.com:8443"])
def test_own_and_configured_origins_may(origin: str) -> None:
    OURS.check(header(origin))


def test_program_without_an_origin_may() -> None:
    OURS.check([(b"host", b"mq.example.com")])


@pytest.mark.parametrize(
    ("base_url", "origin"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://example.com:80/base", "http://example.com"),
        ("https://example.com:443", "https://example.com"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://Example.COM", "https://example.com"),
    ],
)
def test_origin_of_the_service_is_written_as_browsers_do(base_url: str, origin: str) -> None:
    Origins(base_url).check(header(origin))


@pytest.mark.parametrize(
    "text",
    ["*", "https://*.example.com", "https://a/", "ws://a", "a.example", "https://A", "https://u@a"],
)
def test_setting_that_is_no_origin_stops_the_start(text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="MQ_SOCKET_ORIGINS"):
        envorigin("MQ_SOCKET_ORIGINS", text)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble(), origins=OURS) as running:
        yield running


def test_handshake_from_another_page_is_403_with_and_without_a_key(server: Server) -> None:
    for headers in ({"authorization": server.key()}, {"cookie": "mq_session=x"}):
        with (
            pytest.raises(InvalidStatus) as caught,
            connect(
                server.ws_url, additional_headers={**headers, "origin": "https://evil.example"}
            ),
        ):
            pass
        assert caught.value.response.status_code == 403
        assert b'"code":"FORBIDDEN"' in caught.value.response.body


def test_handshake_from_an_own_page_is_taken(server: Server) -> None:
    headers = {"authorization": server.key(), "origin": "https://mq.example.com"}
    with connect(server.ws_url, additional_headers=headers) as socket:
        assert socket.response is not None
        assert socket.response.status_code == 101


@pytest.mark.parametrize("query", ["key=", "api_key=", "token=", "authorization=Bearer%20"])
def test_key_in_the_address_opens_nothing(server: Server, query: str) -> None:
    key = server.key().removeprefix("Bearer ")
    with pytest.raises(InvalidStatus) as caught, connect(f"{server.ws_url}?{query}{key}"):
        pass
    assert caught.value.response.status_code == 401
    assert key.encode() not in (caught.value.response.body or b"")
