"""A session as bytes, while its client is away: subscriptions, credit, and leased messages.

    Session ── saved_session ─▶ SavedSession ─▶ bytes, SessionLeases ─▶ engine
    engine ──▶ bytes ── decode ──▶ SavedSession ─ restore_leased ─▶ Subscription of another session

No body is in it: what is sent again is read again. Times are wall clock, ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from mqservice.delivery.consumers import Consumer
from mqservice.delivery.filters import WantedFilter
from mqservice.delivery.socket.leased_batch import Delivery
from mqservice.delivery.socket.leased_messages import LeasedMessages, nack_of
from mqservice.delivery.socket.subscription import NACK_COUNT_MAX, Subscription
from mqservice.lib.names import CONSUMER_PREFIX
from mqservice.protocol.frames import Credit
from mqservice.store import FilterKind, LeaseRef, LostLease, Nack, SessionLeases

VERSION: Final = 1


class SavedRun(msgspec.Struct, frozen=True, array_like=True):
    """Messages of one queue and one lease; ``messages`` are (tag, offset, body bytes, attempt)."""

    topic: str
    queue_id: int
    lease_generation: int
    lease_until_ms: int
    extend_until_ms: int
    messages: list[tuple[int, int, int, int]]


class SavedSubscription(msgspec.Struct, frozen=True, array_like=True):
    """Topic and group by the names that their tenant knows. ``late``: see
    ``leased_messages.py``.
    """

    sid: int
    topic: str
    group: str
    filter_text: str
    filter_kind: FilterKind
    lease_ms: int
    auto_extend_ms: int
    credit_msgs: int
    credit_bytes: int
    is_draining: bool
    next_tag: int
    outstanding: list[SavedRun]
    late: list[SavedRun]
    why_lost: dict[int, str]
    client_id: str = ""  # of a broadcast group
    member_id: str = ""  # of a consumer that has a name
    zone: str = ""

    @property
    def consumer(self) -> Consumer:
        return Consumer(client_id=self.client_id, member_id=self.member_id, zone=self.zone)

    @property
    def wanted_filter(self) -> WantedFilter:
        return WantedFilter(self.filter_text, self.filter_kind)

    @property
    def credit(self) -> Credit:
        return Credit(self.credit_msgs, self.credit_bytes)


class SavedSession(msgspec.Struct, frozen=True, array_like=True):
    version: int
    subscriptions: list[SavedSubscription]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SavedSession)


def saved_session(subscriptions: Iterable[Subscription]) -> bytes:
    """What ``decode`` reads."""
    kept = [_saved_subscription(each) for each in subscriptions]
    return _encoder.encode(SavedSession(VERSION, kept))


def decode(content: bytes) -> SavedSession | None:
    """None when it was written by another version of this service."""
    try:
        kept = _decoder.decode(content)
    except msgspec.DecodeError:
        return None
    return kept if kept.version == VERSION else None


def session_leases(subscriptions: Iterable[Subscription], now_ms: int) -> list[SessionLeases]:
    """All leases of a session, as the engine gives them back if nobody comes."""
    held = []
    for subscription in subscriptions:
        by_lease: dict[tuple[str, int, int], list[int]] = {}
        for each in subscription.leased.leased(now_ms):
            by_lease.setdefault(each[:3], []).append(each.queue_offset)
        leases = [
            LeaseRef(
                topic=topic,
                queue_id=queue_id,
                lease_generation=generation,
                queue_offsets=offsets,
            )
            for (topic, queue_id, generation), offsets in by_lease.items()
        ]
        if leases:
            held.append(
                SessionLeases(
                    group=subscription.engine_group,
                    leases=leases,
                    client_id=subscription.membership.client_id,
                )
            )
    return held


def restore_leased(subscription: Subscription, kept: SavedSubscription) -> None:
    """Let the subscription go on with the tags of the kept one."""
    held: LeasedMessages = subscription.leased
    outstanding, late = _deliveries(kept.outstanding), _deliveries(kept.late)
    held.restore(kept.next_tag, outstanding, late, kept.why_lost)
    subscription.pusher.sent_upto = kept.next_tag - 1


def nacks_of(kept: SavedSubscription, reason: str) -> Iterator[list[Nack]]:
    """What gives back all that a kept subscription holds, a thousand at a time."""
    deliveries = [*_deliveries(kept.outstanding).values(), *_deliveries(kept.late).values()]
    for start in range(0, len(deliveries), NACK_COUNT_MAX):
        some = deliveries[start : start + NACK_COUNT_MAX]
        yield [nack_of(each, 0, reason, is_release=True) for each in some]


def lost_tags(subscription: Subscription, gone: Iterable[LostLease]) -> dict[str, list[int]]:
    """Outstanding tags whose leases are gone, by the reason why."""
    whose = subscription.engine_group, subscription.membership.client_id
    why_of = {
        (each.lease.topic, each.lease.queue_id, each.lease.lease_generation, offset): each.why
        for each in gone
        if (each.group, each.client_id) == whose
        for offset in each.lease.queue_offsets
    }
    lost: dict[str, list[int]] = {}
    if why_of:
        for tag, delivery in subscription.leased.outstanding.items():
            why = why_of.get(delivery[:4])
            if why is not None:
                lost.setdefault(why, []).append(tag)
    return lost


def _saved_subscription(subscription: Subscription) -> SavedSubscription:
    credit = subscription.credits.left
    held, membership = subscription.leased, subscription.membership
    return SavedSubscription(
        subscription.sid,
        subscription.topic.name,
        subscription.group.name,
        subscription.wanted.text,
        subscription.wanted.kind,
        subscription.lease_ms,
        subscription.auto_extend_ms,
        credit.msgs,
        credit.bytes,
        subscription.credits.is_stopped,
        held.next_tag,
        _runs(held.outstanding),
        _runs(held.late),
        held.why_lost,
        membership.client_id,
        membership.member_id if membership.member_id.startswith(CONSUMER_PREFIX) else "",
        membership.zone,
    )


def _runs(deliveries: dict[int, Delivery]) -> list[SavedRun]:
    runs: dict[tuple[str, int, int, int, int], list[tuple[int, int, int, int]]] = {}
    for tag, each in deliveries.items():
        key = (*each[:3], each.lease_until_ms, each.extend_until_ms)
        message = (tag, each.queue_offset, each.body_bytes, each.attempt)
        runs.setdefault(key, []).append(message)
    return [SavedRun(*key, messages) for key, messages in runs.items()]


def _deliveries(runs: Iterable[SavedRun]) -> dict[int, Delivery]:
    found = {
        tag: Delivery(
            run.topic,
            run.queue_id,
            run.lease_generation,
            offset,
            body_bytes,
            run.lease_until_ms,
            run.extend_until_ms,
            attempt,
        )
        for run in runs
        for tag, offset, body_bytes, attempt in run.messages
    }
    return dict(sorted(found.items()))
