"""Groups and their consumers as the service shows them."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

LAG_UNKNOWN: Final = "?"


class Retry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A retry policy; only the fields of its kind are there."""

    policy: str
    delays: list[str] = []
    start: str = ""
    factor: float = 0.0
    cap: str = ""

    def __str__(self) -> str:
        if self.policy == "list":
            return ", ".join(self.delays)
        if self.policy == "exponential":
            return f"{self.start} × {self.factor:g}, at most {self.cap}"
        return self.policy


class Lag(msgspec.Struct, kw_only=True):
    total: int | None = None


class Group(msgspec.Struct, kw_only=True):
    """A group as the service shows it; ``max_attempts`` is None without a limit."""

    name: str
    start_from: str
    lease: str
    consume_timeout: str = ""
    max_attempts: int | None
    retry: Retry
    paused: bool
    dispatch: str = "shared"
    strategy: str = "AVG"
    ordered: bool = False
    assignment: dict[str, Any] = {}  # reason: shown as the service says it
    lag: Lag | None = None

    @property
    def dispatch_text(self) -> str:
        """Who reads a queue, by which strategy, and whether in its order."""
        if self.dispatch != "exclusive":
            return self.dispatch + (", ordered" if self.ordered else "")
        return f"{self.dispatch}, {self.strategy}" + (", ordered" if self.ordered else "")

    @property
    def lag_text(self) -> str:
        """Messages that wait, or that nobody knows."""
        if self.lag is None or self.lag.total is None:
            return LAG_UNKNOWN
        return str(self.lag.total)


class Client(msgspec.Struct, kw_only=True):
    """A consumer of a group; ``queues`` is None in a shared group, where it may have any."""

    consumer: str
    queues: list[int] | None
    waiting: bool
    inflight: int
    zone: str | None = None
    heard_at: str = ""
    client_id: str | None = None

    @property
    def shown_name(self) -> str:
        """With the client that it belongs to, in a broadcast group."""
        return self.consumer if self.client_id is None else f"{self.client_id}: {self.consumer}"


class TopicClients(msgspec.Struct, kw_only=True):
    """Who reads one topic for a group."""

    topic: str
    generation: int | None
    unassigned: list[int] | None
    clients: list[Client]
    is_complete: bool = True


class GroupClients(msgspec.Struct, kw_only=True):
    group: str
    topics: list[TopicClients]


def group_path(name: str) -> str:
    return f"groups/{quote(name, safe='')}"
