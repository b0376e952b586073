"""Which clients each broadcast group has, and when each was last seen.

    receive ── admit, seen ──▶ [BroadcastClients] ── silent for 7 days ──▶ broadcasting: forgotten
    consumer_offsets ── whose progress there is, when seen ──▶ restore

A client is one that has progress. What it was last seen is written with each checkpoint of the
consumer offsets; one whose time got lost counts as seen at the start. Time never runs faster here
than the monotonic clock, so that a wall clock that jumps ahead makes nobody silent. Loop thread
only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from storage_engine.config import SECOND_MS
from storage_engine.delivery.clients import reader_name, split_reader
from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.errors import ClientLimit

_CLOCK_TOLERANCE_MS: Final = 60 * SECOND_MS
# Clients of an engine that was down for long come back before they count as silent.
_GRACE_MS: Final = 600 * SECOND_MS


class Client:
    """One client of a group. ``seen_ms``: wall clock; ``dropped_count``: since the engine's start,
    messages that it could not consume.
    """

    __slots__ = ("client_id", "dropped_count", "group", "seen_ms")

    def __init__(self, group: str, client_id: str, seen_ms: int) -> None:
        self.group = group
        self.client_id = client_id
        self.seen_ms = seen_ms
        self.dropped_count = 0


class BroadcastClients:
    """See the module's docstring. ``dropped_count``: of all clients, including expired ones."""

    def __init__(self, parts: EngineParts) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._began = self._clock.now_ms(), self._clock.monotonic_ms()
        self._seen_ms = parts.consumer_offsets.client_seen_ms
        self._by_group: dict[str, dict[str, Client]] = {}
        self.count = 0
        self.dropped_count = 0
        self._restore(parts.consumer_offsets)

    def _restore(self, consumer_offsets: ConsumerOffsets) -> None:
        now_ms, saved = self._now_ms(), dict(self._seen_ms)
        self._seen_ms.clear()
        for progress in consumer_offsets:
            group, client_id = split_reader(progress.group)
            if client_id and self.find(group, client_id) is None:
                self._add(group, client_id, min(saved.get(progress.group, now_ms), now_ms))

    def admit(self, group: str, client_id: str) -> None:
        """Raises ``ClientLimit`` for a new client where there are enough."""
        of_group = self._by_group.get(group, {})
        if client_id in of_group:
            return
        for count, limit, where in (
            (len(of_group), self._config.broadcast_client_count_max, f"group {group} has"),
            (self.count, self._config.broadcast_client_total_max, "all groups together have"),
        ):
            if count >= limit:
                raise ClientLimit(
                    f"{where} {count} clients, which is the limit of {limit}; a "
                    "client expires "
                    f"{self._config.broadcast_client_expiry_ms // SECOND_MS} s after it "
                    "was last seen"
                )

    def client_seen(self, group: str, client_id: str) -> None:
        """A client that has progress is there."""
        client, now_ms = self.find(group, client_id), self._now_ms()
        if client is None:
            self._add(group, client_id, now_ms)
        else:
            client.seen_ms = self._seen_ms[reader_name(group, client_id)] = now_ms

    def _add(self, group: str, client_id: str, seen_ms: int) -> None:
        self._by_group.setdefault(group, {})[client_id] = Client(group, client_id, seen_ms)
        self._seen_ms[reader_name(group, client_id)] = seen_ms
        self.count += 1

    def find(self, group: str, client_id: str) -> Client | None:
        return self._by_group.get(group, {}).get(client_id)

    def of(self, group: str) -> list[Client]:
        """By client id."""
        return [client for _, client in sorted(self._by_group.get(group, {}).items())]

    def silent(self, count_max: int) -> list[Client]:
        """Some of those that were not seen for so long that they are to be forgotten."""
        kept_ms = self._config.broadcast_client_expiry_ms
        if self._clock.monotonic_ms() - self._began[1] < min(kept_ms, _GRACE_MS):
            return []
        before_ms = self._now_ms() - kept_ms
        return [each for each in self if each.seen_ms <= before_ms][:count_max]

    def forget(self, client: Client) -> None:
        of_group = self._by_group[client.group]
        del of_group[client.client_id]
        del self._seen_ms[reader_name(client.group, client.client_id)]
        if not of_group:
            del self._by_group[client.group]
        self.count -= 1

    def dropped(self, reader: str) -> None:
        """A message that a client could not consume was dropped."""
        self.dropped_count += 1
        client = self.find(*split_reader(reader))
        if client is not None:
            client.dropped_count += 1

    def __iter__(self) -> Iterator[Client]:
        for of_group in self._by_group.values():
            yield from of_group.values()

    def _now_ms(self) -> int:
        wall_ms, monotonic_ms = self._began
        passed_ms = self._clock.monotonic_ms() - monotonic_ms
        return min(self._clock.now_ms(), wall_ms + passed_ms + _CLOCK_TOLERANCE_MS)
