"""Extends leases while their member is alive, for members without a connection.

    receive, settle ── hear(member) ──▶ [AutoExtends]
    lease at its end ──▶ its extended_end_ms ──▶ later: goes on    now: over

A lease ends ``lease_ms`` after its member was last heard of, and at the latest when the span is
over that the receive asked for. A member is heard of when it receives or settles in the group, all
the time that a receive of it is parked, and when that is answered; not when its connection closes.
So a member that is busy with one message of many keeps the others by settling each as it is done,
and one that died loses them as if nothing had been extended. Times are monotonic. Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Final

from storage_engine.clock import Clock
from storage_engine.delivery.subscription import Delivered, WaitingReceive
from storage_engine.wire.deliveries import ReceiveRequest

# The leases of a member that is forgotten end as others do.
_MEMBERS_MAX: Final = 10_000


class _Member:
    """``until_ms``: end of the last extension that the member requested."""

    __slots__ = ("seen_ms", "until_ms", "waiting")

    def __init__(self) -> None:
        self.seen_ms = 0
        self.until_ms = 0
        self.waiting: WaitingReceive | None = None


def _extended_end_ms(member: _Member, lease_ms: int, until_ms: int, now_ms: int) -> int:
    """When a lease ends, as far as is known now; not after ``now_ms``: it is over."""
    if member.waiting is not None and not member.waiting.is_done:
        member.seen_ms = now_ms
    return min(member.seen_ms + lease_ms, until_ms)


class AutoExtends:
    """See the module's docstring."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._members: OrderedDict[tuple[str, str], _Member] = OrderedDict()

    def __len__(self) -> int:
        return len(self._members)

    def member_seen(self, group: str, member_id: str) -> None:
        """A member is there; nothing unless it has leases that are to be extended."""
        member = self._members.get((group, member_id))
        if member is not None:
            member.seen_ms = self._clock.monotonic_ms()

    def member_seen_until_reply(
        self, request: ReceiveRequest, answer: Callable[[Delivered], None]
    ) -> Callable[[Delivered], None]:
        """Hear of the member now and when it is answered; its lease is then extended as asked."""
        member = self._member_of(request)
        if member is None:
            return answer
        member.seen_ms = self._clock.monotonic_ms()

        def heard(delivered: Delivered) -> None:
            now_ms = member.seen_ms = self._clock.monotonic_ms()
            if delivered.lease is not None and request.auto_extend_ms:
                until_ms = now_ms + request.auto_extend_ms
                member.until_ms = max(member.until_ms, until_ms)
                delivered.lease.extended_end_ms = partial(
                    _extended_end_ms, member, request.lease_ms, until_ms
                )
            answer(delivered)

        return heard

    def member_waits(self, request: ReceiveRequest, parked: WaitingReceive) -> None:
        """Its receive waits; while it does the member is there."""
        member = self._members.get((request.group, request.member_id))
        if member is not None:
            member.waiting = parked

    def _member_of(self, request: ReceiveRequest) -> _Member | None:
        key = request.group, request.member_id
        member = self._members.get(key)
        if not request.auto_extend_ms:
            return member
        if member is None:
            self._forget()
            member = self._members[key] = _Member()
        self._members.move_to_end(key)
        return member

    def _forget(self) -> None:
        """Those without a lease to extend, and the oldest when there are too many."""
        now_ms = self._clock.monotonic_ms()
        while self._members:
            key, member = next(iter(self._members.items()))
            is_waiting = member.waiting is not None and not member.waiting.is_done
            if len(self._members) < _MEMBERS_MAX and (member.until_ms > now_ms or is_waiting):
                return
            del self._members[key]
