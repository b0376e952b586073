"""A receive that waits in the engine, and all that can end it before a message comes.

    poll_engine ──▶ store.receive (parked) ──▶ records under a lease
        ├── client gone ────────▶ ClientGone
        ├── process ends ───────▶ nothing, at once
        └── key may no longer ──▶ 401 or 403

Whatever was leased by then is given back at once.
"""

from __future__ import annotations

import asyncio

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import ClientGone, Request
from mqservice.lib.client_gone import when_gone
from mqservice.lib.problem import Problem
from mqservice.store import Received, ReceiveHead, ReceiveRequest


async def poll_engine(
    context: DeliveryContext, request: Request, order: ReceiveRequest
) -> Received:
    """What the engine leases, unless client, process or key end before.

    Raises ClientGone, or Problem when the key may not receive this any more.
    """
    ended = _Ended(request)
    keys, authorization = context.caches.keys.watch, request.headers[b"authorization"]
    context.drain.join(ended)
    if order.wait_ms:
        keys.join(authorization, request.principal.key_id, ended.key_changed)
    unwatch = when_gone(request.send, ended.client_gone)
    if unwatch is None:
        unwatch = asyncio.ensure_future(_until_gone(request, ended)).cancel
    try:
        if not ended.has_ended:
            ended.is_waiting = True
            # Cancelled, it frees its place in the engine and gives back what it may have leased.
            return await context.store.receive(order)
    except asyncio.CancelledError:
        if not ended.has_cancelled():
            raise
    finally:
        ended.is_waiting = False
        context.drain.leave(ended)
        if order.wait_ms:
            keys.leave(authorization, request.principal.key_id, ended.key_changed)
        unwatch()
    if ended.why is not None:
        raise ended.why
    return Received(ReceiveHead(lease_generation=0, lease_until_ms=0, attempts=[]), [])


class _Ended:
    """Cancels what the task that made it waits for, once, and knows why; as ``asyncio.timeout``
    does, and without a task for each thing that may happen. ``why`` None: the process ends.

    Hashable, unlike a closure it can be left again.
    """

    __slots__ = ("_cancelling", "_request", "_task", "has_ended", "is_waiting", "why")

    def __init__(self, request: Request) -> None:
        task = asyncio.current_task()
        assert task is not None, "requests are answered by tasks"
        self._task = task
        self._cancelling = task.cancelling()
        self._request = request
        self.is_waiting = False
        self.has_ended = False
        self.why: Exception | None = None

    def __call__(self) -> None:
        self._end(None)

    def client_gone(self) -> None:
        self._end(ClientGone())

    def key_changed(self, principal: Principal | None) -> None:
        """What the request's key may do now; None: nothing any more."""
        if principal is None:
            self._end(unauthenticated())
            return
        try:
            require_consume(principal, self._request)
        except Problem as problem:
            self._end(problem)

    def has_cancelled(self) -> bool:
        """Whether the task was cancelled by this and by nobody else."""
        return self.has_ended and self._task.uncancel() <= self._cancelling

    def _end(self, why: Exception | None) -> None:
        if not self.has_ended:
            self.has_ended, self.why = True, why
            if self.is_waiting:
                self._task.cancel()


async def _until_gone(request: Request, ended: _Ended) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    ended.client_gone()


def require_consume(principal: Principal, request: Request) -> None:
    """Who receives needs the scope for the topic and for the group. Raises Problem 403."""
    principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
