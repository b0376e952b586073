"""Calls of the control plane through the client that they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ..control_calls import control_request, is_repeatable, wait_until_finished
from ..http_calls import Request, Response, decode
from ..runtime import Runtime
from ..sides import AsyncSide
from ..tasks import within
from ..values import Duration, optional_s

if TYPE_CHECKING:
    from ..api_types import TaskOut

T = TypeVar("T")
Preview = TypeVar("Preview")
Places = Mapping[str, str | int]
Fields = Mapping[str, object]


class AsyncApi:
    """Sends the calls of resources through their client."""

    def __init__(self, side: AsyncSide, open_runtime: Callable[[], Runtime]) -> None:
        self._side = side
        self._open = open_runtime

    async def fetch(
        self,
        verb: str,
        path: str,
        kind: type[T],
        *,
        places: Places | None = None,
        query: Fields | None = None,
        body: Fields | None = None,
        key: str | None = None,
        if_match: str | None = None,
    ) -> T:
        """A call whose response is a document."""
        request = self._request(verb, path, places, query, body, key, if_match)
        response = await self._call(request)
        found = decode(response, kind)
        if isinstance(found, msgspec.Struct) and hasattr(found, "etag"):
            # Nobody else has it yet, so that it may still be changed.
            msgspec.structs.force_setattr(found, "etag", response.headers.get("etag"))
        return found

    async def preview_or_start(
        self,
        verb: str,
        path: str,
        preview: type[Preview],
        started: type[T],
        *,
        places: Places,
        body: Fields,
        key: str | None,
    ) -> Preview | T:
        """A call that starts a task, or only says what that would do."""
        request = self._request(verb, path, places, None, body, key)
        response = await self._call(request)
        return decode(response, started if response.status == 202 else preview)

    async def execute(
        self, verb: str, path: str, *, places: Places, if_match: str | None = None
    ) -> None:
        """A call whose response says nothing."""
        await self._call(self._request(verb, path, places, if_match=if_match))

    async def wait_for_task(self, task_id: str, timeout: Duration | None) -> TaskOut:
        """Raises TimeoutError."""
        from ..api_types import TaskOut

        path = "/v1/ns/{ns}/tasks/{task_id}"
        request = self._request("GET", path, {"task_id": task_id})
        caller, timeout_s = self._open().caller, optional_s(timeout, "timeout")
        try:
            return await self._side.run(
                within(timeout_s, wait_until_finished(caller, request, TaskOut))
            )
        except asyncio.TimeoutError as exc:
            raise TimeoutError(f"task {task_id} still runs after {timeout}") from exc

    def _request(
        self,
        verb: str,
        path: str,
        places: Places | None,
        query: Fields | None = None,
        body: Fields | None = None,
        key: str | None = None,
        if_match: str | None = None,
    ) -> Request:
        return control_request(
            self._open().root, verb, path,
            places=places, query=query, body=body, key=key, if_match=if_match,
        )  # fmt: skip

    async def _call(self, request: Request) -> Response:
        return await self._side.run(
            self._open().caller.call(request, is_repeatable=is_repeatable(request))
        )
