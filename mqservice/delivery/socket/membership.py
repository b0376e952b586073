"""A subscription as the engine knows it: a member of a group, reading a topic through a filter.

    sub ──▶ [Membership] ── announce ──▶ refused, or known
                         ── order ──▶ every fetch says the same again
    unsub, close ──────── leave ──▶ the others may have another filter

Each subscription is a member of its own, also beside others of its session, unless it has a
``consumer_id``: two with different filters would take each other's messages.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from mqservice.delivery.filters import WantedFilter
from mqservice.delivery.limits import PUSH_WAIT_MS
from mqservice.store import (
    Extend,
    LeaseRef,
    LeaveRequest,
    Nack,
    ReceiveRequest,
    SettleRequest,
    Store,
    StoreError,
    SubscribeRequest,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """Names are the engine's."""

    store: Store
    group: str
    topic: str
    member_id: str
    wanted: WantedFilter
    lease_ms: int
    client_id: str = ""
    zone: str = ""

    async def announce(self) -> bool | None:
        """Whether the group is paused. Raises StoreError when it is refused. An engine that is away
        does not refuse: the fetches wait for it; None.
        """
        request = SubscribeRequest(
            group=self.group,
            topic=self.topic,
            member_id=self.member_id,
            filter=self.wanted.text,
            filter_kind=self.wanted.kind,
            client_id=self.client_id,
        )
        try:
            return (await self.store.subscribe(request)).is_paused
        except StoreError as exc:
            if not exc.retriable:
                raise
            return None

    def order(self, *, messages_max: int, bytes_max: int) -> ReceiveRequest:
        """A fetch that waits as long as it may."""
        return ReceiveRequest(
            group=self.group,
            topic=self.topic,
            member_id=self.member_id,
            messages_max=messages_max,
            bytes_max=bytes_max,
            wait_ms=PUSH_WAIT_MS,
            lease_ms=self.lease_ms,
            filter=self.wanted.text,
            filter_kind=self.wanted.kind,
            zone=self.zone,
            client_id=self.client_id,
        )

    def settle(
        self,
        *,
        acks: list[LeaseRef] | None = None,
        nacks: list[Nack] | None = None,
        extends: list[Extend] | None = None,
    ) -> SettleRequest:
        """What it says of the messages that it has."""
        return SettleRequest(
            group=self.group,
            acks=acks or [],
            nacks=nacks or [],
            extends=extends or [],
            client_id=self.client_id,
        )

    async def leave(self) -> None:
        """Messages that are still held keep it a member; nothing else does from now on."""
        request = LeaveRequest(
            group=self.group,
            topic=self.topic,
            member_id=self.member_id,
            client_id=self.client_id,
        )
        with contextlib.suppress(StoreError):  # the engine forgets who is silent
            await self.store.leave(request)
