"""A receive that waits in the engine, and all that can end it before a message comes.

    poll_engine ──▶ store.receive (parked) ──▶ records under a lease
        ├── client gone ────────▶ ClientGone
        ├── process ends ───────▶ nothing, at once
        └── key may no longer ──▶ 401 or 403

Whatever was leased by then is given back at once.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import ClientGone, Request
from mqservice.lib.problem import Problem
from mqservice.store import Nack, Received, ReceiveHead, ReceiveRequest, SettleRequest, Store


async def poll_engine(
    context: DeliveryContext, request: Request, order: ReceiveRequest
) -> Received:
    """What the engine leases, unless client, process or key end before.

    Raises ClientGone, or Problem when the key may not receive this any more.
    """
    loop = asyncio.get_running_loop()
    poll = loop.create_task(context.store.receive(order))
    watch = loop.create_task(_until_gone(request))
    ended = _Ended(request, loop.create_future())
    keys, authorization = context.caches.keys.watch, request.headers[b"authorization"]
    context.drain.join(ended)
    if order.wait_ms:
        keys.join(authorization, request.principal.key_id, ended.key_changed)
    waiting: set[asyncio.Future[Any]] = {poll, watch, ended.future}  # Any: of three kinds
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        refusal = ended.future.result() if ended.future.done() else None
        if poll.done():
            received = poll.result()
            if watch.done() or refusal is not None:
                await give_back(context.store, order, received)
                raise refusal or ClientGone
            return received
        if watch.done():
            raise ClientGone
        if refusal is not None:
            raise refusal
        return Received(ReceiveHead(lease_generation=0, lease_until_ms=0, attempts=[]), [])
    finally:
        context.drain.leave(ended)
        if order.wait_ms:
            keys.leave(authorization, request.principal.key_id, ended.key_changed)
        # Cancelling the poll frees its place in the engine, which gives back what it may have
        # leased.
        for task in (poll, watch):
            task.cancel()


class _Ended:
    """Resolves a future at most once: with None for the process's end, else with a refusal.

    Hashable, unlike a closure it can be left again.
    """

    __slots__ = ("_request", "future")

    def __init__(self, request: Request, future: asyncio.Future[Problem | None]) -> None:
        self._request = request
        self.future = future

    def __call__(self) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def key_changed(self, principal: Principal | None) -> None:
        """What the request's key may do now; None: nothing any more."""
        if self.future.done():
            return
        if principal is None:
            self.future.set_result(unauthenticated())
            return
        try:
            require_consume(principal, self._request)
        except Problem as problem:
            self.future.set_result(problem)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def give_back(store: Store, order: ReceiveRequest, received: Received) -> None:
    """Make what was leased for nobody available again at once."""
    if not received.records:
        return
    generation = received.head.lease_generation
    await store.settle(
        SettleRequest(
            group=order.group,
            client_id=order.client_id,
            nacks=[
                Nack(
                    topic=record.topic,
                    queue_id=record.queue_id,
                    lease_generation=generation,
                    queue_offset=record.queue_offset,
                    reason="receiver gone",
                    is_release=True,
                )
                for record in received.records
            ],
        )
    )


def require_consume(principal: Principal, request: Request) -> None:
    """Who receives needs the scope for the topic and for the group. Raises Problem 403."""
    principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
