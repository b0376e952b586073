"""A client that asks the control plane, whose answers tell whether that works."""

from __future__ import annotations

import threading
import time
from typing import Final

import httpx

from tests.acceptance.history.clients import Client

CONTROL_S_MAX: Final = 60.0  # longer than any of the service's own limits
PAUSE_S: Final = 0.1


class ControlAsker(Client):
    """Asks for what only PostgreSQL knows, over and over; ``answers`` are (asked at, status)."""

    def work(self) -> None:
        self._lock = threading.Lock()
        self.answers: list[tuple[float, int]] = []
        with httpx.Client(headers=self.headers, timeout=CONTROL_S_MAX) as api:
            while not self.is_stopping:
                asked_at = time.monotonic()
                try:
                    status = api.get(self.path("topics")).status_code
                except httpx.TransportError:
                    status = 0
                with self._lock:
                    self.answers.append((asked_at, status))
                self._is_stopping.wait(PAUSE_S)

    def was_answered_since(self, moment_s: float, *, is_good: bool) -> bool:
        """Whether a question that was asked later has an answer, whatever it is or a good one."""
        with self._lock:
            return any(
                asked_at > moment_s and (status == 200 if is_good else status > 0)
                for asked_at, status in self.answers
            )
