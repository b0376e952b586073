"""Requests that reach the server whole, in one read, as most clients of machines send them.

httpx sends the head first and the body behind it.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from http.client import HTTPResponse

import httpx

from tests.mqservice.delivery.serving import Server


class WholeTransport(httpx.BaseTransport):
    """A connection for each request, which is sent as one."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        assert url.port is not None
        with socket.create_connection((url.host, url.port), timeout=60) as peer:
            peer.sendall(_written(request.method, url.raw_path, request.headers, request.read()))
            answer = HTTPResponse(peer, method=request.method)
            answer.begin()
            content = answer.read()
            return httpx.Response(answer.status, headers=answer.getheaders(), content=content)


def whole_client(server: Server) -> httpx.Client:
    """A client with a key for namespace acme."""
    return server.client(transport=WholeTransport())


@contextlib.contextmanager
def begun(server: Server, path: str, options: object, key: str) -> Iterator[socket.socket]:
    """A request that was sent; its client leaves with the block."""
    content = json.dumps(options).encode()
    headers = {
        "host": "127.0.0.1",
        "authorization": key,
        "content-length": str(len(content)),
    }
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        peer.sendall(_written("POST", path.encode(), headers, content))
        yield peer


def _written(method: str, path: bytes, headers: Mapping[str, str], content: bytes) -> bytes:
    lines = [f"{name}: {value}".encode() for name, value in headers.items()]
    head = b"%b %b HTTP/1.1" % (method.encode(), path)
    return b"\r\n".join((head, *lines, b"", content))
