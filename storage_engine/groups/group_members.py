"""The members of a group now, topic by topic, and which queues each of them has.

    group ──▶ [members_of] ──▶ readers, members and parked receives of each subscription ──▶ reply

In a shared group whoever receives is a member, a receive that names nobody is one of its own; only
the latest are remembered. Costs a look at all that the group has in flight. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec.structs import replace

from storage_engine.delivery.clients import split_reader
from storage_engine.delivery.subscription import MOVING, Subscription
from storage_engine.delivery.waiting_receives import DeliveryBlockers
from storage_engine.groups.consumption import Consumption
from storage_engine.wire.members import GroupMembers, Member, TopicMembers

MEMBERS_MAX: Final = 1_000  # of one topic; those heard of last


def members_of(consumption: Consumption, group: str) -> GroupMembers:
    """Of all topics that the group has read, by name. Raises ``GroupNotFound``."""
    consumption.check_group(group)
    now_ms = consumption.clock.monotonic_ms()
    by_topic: dict[str, list[Subscription]] = {}
    for each in consumption.delivery.subscriptions:
        if split_reader(each.group)[0] == group:
            by_topic.setdefault(each.topic, []).append(each)
    topics = [
        _of_clients(by_topic[topic], now_ms, consumption.delivery.blockers)
        for topic in sorted(by_topic)
    ]
    return GroupMembers(group=group, topics=topics)


def _of_clients(
    subscriptions: list[Subscription], now_ms: int, holdups: DeliveryBlockers
) -> TopicMembers:
    """Of one topic: the members of a group, or of all clients of a broadcast group."""
    parts = [
        _members(each, now_ms, is_full=holdups.is_inflight_full(each.sources))
        for each in subscriptions
    ]
    if len(parts) == 1:
        return parts[0]
    members = sorted(
        (member for part in parts for member in part.members),
        key=lambda member: (member.silent_ms, member.client_id, member.member_id),
    )
    is_complete = len(members) <= MEMBERS_MAX and all(part.is_complete for part in parts)
    is_full = any(part.is_full for part in parts)
    return replace(
        parts[0], members=members[:MEMBERS_MAX], is_complete=is_complete, is_full=is_full
    )


def _members(subscription: Subscription, now_ms: int, *, is_full: bool) -> TopicMembers:
    inflight = Counter(
        lease.member_id
        for source in subscription.sources
        for lease in source.inflight.values()
        if lease is not MOVING  # to another place, and nobody has it
    )
    waiting = {parked.request.member_id for parked in subscription.waiting_receives}
    silent = subscription.readers.silent_ms(now_ms)
    members = subscription.members
    queues: dict[str, list[int]] = {}
    generation = 0
    if subscription.is_exclusive:
        silent.update(members.silent_ms(now_ms))
        generation = members.generation
        queues = {member_id: subscription.queue_ids_of(member_id) for member_id in silent}
    read = {queue_id for its in queues.values() for queue_id in its}
    everybody = {**dict.fromkeys(sorted(waiting), 0), **silent}
    shown = sorted(everybody, key=lambda member_id: (everybody[member_id], member_id))
    return TopicMembers(
        topic=subscription.topic,
        generation=generation,
        unassigned=tuple(
            queue_id
            for queue_id in range(len(subscription.queues) if subscription.is_exclusive else 0)
            if queue_id not in read
        ),
        members=[
            Member(
                member_id=member_id,
                silent_ms=0 if member_id in waiting else everybody[member_id],
                is_waiting=member_id in waiting,
                inflight_count=inflight.get(member_id, 0),
                queue_ids=tuple(queues.get(member_id, ())),
                zone=members.zone_of(member_id),
                client_id=split_reader(subscription.group)[1],
            )
            for member_id in shown[:MEMBERS_MAX]
        ],
        is_complete=len(shown) <= MEMBERS_MAX,
        filter="" if subscription.filter.is_all else subscription.filter.text,
        filter_kind="" if subscription.filter.is_all else subscription.filter.kind.value,
        is_full=is_full,
    )
