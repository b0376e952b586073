"""Clients that also write down how they were refused and how connections ended.

answers, errors, frames, closes ──▶ [Signals] ──▶ what no document allows
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any  # decoded JSON

import httpx
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.acceptance.history.clients import Producer, RestConsumer, SocketConsumer

TIMEOUT_S = 45.0  # a request that takes longer is stuck
CLOSE_CODES = (1012, 1013)  # "restart; try later", after which clients come back
# The connection ended before the first byte of an answer: the outcome is unknown.
UNANSWERED = (httpx.ConnectError, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class Signals:
    """Thread-safe. ``seen`` counts by name; ``forbidden`` are texts."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.forbidden: list[str] = []
        self._lock = threading.Lock()

    def note(self, name: str, *, is_allowed: bool, text: str = "") -> None:
        with self._lock:
            self.seen[name] += 1
            if not is_allowed:
                self.forbidden.append(f"{name} {text}".strip())


class _Watched(httpx.HTTPTransport):
    """Reads each answer to its end, so that half of one is told from none."""

    def __init__(self, signals: Signals) -> None:
        super().__init__()
        self._signals = signals

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = super().handle_request(request)
        except httpx.TransportError as error:
            name = type(error).__name__
            self._signals.note(name, is_allowed=isinstance(error, UNANSWERED), text=str(error))
            raise
        try:
            content = response.read()
        except httpx.TransportError as error:
            self._signals.note("half an answer", is_allowed=False, text=str(error))
            raise
        finally:
            response.close()
        self._note(response, content)
        return httpx.Response(response.status_code, headers=response.headers, content=content)

    def _note(self, response: httpx.Response, content: bytes) -> None:
        status = response.status_code
        is_refusal = status >= 400
        is_allowed = not is_refusal or (status == 503 and "retry-after" in response.headers)
        text = f"{dict(response.headers)} {content[:300]!r}" if is_refusal else ""
        self._signals.note(f"status {status}", is_allowed=is_allowed, text=text)


class _OverRest:
    signals: Signals
    headers: dict[str, str]

    def api(self) -> httpx.Client:
        return httpx.Client(
            headers=self.headers, timeout=TIMEOUT_S, transport=_Watched(self.signals)
        )


class WatchingProducer(_OverRest, Producer):
    """See the module's docstring; ``signals`` is given after it was made."""

    pause_s = 0.1
    batch_count = 10  # requests meet a process that goes, messages only cost processor


class WatchingRestConsumer(_OverRest, RestConsumer):
    """See the module's docstring."""


class WatchingSocketConsumer(SocketConsumer):
    """A close by the service must be one that tells clients to come back.

    It never goes by itself: so each process that ends has to close the sockets that it began with.
    """

    # Frames do not say when a lease ends, and while processes start one may be read seconds late.
    lease_ms = 5_000
    signals: Signals
    vanish_share = 0.0

    def ended(self, error: Exception) -> None:
        if isinstance(error, ConnectionClosed):
            code = error.rcvd.code if error.rcvd is not None else 1006
            self.signals.note(f"close {code}", is_allowed=code in CLOSE_CODES)
        elif isinstance(error, InvalidStatus):
            status = error.response.status_code
            self.signals.note(f"upgrade {status}", is_allowed=status == 503)
        else:
            name = type(error).__name__
            is_allowed = isinstance(error, OSError) and not isinstance(error, TimeoutError)
            self.signals.note(f"socket {name}", is_allowed=is_allowed, text=str(error))

    def told(self, frame: dict[str, Any]) -> None:
        op = frame.get("op", "?")
        is_error = op == "err" and not frame.get("retryable")
        self.signals.note(f"frame {op}", is_allowed=not is_error, text=str(frame))
