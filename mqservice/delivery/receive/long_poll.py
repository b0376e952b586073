"""A receive that waits in the engine, and everything that can end it before a message arrives.

    LongPoll.begin ─▶ what it settles ──┐
               ──▶ store.receive_for ┴─▶ one write ──▶ engine (parked)
        ├── client gone ────────▶ ClientDisconnected
        ├── process ends ───────▶ nothing, at once
        ├── key may no longer ──▶ 401 or 403
        └── settlement failed ──▶ its error
    OnOutcome.ended ◀─ records under a lease, or why there are none

Whatever was leased by then is given back at once. What is settled along is not: it is sent whatever
has ended the receive before. No task waits for anything here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mqservice.accounts.access import Principal, unauthenticated
from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.context import DeliveryContext
from mqservice.delivery.http import ClientDisconnected, Request
from mqservice.delivery.settle.settle_plan import SettleCall
from mqservice.lib.problem import Problem
from mqservice.store import (
    PendingReceive,
    Received,
    ReceiveHead,
    ReceiveRequest,
    Store,
    StoreError,
)
from mqservice.web.cycle import on_disconnect

OnOutcome = Callable[[Received | Exception], None]

_NO_MESSAGES: Final = Received(ReceiveHead(lease_generation=0, lease_until_ms=0, attempts=[]), [])


class LongPoll:
    """See the module's docstring. ``ended`` is called once, perhaps within ``begin``, and must not
    raise. Hashable and told as ``ReceiveReplyHandler``; calling it says that the process ends.
    """

    __slots__ = (
        "_context",
        "_credential",
        "_has_begun",
        "_on_outcome",
        "_order",
        "_outcome",
        "_pending",
        "_request",
        "_settling",
        "_store",
        "_unwatch",
        "_watch",
    )

    def __init__(
        self,
        context: DeliveryContext,
        store: Store,
        request: Request,
        order: ReceiveRequest,
        settling: SettleCall | None,
        ended: OnOutcome,
    ) -> None:
        self._context = context
        self._store = store
        self._request = request
        self._order = order
        self._settling = settling
        self._on_outcome: OnOutcome | None = ended
        self._credential = request.credential or request.headers[b"authorization"]
        self._watch = request.key_watch or context.caches.keys.watch
        self._has_begun = False
        self._pending: PendingReceive | None = None
        self._outcome: Received | Exception | None = None  # that waits for the settlement's
        self._unwatch: Callable[[], object]

    def begin(self) -> None:
        """Send it."""
        context = self._context
        context.drain.join(self)
        if self._order.wait_ms:
            key_id = self._request.principal.key_id
            self._watch.join(self._credential, key_id, self.key_changed)
        unwatch = on_disconnect(self._request.send, self.client_disconnected)
        if unwatch is None:
            unwatch = asyncio.ensure_future(self._wait_for_disconnect()).cancel
        self._unwatch = unwatch
        try:
            if self._settling is not None:
                self._settling.begin(self._store, self)
            if self._outcome is None:
                self._pending = self._store.receive_for(self, self._order)
        except Exception as error:  # whatever it is: who waits here has to leave again
            self._outcome = error
        self._has_begun = True
        self._conclude()

    def cancel(self) -> None:
        """Nobody is to be told any more, whether that has been or not; what was leased goes back.

        A settlement that was sent stays sent.
        """
        if self._pending is not None:
            self._pending.cancel()
        self._leave()

    # What comes from the engine -----------------------------------------------------------------

    def received(self, received: Received) -> None:
        self._outcome = received
        self._conclude()

    def receive_failed(self, error: StoreError) -> None:
        self._outcome = error
        self._conclude()

    def settled(self) -> None:
        self._conclude()

    def settle_failed(self, error: StoreError) -> None:
        if self._outcome is None or isinstance(self._outcome, Received):
            self._abort(error)

    # What ends it before ------------------------------------------------------------------------

    def __call__(self) -> None:
        if self._outcome is None:
            self._abort(_NO_MESSAGES)

    def client_disconnected(self) -> None:
        self._abort(ClientDisconnected())

    def key_changed(self, principal: Principal | None) -> None:
        """What the request's key may do now; None: nothing any more."""
        if principal is None:
            self._abort(unauthenticated())
            return
        try:
            require_consume(principal, self._request)
        except Problem as problem:
            self._abort(problem)

    def _abort(self, outcome: Received | Exception) -> None:
        """Whatever the engine leases, or has leased, goes back."""
        if self._on_outcome is None:
            return
        if self._pending is not None:
            self._pending.cancel()
        self._outcome = outcome
        self._conclude()

    def _conclude(self) -> None:
        """Tell what is known, once what was settled is known too; a failure waits for nothing."""
        outcome, ended = self._outcome, self._on_outcome
        if outcome is None or ended is None or not self._has_begun:
            return
        settling = self._settling
        if settling is None or settling.is_settled or isinstance(outcome, Exception):
            self._leave()
            ended(outcome)

    def _leave(self) -> None:
        if self._on_outcome is None:
            return
        self._on_outcome = self._settling = None  # which know this in turn
        context = self._context
        context.drain.leave(self)
        if self._order.wait_ms:
            key_id = self._request.principal.key_id
            self._watch.leave(self._credential, key_id, self.key_changed)
        self._unwatch()
        del self._unwatch

    async def _wait_for_disconnect(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self.client_disconnected()


def require_consume(principal: Principal, request: Request) -> None:
    """Who receives needs the scope for the topic and for the group. Raises Problem 403."""
    principal.require(Scope.CONSUME, Kind.TOPIC, request.match.topic)
    principal.require(Scope.CONSUME, Kind.GROUP, request.match.group)
