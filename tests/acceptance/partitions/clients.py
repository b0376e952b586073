"""Clients of the history checker on a host of their own, and one that asks the control plane."""

from __future__ import annotations

import threading
import time

import httpx

from tests.acceptance.history.clients import Client, Producer, RestConsumer, SocketConsumer
from tests.acceptance.partitions.network import Host

# Less than a cut between clients and service lasts, so that some answers are given up.
TIMEOUT_S = 3.0
CONTROL_S_MAX = 60.0  # longer than any of the service's own limits


class _OnHost(Client):
    """``host`` is given after it was made."""

    host: Host

    def run(self) -> None:
        self.host.enter()
        super().run()

    def api(self) -> httpx.Client:
        return httpx.Client(headers=self.headers, timeout=TIMEOUT_S)


class CutProducer(_OnHost, Producer):
    """Small batches: requests meet a cut, messages only cost processor."""

    pause_s = 0.05
    batch_count = 10


class CutRestConsumer(_OnHost, RestConsumer):
    pass


class CutSocketConsumer(_OnHost, SocketConsumer):
    pass


class ControlAsker(_OnHost):
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
                self._is_stopping.wait(0.1)

    def was_answered_since(self, moment_s: float, *, is_good: bool) -> bool:
        """Whether a question that was asked later has an answer, whatever it is or a good one."""
        with self._lock:
            return any(
                asked_at > moment_s and (status == 200 if is_good else status > 0)
                for asked_at, status in self.answers
            )
