"""A real HTTP server of this host that notes what it is sent, and answers as it is told."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

WAIT_S = 60


@dataclass
class Hook:
    """``answer`` gets the connection once the request was read; ``requests`` in their order."""

    port: int
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answer: Callable[[socket.socket], None] = lambda to: to.sendall(
        b"HTTP/1.1 204 No Content\r\n\r\n"
    )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"


@contextmanager
def listening(tls: ssl.SSLContext | None = None) -> Iterator[Hook]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hook = Hook(listener.getsockname()[1])
        ends = threading.Event()

        def serve() -> None:
            while not ends.is_set():
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with suppress(OSError), connection:
                    connection.settimeout(WAIT_S)
                    stream = connection
                    if tls is not None:
                        stream = tls.wrap_socket(connection, server_side=True)
                    hook.requests.append(_read(stream))
                    hook.answer(stream)
                    stream.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield hook
        finally:
            ends.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(WAIT_S)


def _read(connection: socket.socket) -> tuple[str, dict[str, str], bytes]:
    content = b""
    while b"\r\n\r\n" not in content:
        content += _received(connection)
    head, _, body = content.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    while len(body) < int(headers["Content-Length"]):
        body += _received(connection)
    return first, headers, body


def _received(connection: socket.socket) -> bytes:
    """What comes next. Raises ``ConnectionError`` when nothing ever will."""
    content = connection.recv(65_536)
    if not content:
        raise ConnectionError("the client is gone before its request was whole")
    return content
