"""Settles and receives of the double whose caller is told, in the order in which they were sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mqservice.store import (
    Received,
    ReceiveReplyHandler,
    ReceiveRequest,
    SettleReply,
    SettleReplyHandler,
    StoreError,
)


async def tell_settled(reply: Awaitable[SettleReply], told: SettleReplyHandler) -> None:
    try:
        settled = await reply
    except StoreError as error:
        told.settle_failed(error)
    else:
        told.settled(settled)


class HoldDouble:
    """A receive that is under way; it begins once what was settled before is."""

    def __init__(
        self,
        receive: Callable[[ReceiveRequest], Awaitable[Received]],
        release: Callable[[ReceiveRequest, Received], None],
        told: ReceiveReplyHandler,
        request: ReceiveRequest,
        before: asyncio.Task[None] | None,
    ) -> None:
        self._receive, self._release = receive, release
        self._told, self._request, self._before = told, request, before
        self._received: Received | None = None
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        if self._before is not None:
            await asyncio.wait([self._before])
        try:
            received = await self._receive(self._request)
        except StoreError as error:
            self._told.receive_failed(error)
        else:
            self._received = received
            self._told.received(received)

    def cancel(self) -> None:
        """As ``PendingReceive`` has it."""
        self._task.cancel()
        if self._received is not None:
            self._release(self._request, self._received)
            self._received = None
