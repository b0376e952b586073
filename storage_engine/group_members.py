"""Who reads for a group now: its members topic by topic, and which queues each of them has.

    group ──▶ [members_of] ──▶ readers, members and parked receives of each subscription ──▶ reply

In a shared group whoever receives is a member, a receive that names nobody is one of its own; only
the latest are remembered. Costs a look at all that the group has in flight. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from storage_engine.consumption import Consumption
from storage_engine.delivery.subscription import Subscription
from storage_engine.wire.members import GroupMembers, Member, TopicMembers

MEMBERS_MAX: Final = 1_000  # of one topic; those heard of last


def members_of(consumption: Consumption, group: str) -> GroupMembers:
    """Of all topics that the group has read, by name. Raises ``GroupNotFound``."""
    consumption.check_group(group)
    now_ms = consumption.clock.monotonic_ms()
    subscriptions = [each for each in consumption.delivery.subscriptions if each.group == group]
    subscriptions.sort(key=lambda each: each.topic)
    return GroupMembers(group=group, topics=[_members(each, now_ms) for each in subscriptions])


def _members(subscription: Subscription, now_ms: int) -> TopicMembers:
    inflight = Counter(
        lease.member_id
        for source in subscription.sources
        for lease in source.inflight.values()
        if lease.generation  # else it is on its way to another place, and nobody has it
    )
    waiting = {parked.request.member_id for parked in subscription.parked}
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
            )
            for member_id in shown[:MEMBERS_MAX]
        ],
        is_complete=len(shown) <= MEMBERS_MAX,
    )
