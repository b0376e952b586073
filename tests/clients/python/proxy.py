"""A TCP proxy before the service that does what proxies do to clients.

client ── connections ─▶ [Proxy] ─▶ service        cut, is_down, change, loses_response
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

_READ_BYTES = 65_536
_UPGRADE = re.compile(rb"^upgrade: *websocket", re.IGNORECASE | re.MULTILINE)
_UPGRADE_LINES = re.compile(rb"^(upgrade|connection): .*\r\n", re.IGNORECASE | re.MULTILINE)
# Closing with it sends a reset, not an end.
_LINGER = struct.pack("ii", 1, 0)


class Proxy:
    """``is_down``: refuse new connections. ``change`` may rewrite what a connection begins with.

    ``loses_response`` tells of which requests the response is lost, together with its connection.
    """

    def __init__(self, base_url: str) -> None:
        self.is_down = False
        self.change: Callable[[bytes], bytes] = bytes
        self.loses_response: Callable[[bytes], bool] = lambda _: False
        self.connection_count = 0
        self.upgrade_count = 0
        parts = urlsplit(base_url)
        self._service = parts.hostname, parts.port
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def cut(self) -> None:
        """End every connection without a word."""
        with self._lock:
            open_sockets = list(self._sockets)
        for each in open_sockets:
            _reset(each)

    def close(self) -> None:
        self.is_down = True
        with contextlib.suppress(OSError):  # it was closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return
            self.connection_count += 1
            if self.is_down:
                _reset(inner)
                continue
            threading.Thread(target=self._serve, args=(inner,), name="proxy", daemon=True).start()

    def _serve(self, inner: socket.socket) -> None:
        with contextlib.suppress(OSError), socket.create_connection(self._service) as outer:
            lost = threading.Event()
            back = threading.Thread(
                target=self._pump_back, args=(outer, inner, lost), name="proxy", daemon=True
            )
            with self._lock:
                self._sockets |= {inner, outer}
            back.start()
            with contextlib.suppress(OSError):
                self._pump(inner, outer, lost)
            for each in (inner, outer):
                _reset(each)
            back.join()
            with self._lock:
                self._sockets -= {inner, outer}
        inner.close()

    def _pump(self, inner: socket.socket, outer: socket.socket, lost: threading.Event) -> None:
        is_first = True
        while content := inner.recv(_READ_BYTES):
            if is_first:
                is_first = False
                self.upgrade_count += _UPGRADE.search(content) is not None
                content = self.change(content)
            if self.loses_response(content):
                lost.set()
            outer.sendall(content)

    def _pump_back(self, outer: socket.socket, inner: socket.socket, lost: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while content := outer.recv(_READ_BYTES):
                if lost.is_set():
                    break
                inner.sendall(content)
        for each in (inner, outer):
            _reset(each)


def without_upgrade(content: bytes) -> bytes:
    """What a proxy passes on that knows nothing of WebSockets."""
    return _UPGRADE_LINES.sub(b"", content)


@contextmanager
def proxy(base_url: str) -> Iterator[Proxy]:
    made = Proxy(base_url)
    try:
        yield made
    finally:
        made.close()


def _reset(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        each.shutdown(socket.SHUT_RDWR)
        each.close()
