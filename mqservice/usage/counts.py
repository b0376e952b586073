"""What this process has done for tenants since usage was last written. Memory only.

    produce ──▶ stored ──┐
    push ─────▶ sent ────┼──▶ [UsageCounts] ── take, every 10 s ──▶ rows
    request ──▶ called ──┘

A kill loses what was counted within the last ten seconds. Topics have the names that the engine
knows them by. All but ``called_elsewhere`` is for the event loop.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from mqservice.usage.limits import TENANTS_MAX, TOPICS_MAX

MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, API_CALLS = range(5)


@dataclass(slots=True)
class UsageBatch:
    """Five numbers of each topic, and calls of each tenant that were about none."""

    topics: dict[str, list[int]] = field(default_factory=dict)
    calls: dict[int, int] = field(default_factory=dict)


class UsageCounts:
    """See the module's docstring."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self._now = UsageBatch()
        self._lock = threading.Lock()
        self._elsewhere: dict[int, int] = {}

    def stored(self, topic: str, message_count: int, byte_count: int) -> None:
        """Messages of a topic that were stored, as records."""
        row = self._now.topics.get(topic) or self._row(topic)
        row[MESSAGES_IN] += message_count
        row[BYTES_IN] += byte_count

    def sent(self, topic: str, message_count: int, byte_count: int) -> None:
        """Messages of a topic that somebody has read."""
        row = self._now.topics.get(topic) or self._row(topic)
        row[MESSAGES_OUT] += message_count
        row[BYTES_OUT] += byte_count

    def called(self, tenant_id: int, topic: str = "") -> None:
        """A request was answered; ``topic``: that it was about."""
        if topic:
            row = self._now.topics.get(topic) or self._row(topic)
            row[API_CALLS] += 1
        else:
            _count(self._now.calls, tenant_id, 1)

    def called_elsewhere(self, tenant_id: int) -> None:
        """The same on another thread, about no topic."""
        with self._lock:
            _count(self._elsewhere, tenant_id, 1)

    def drain(self) -> UsageBatch:
        """All that was counted; it is forgotten here."""
        taken, self._now = self._now, UsageBatch()
        with self._lock:
            elsewhere, self._elsewhere = self._elsewhere, {}
        for tenant_id, count in elsewhere.items():
            _count(taken.calls, tenant_id, count)
        return taken

    def put_back(self, taken: UsageBatch) -> None:
        """What could not be written counts with what comes."""
        for topic, numbers in taken.topics.items():
            row = self._now.topics.get(topic) or self._row(topic)
            for index, number in enumerate(numbers):
                row[index] += number
        for tenant_id, count in taken.calls.items():
            _count(self._now.calls, tenant_id, count)

    def _row(self, topic: str) -> list[int]:
        row = [0] * 5
        if len(self._now.topics) < self._topics_max:
            self._now.topics[topic] = row
        return row


def _count(calls: dict[int, int], tenant_id: int, count: int) -> None:
    if tenant_id in calls or len(calls) < TENANTS_MAX:
        calls[tenant_id] = calls.get(tenant_id, 0) + count


usage_counts: Final = UsageCounts()
