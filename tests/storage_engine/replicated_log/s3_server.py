"""moto's S3 server in a thread of this process, behind a door that injures what passes.

    obstore ──▶ [S3Server: faults] ──▶ moto (everything in memory)

Requests reach moto one at a time: it compares and writes in two steps.
"""

from __future__ import annotations

import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any, Final, TypeAlias

Environ: TypeAlias = dict[str, Any]  # Any: WSGI says so
StartResponse: TypeAlias = Callable[..., Any]  # Any: WSGI says so
BUCKET: Final = "log"


class Fault(Enum):
    UNAVAILABLE = auto()  # 503, nothing done
    CONFLICT = auto()  # 409, nothing done
    DONE_UNSAID = auto()  # done, and the connection is cut before the answer
    DONE_503 = auto()  # done, and answered as if it was not
    SLOW = auto()  # done a little later than what came after it
    TRUNCATED = auto()  # half of an answer's body
    TRUNCATED_WHOLE = auto()  # the same, and its length says that it is all
    LAGGING = auto()  # a listing is the first one that was asked for
    FORBIDDEN = auto()  # 403, nothing done
    EXPIRED = auto()  # what S3 says of a token that has expired


_ANSWERS: Final = {
    Fault.UNAVAILABLE: ("503 Slow Down", "SlowDown"),
    Fault.CONFLICT: ("409 Conflict", "ConditionalRequestConflict"),
    Fault.DONE_503: ("503 Slow Down", "SlowDown"),
    Fault.FORBIDDEN: ("403 Forbidden", "AccessDenied"),
    Fault.EXPIRED: ("400 Bad Request", "ExpiredToken"),
}
SLOW_S: Final = 0.05


class S3Server:
    """``choose`` says what happens to a request, by its method and path; None: nothing."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._first_listing: tuple[str, list[tuple[str, str]], bytes] | None = None
        self.choose: Callable[[str, str], Fault | None] = lambda method, path: None
        self.fired: dict[Fault, int] = {}

    def heal(self) -> None:
        self.choose = lambda method, path: None
        self.fired = {}
        self._first_listing = None

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        fault = self.choose(method, path)
        if fault is not None:
            self.fired[fault] = self.fired.get(fault, 0) + 1
        # The body is read whatever happens: cut off, a client would see a broken connection.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if fault is Fault.SLOW:
            threading.Event().wait(SLOW_S)
        if fault in (Fault.UNAVAILABLE, Fault.CONFLICT, Fault.FORBIDDEN, Fault.EXPIRED):
            return _refuse(fault, start_response)
        status, headers, content = self._ask_moto(environ)
        if fault is Fault.DONE_503:
            return _refuse(fault, start_response)
        if fault is Fault.DONE_UNSAID:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        if fault in (Fault.TRUNCATED, Fault.TRUNCATED_WHOLE) and method == "GET":
            content = content[: len(content) // 2]
            if fault is Fault.TRUNCATED_WHOLE:
                headers = [each for each in headers if each[0].lower() != "content-length"]
                headers.append(("Content-Length", str(len(content))))
        if method == "GET" and "list-type" in environ["QUERY_STRING"]:
            if fault is Fault.LAGGING and self._first_listing is not None:
                status, headers, content = self._first_listing
            self._first_listing = self._first_listing or (status, headers, content)
        start_response(status, headers)
        return [content]

    def _ask_moto(self, environ: Environ) -> tuple[str, list[tuple[str, str]], bytes]:
        told: list[tuple[str, list[tuple[str, str]]]] = []
        with self._lock:
            content = b"".join(self._app(environ, lambda *args: told.append((args[0], args[1]))))
        return told[0][0], told[0][1], content


def _refuse(fault: Fault, start_response: StartResponse) -> Iterable[bytes]:
    status, code = _ANSWERS[fault]
    start_response(status, [("Content-Type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>a fault of a test</Message></Error>".encode()]


@contextmanager
def running_s3_server() -> Iterator[tuple[S3Server, str]]:
    """The server and its address."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def log_request(self, *args: object) -> None:
            pass

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = S3Server(DomainDispatcherApplication(create_backend_app))
    httpd = make_server("127.0.0.1", 0, server, threaded=True, request_handler=Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


def options(address: str) -> dict[str, str]:
    """What obstore needs to reach it."""
    return {
        "endpoint": address,
        "region": "us-east-1",
        "access_key_id": "key",
        "secret_access_key": "secret",
    }
