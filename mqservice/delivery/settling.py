"""A settlement on its way into the engine together with a receive: one write, and one read.

    Poll ── begin ──▶ [Settling] ── settle_for ──▶ store, before its receive
    Poll ◀── settled, settle_failed ── [Settling] ◀── told ──┘

What is settled is let go of the tenant's quota as soon as the engine says so, also when nobody
waits for the answer any more.
"""

from __future__ import annotations

from typing import Protocol

from mqservice.delivery.settlement import Plan, SettleAnswer
from mqservice.quotas.meter import TenantMeter
from mqservice.store import SettleReply, SettleRequest, Store, StoreError


class Waiting(Protocol):
    """Who sends a receive along."""

    def settled(self) -> None:
        """All of it is answered."""

    def settle_failed(self, error: StoreError) -> None:
        """A part of it failed, or nothing is known."""


class Settling:
    """See the module's docstring. Told as ``SettleTold``."""

    __slots__ = ("_meter", "_plan", "_replies", "_requests", "_waiting")

    def __init__(self, plan: Plan, meter: TenantMeter) -> None:
        self._plan = plan
        self._meter = meter
        self._requests: list[SettleRequest] = plan.requests()
        self._replies: list[SettleReply] = []
        self._waiting: Waiting

    def begin(self, store: Store, waiting: Waiting) -> None:
        """Send it. Raises StoreError when nothing, or not all of it, was sent."""
        self._waiting = waiting
        for request in self._requests:
            store.settle_for(self, request)

    @property
    def is_told(self) -> bool:
        """Whether all of it is answered; at once if no receipt was valid."""
        return len(self._replies) == len(self._requests)

    def settled(self, reply: SettleReply) -> None:
        self._meter.release(reply.acked_count + reply.nacked_count + reply.dead_lettered_count)
        self._replies.append(reply)
        if self.is_told:
            self._waiting.settled()

    def settle_failed(self, error: StoreError) -> None:
        self._waiting.settle_failed(error)

    def answer(self) -> SettleAnswer:
        """What became of it, once it ``is_told``: the engine answers in the order of requests."""
        return self._plan.answer(list(zip(self._requests, self._replies, strict=True)))
