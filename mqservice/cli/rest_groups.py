"""REST calls of the commands on groups, and the deletion of topics.

mqservice group … ─▶ [GroupCalls] ─▶ RestClient ─▶ service
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import msgspec

from mqservice.cli.client import PAGES_MAX, RestClient
from mqservice.cli.errors import ResponseMalformed

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


class _Page(msgspec.Struct):
    groups: list[Group]
    next: str | None = None


class GroupCalls:
    """One method an operation; raises what ``RestClient`` does."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    async def groups(self) -> list[Group]:
        """All groups by name; one request a page of them."""
        groups: list[Group] = []
        path = "groups"
        for _ in range(PAGES_MAX):
            page = await self._client.call("GET", path, _Page)
            groups += page.groups
            if page.next is None:
                return groups
            path = f"groups?after={quote(page.next, safe='')}"
        raise ResponseMalformed(f"the list of groups did not end after {PAGES_MAX} pages")

    async def group(self, name: str) -> Group:
        return await self._client.call("GET", _path(name), Group)

    async def clients(self, name: str) -> GroupClients:
        """Who reads for the group now."""
        return await self._client.call("GET", f"{_path(name)}/clients", GroupClients)

    async def put(self, name: str, settings: dict[str, object]) -> Group:
        """Create the group, or change these settings; the same call again is harmless."""
        return await self._client.call(
            "PUT", _path(name), Group, content=msgspec.json.encode(settings)
        )

    async def set_paused(self, name: str, *, is_paused: bool) -> Group:
        verb = "pause" if is_paused else "resume"
        return await self._client.call("POST", f"{_path(name)}:{verb}", Group)

    async def delete(self, name: str) -> None:
        await self._client.call("DELETE", _path(name))


def _path(name: str) -> str:
    return f"groups/{quote(name, safe='')}"
