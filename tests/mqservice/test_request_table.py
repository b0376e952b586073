"""Raw requests and what each road answers them: one check stands before all roads.

The roads are those that leave the HTTP parser in different ways: both lanes, the data plane's task,
the control plane with and without a key, the console, and a WebSocket's handshake.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Final

import pytest

from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble

pytestmark = pytest.mark.django_db(transaction=True)

BODY: Final = '{"body": "x"}'
EMPTY_RECEIVE: Final = '{"wait": "0s"}'
# method, path, headers; {key} is a good one.
ROADS: Final = {
    "produce lane": ("POST", "/v1/ns/acme/topics/orders/messages", "authorization: {key}\r\n"),
    "receive lane": (
        "POST", "/v1/ns/acme/topics/orders/groups/billing:receive", "authorization: {key}\r\n",
    ),
    "data plane": ("GET", "/v1/ns/acme/topics/orders/messages", "authorization: {key}\r\n"),
    "data plane without a key": ("POST", "/v1/ns/acme/topics/orders/messages", ""),
    "control plane": ("GET", "/v1/quotas", "authorization: {key}\r\n"),
    "control plane without a key": ("GET", "/v1/quotas", ""),
    "console": ("GET", "/console/", ""),
    "health": ("GET", "/healthz", ""),
    "socket": (
        "GET", "/v1/ws",
        "authorization: {key}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ),
    "console's socket": (
        "GET", "/console/live",
        "connection: upgrade\r\nupgrade: websocket\r\n"
        "sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    ),
}  # fmt: skip
# Request line and Host lines, with {method} and {path}; the status of every road.
REFUSED: Final = {
    "no host": ("{method} {path} HTTP/1.1\r\n", 400),
    "no host in HTTP/1.0": ("{method} {path} HTTP/1.0\r\n", 400),
    "an empty host": ("{method} {path} HTTP/1.1\r\nhost:\r\n", 400),
    "two hosts": ("{method} {path} HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n", 400),
    "two names in a host": ("{method} {path} HTTP/1.1\r\nhost: localhost, localhost\r\n", 400),
    "a host with a path": ("{method} {path} HTTP/1.1\r\nhost: localhost/x\r\n", 400),
    "a host with a user": ("{method} {path} HTTP/1.1\r\nhost: me@localhost\r\n", 400),
    "a host with a space": ("{method} {path} HTTP/1.1\r\nhost: local host\r\n", 400),
    "a host with markup": ("{method} {path} HTTP/1.1\r\nhost: <localhost>\r\n", 400),
    "a host in Latin-1": ("{method} {path} HTTP/1.1\r\nhost: l\xf6calhost\r\n", 400),
    "a port that is none": ("{method} {path} HTTP/1.1\r\nhost: localhost:http\r\n", 400),
    "a port beyond all": ("{method} {path} HTTP/1.1\r\nhost: localhost:65536\r\n", 400),
    "a long host": (f"{{method}} {{path}} HTTP/1.1\r\nhost: {'a.' * 200}\r\n", 400),
    "another's host": ("{method} {path} HTTP/1.1\r\nhost: evil.example\r\n", 400),
    "a URL of another host": (
        "{method} http://evil.example{path} HTTP/1.1\r\nhost: localhost\r\n", 400,
    ),
    "a URL with another's host": (
        "{method} http://localhost{path} HTTP/1.1\r\nhost: evil.example\r\n", 400,
    ),
    "a URL of both": (
        "{method} http://evil.example{path} HTTP/1.1\r\nhost: evil.example\r\n", 400,
    ),
    "a URL of another port": (
        "{method} http://localhost:81{path} HTTP/1.1\r\nhost: localhost\r\n", 400,
    ),
    "a URL with a user": (
        "{method} http://me@localhost{path} HTTP/1.1\r\nhost: localhost\r\n", 400,
    ),
    "another scheme": ("{method} ftp://localhost{path} HTTP/1.1\r\nhost: localhost\r\n", 400),
    "an asterisk": ("OPTIONS * HTTP/1.1\r\nhost: localhost\r\n", 400),
    "an authority": ("CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n", 400),
    "a relative path": ("{method} v1/quotas HTTP/1.1\r\nhost: localhost\r\n", 400),
    "a fragment": ("{method} {path}#x HTTP/1.1\r\nhost: localhost\r\n", 400),
    "HTTP/2.0": ("{method} {path} HTTP/2.0\r\nhost: localhost\r\n", 505),
    "HTTP/3.0": ("{method} {path} HTTP/3.0\r\nhost: localhost\r\n", 505),
    "HTTP/0.9": ("{method} {path} HTTP/0.9\r\nhost: localhost\r\n", 505),
    "no HTTP": ("{method} {path}\r\nhost: localhost\r\n", 505),
}  # fmt: skip
ACCEPTED: Final = {
    "a name": "{method} {path} HTTP/1.1\r\nhost: localhost\r\n",
    "a port": "{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:8000\r\n",
    "capitals": "{method} {path} HTTP/1.1\r\nHOST: LocalHost\r\n",
    "IPv6": "{method} {path} HTTP/1.1\r\nhost: [::1]:80\r\n",
    "a URL": "{method} http://localhost:80{path} HTTP/1.1\r\nhost: LOCALHOST:80\r\n",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        running.topic("orders")
        running.group("billing")
        yield running


def asked(server: Server, road: str, first_lines: str) -> tuple[int, bytes]:
    """Status and bytes of the one answer to a request whose connection has to be closed by it."""
    method, path, headers = ROADS[road]
    head = first_lines.format(method=method, path=path) + headers.format(key=server.key())
    body = ""
    if method == "POST":
        body = EMPTY_RECEIVE if path.endswith(":receive") else BODY
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    if "connection:" not in head:
        head += "connection: close\r\n"
    got = b""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall((head + "\r\n" + body).encode("latin-1"))
        while part := peer.recv(65_536):
            got += part
            if got.startswith(b"HTTP/1.1 101 "):
                break
    statuses = re.findall(rb"HTTP/1\.1 (\d{3}) ", got)
    assert len(statuses) == 1, got
    return int(statuses[0]), got


@pytest.mark.parametrize("road", ROADS)
def test_every_road_refuses_the_same_targets_in_the_same_way(server: Server, road: str) -> None:
    # A lane answers what its process knows, so it has to know key, topic and path before.
    for _ in range(2):
        asked(server, road, ACCEPTED["a name"])
    wrong = []
    for name, (first_lines, status) in REFUSED.items():
        found, got = asked(server, road, first_lines)
        if found != status or b"content-type: application/problem+json" not in got:
            wrong.append((name, got))
    assert wrong == []


@pytest.mark.parametrize("road", ROADS)
def test_every_road_takes_the_same_targets(server: Server, road: str) -> None:
    usual, _ = asked(server, road, ACCEPTED["a name"])
    assert usual not in (400, 505)
    found = {name: asked(server, road, lines)[0] for name, lines in ACCEPTED.items()}
    assert set(found.values()) == {usual}, found
