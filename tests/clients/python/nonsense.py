"""A server that answers each connection with bytes of the test's choice, then waits."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CLOSE = 0x88  # what a frame that closes a socket begins with


@contextmanager
def answering(answer: Callable[[bytes], bytes], *, hangs_up: bool = True) -> Iterator[str]:
    """Its address. ``answer`` gets what a connection begins with. ``hangs_up``: a client that
    leaves a socket is let go at once.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            opened = []
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    opened.append(connection)
                    content = answer(connection.recv(65_536))
                    connection.sendall(content)
                    if b" 101 " not in content:
                        connection.shutdown(socket.SHUT_WR)
                    elif hangs_up:
                        _hang_up_with(connection)
            for each in opened:
                each.close()

        thread = threading.Thread(target=serve, name="nonsense", daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def _hang_up_with(connection: socket.socket) -> None:
    """When the client leaves."""
    with contextlib.suppress(OSError):
        while (frame := connection.recv(65_536)) and frame[0] != _CLOSE:
            pass
        connection.shutdown(socket.SHUT_RDWR)


def accept_socket(head: bytes) -> bytes:
    """The handshake of a WebSocket, as the service would answer it."""
    found = re.search(rb"sec-websocket-key: (\S+)", head, re.IGNORECASE)
    key = found[1] if found else b""
    accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
    return (
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: mq.v1.msgpack\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )
