"""REST calls of the commands: one method per operation, over HTTP.

    topic, group … ─▶ [RestClient] ─▶ HTTP ─▶ service
                  ◀─ structs, ClientError ◀─

Who calls it: the commands of this package, the tests and the benchmarks. One event loop.
A failure always says what is known: ``Unreachable`` nothing was sent, ``RequestRejected`` the
service answered, ``ResponseMissing`` nobody knows. Nothing is sent twice here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload
from urllib.parse import quote, urlencode

import msgspec

from mqservice.cli.errors import (
    ResponseMalformed,
    ResponseMissing,
    Unreachable,
    UsageError,
    os_cause,
)
from mqservice.cli.http import Connections, NoResponse, NotConnected, Response
from mqservice.cli.messages import (
    BrowsedPage,
    Delivered,
    PulledPage,
    parse_browsed,
    parse_pulled,
    parse_stored,
)
from mqservice.cli.progress import GroupConditions, GroupLag, SeekResult
from mqservice.cli.target import Target
from mqservice.cli.tasks import DryRun, Task, TaskFailurePage, TaskOrder

TIMEOUT_MS_DEFAULT: Final = 30_000
# The server parks a receive for its `wait`; the answer may take that much longer.
CONNECT_TIMEOUT_MS: Final = 5_000
CONNECTIONS_MAX: Final = 32
JSON_TYPE: Final = "application/json"
USER_AGENT: Final = "mqservice-cli/1"
PAGES_MAX: Final = 10_000


class Topic(msgspec.Struct, kw_only=True):
    name: str
    queues: int
    durability: str = ""
    type: str = ""


ResponseT = TypeVar("ResponseT", bound=msgspec.Struct)
ItemT = TypeVar("ItemT", bound=msgspec.Struct | msgspec.Raw)


class RestClient:
    """Calls on one service with one key, over a bounded pool of connections."""

    def __init__(
        self,
        target: Target,
        *,
        timeout_ms: int = TIMEOUT_MS_DEFAULT,
    ) -> None:
        self.target = target
        self._root = f"/v1/ns/{quote(target.namespace, safe='')}"
        self._timeout_ms = timeout_ms
        self._http = Connections(
            target.base_url,
            headers={
                "authorization": f"Bearer {target.key}",
                "user-agent": USER_AGENT,
                "accept": "*/*",
            },
            connections_max=CONNECTIONS_MAX,
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            # A proxy from the environment never knows this machine's own loopback.
            may_use_proxy=not target.is_loopback,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def topics(self) -> list[Topic]:
        """All topics by name."""
        return await self.all_pages("topics", "topics", Topic)

    async def create_topic(self, name: str, *, queues: int, durability: str) -> Topic:
        """Create the topic, or change it to these settings; the same call again is harmless."""
        content = msgspec.json.encode({"queues": queues, "durability": durability})
        return await self.call("PUT", f"topics/{quote(name, safe='')}", Topic, content=content)

    async def delete_topic(self, name: str) -> None:
        """Delete the topic with its messages."""
        await self.call("DELETE", f"topics/{quote(name, safe='')}")

    async def browse(self, topic: str, query: Mapping[str, str]) -> BrowsedPage:
        """One page of a topic's messages, with the parameters of the API as ``query``."""
        answer = await self._request("GET", f"{self._messages_path(topic)}?{urlencode(query)}")
        return parse_browsed(answer.content)

    async def search(self, query: Mapping[str, str]) -> BrowsedPage:
        """One page of what the search language finds."""
        answer = await self._request("GET", f"{self._root}/messages?{urlencode(query)}")
        return parse_browsed(answer.content)

    async def pull(self, path: str) -> PulledPage:
        """Messages of one queue, of a path below the namespace's."""
        return parse_pulled((await self._request("GET", f"{self._root}/{path}")).content)

    async def message(self, topic: str, message_id: str) -> Delivered:
        """The one message of that id."""
        path = f"{self._messages_path(topic)}/{quote(message_id, safe='')}"
        return parse_stored((await self._request("GET", path)).content)

    async def create_task(self, group: str, verb: str, order: TaskOrder) -> Task | DryRun:
        """``redrive`` or ``purge`` dead letters of a group: the task, or what it would move."""
        path = f"groups/{quote(group, safe='')}/dlq:{verb}"
        content = msgspec.json.encode(order)
        if order.dry_run:
            return await self.call("POST", path, DryRun, content=content)
        return await self.call("POST", path, Task, content=content)

    async def task(self, task_id: str) -> Task:
        """How far a task has come."""
        return await self.call("GET", f"tasks/{quote(task_id, safe='')}", Task)

    async def task_failures(self, task_id: str, *, limit: int) -> TaskFailurePage:
        """The first ``limit`` messages that a task did not move."""
        path = f"tasks/{quote(task_id, safe='')}/failures?limit={limit}"
        return await self.call("GET", path, TaskFailurePage)

    @overload
    async def call(
        self,
        method: str,
        path: str,
        kind: type[ResponseT],
        *,
        content: bytes | None = None,
        media_type: str = JSON_TYPE,
    ) -> ResponseT: ...

    @overload
    async def call(self, method: str, path: str) -> None: ...

    async def call(
        self,
        method: str,
        path: str,
        kind: type[ResponseT] | None = None,
        *,
        content: bytes | None = None,
        media_type: str = JSON_TYPE,
    ) -> ResponseT | None:
        """Any request of the control plane; a path without a slash is below the namespace's."""
        whole = path if path.startswith("/") else f"{self._root}/{path}"
        headers = None if content is None else {"content-type": media_type}
        answer = await self._request(method, whole, content=content, headers=headers)
        return None if kind is None else _decode(answer, kind)

    async def all_pages(self, path: str, field: str, kind: type[ItemT]) -> list[ItemT]:
        """What all pages of a list hold in ``field``; one request a page."""
        page_kind = msgspec.defstruct(
            "Page",
            [(field, list[kind]), ("next", str | None, None)],  # type: ignore[valid-type]  # reason: made here
        )
        found: list[ItemT] = []
        place = ""
        for _ in range(PAGES_MAX):
            page: Any = await self.call("GET", f"{path}{place}", page_kind)  # reason: made here
            found += getattr(page, field)
            if page.next is None:
                return found
            place = f"?after={quote(page.next, safe='')}"
        raise ResponseMalformed(f"the list of {field} did not end after {PAGES_MAX} pages")

    async def download(self, path: str, media_type: str | None = None) -> bytes:
        """A file below the namespace's path, as it is, of this type where there are several."""
        headers = None if media_type is None else {"accept": media_type}
        return (await self._request("GET", f"{self._root}/{path}", headers=headers)).content

    async def seek(
        self, group: str, topic: str, wanted: Mapping[str, object], *, is_dry_run: bool
    ) -> SeekResult:
        """Let a group go on from another place; ``wanted``: the API's ``to`` and ``queues``."""
        content = msgspec.json.encode({"topic": topic, **wanted, "dry_run": is_dry_run})
        path = f"groups/{quote(group, safe='')}:seek"
        return await self.call("POST", path, SeekResult, content=content)

    async def lag(self, group: str, topic: str | None, client_id: str | None = None) -> GroupLag:
        """What a group or its client has to settle, of one topic or of all it has read."""
        given = {"topic": topic, "client_id": client_id}
        wanted = urlencode({name: value for name, value in given.items() if value is not None})
        query = f"?{wanted}" if wanted else ""
        return await self.call("GET", f"groups/{quote(group, safe='')}/lag{query}", GroupLag)

    async def health(self, group: str = "") -> GroupConditions:
        """How all groups are doing, or this one."""
        query = f"?{urlencode({'group': group})}" if group else ""
        return await self.call("GET", f"health{query}", GroupConditions)

    def _messages_path(self, topic: str) -> str:
        return f"{self._root}/topics/{quote(topic, safe='')}/messages"

    async def _request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        wait_ms: int = 0,
    ) -> Response:
        what = f"{method} {path}"
        if content is not None and headers is None:
            headers = {"content-type": JSON_TYPE}
        try:
            answer = await self._http.request(
                method,
                path,
                timeout_ms=self._timeout_ms + wait_ms,
                content=content,
                headers=headers,
            )
        except ValueError as exc:
            raise UsageError(str(exc)) from exc
        except NotConnected as exc:
            raise Unreachable(self.target.base_url, os_cause(exc)) from exc
        except NoResponse as exc:
            raise ResponseMissing(what, os_cause(exc)) from exc
        if answer.is_success:
            return answer
        # Here, for only a command that fails needs it.
        from mqservice.cli.library_errors import rejection_from

        raise rejection_from(answer.status, answer.content)


def _decode(answer: Response, kind: type[ResponseT]) -> ResponseT:
    return decode(answer.content, kind)


def decode(content: bytes | msgspec.Raw, kind: type[ResponseT]) -> ResponseT:
    """A document of the API. Raises ResponseMalformed."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as exc:
        raise ResponseMalformed(
            f"the response of the service does not have the documented form: {exc}"
        ) from exc
