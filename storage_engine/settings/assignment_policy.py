"""A group's settings for assigning queues, besides the strategy itself; pure.

    policy, queues and members that are there ──▶ [queue_ids_of] ──▶ {member: its queue ids}

One policy is for all topics that the group reads, so it names queues by their ids:

    CONFIG               consumers: the queue ids of each, by member id
    MACHINE_ROOM         rooms: the queue ids of each; read: the rooms whose queues are read
    MACHINE_ROOM_NEARBY  rooms; within_room: the strategy among the members of a room

RocketMQ finds a queue's room in the name of its broker and a member's in its id; here the policy
says where queues are, and a member where it is. Queues of no named room are in one together, and so
are members that name none. A queue that a policy names and a topic does not have counts for
nothing; with CONFIG and MACHINE_ROOM a queue may have no member, and is read by nobody then.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from storage_engine.errors import BadRequest
from storage_engine.settings.assignment import Assignment, QueueRef, Strategy, assign

NAMES_MAX: Final = 1_024  # consumers or rooms of one policy
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}")
_NO_ROOM: Final = "*"  # what no room is named
_WITHIN: Final = (Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH)


class AssignmentPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """See the module's docstring. Equal policies assign equally."""

    consumers: dict[str, tuple[int, ...]] = {}
    rooms: dict[str, tuple[int, ...]] = {}
    read: tuple[str, ...] = ()
    within_room: Strategy = Strategy.AVG

    def check(self, strategy: Strategy, queue_count_max: int) -> None:
        """Raises ``BadRequest``: it lacks what the strategy needs, or contradicts itself."""
        _check_names("consumers", self.consumers, queue_count_max)
        _check_names("rooms", self.rooms, queue_count_max)
        if strategy is Strategy.CONFIG and not self.consumers:
            raise BadRequest("strategy CONFIG needs the queues of each consumer")
        if strategy is Strategy.MACHINE_ROOM and not self.read:
            raise BadRequest("strategy MACHINE_ROOM needs the rooms whose queues are read")
        is_of_rooms = strategy in (Strategy.MACHINE_ROOM, Strategy.MACHINE_ROOM_NEARBY)
        if is_of_rooms and not self.rooms:
            raise BadRequest(f"strategy {strategy.value} needs the queues of each room")
        for room in self.read:
            if room not in self.rooms:
                raise BadRequest(f"room {room!r} is to be read but has no queues")
        if self.within_room not in _WITHIN:
            allowed = ", ".join(one.value for one in _WITHIN)
            raise BadRequest(
                f"within_room is {self.within_room.value}, it must be one of {allowed}"
            )


def _check_names(kind: str, named: Mapping[str, tuple[int, ...]], queue_count_max: int) -> None:
    if len(named) > NAMES_MAX:
        raise BadRequest(f"{kind} has {len(named)} names, at most {NAMES_MAX} are allowed")
    owners: dict[int, str] = {}
    for name, queue_ids in named.items():
        if not _NAME.fullmatch(name):
            raise BadRequest(
                f"{name!r} in {kind} is not a valid name: use 1 to 80 of a-z A-Z 0-9 _ -"
            )
        for queue_id in queue_ids:
            if not 0 <= queue_id < queue_count_max:
                raise BadRequest(f"queue {queue_id} of {name!r} is not in [0, {queue_count_max})")
            if queue_id in owners:
                raise BadRequest(
                    f"queue {queue_id} is listed twice in {kind}, for "
                    f"{owners[queue_id]!r} and for {name!r}"
                )
            owners[queue_id] = name


def queue_ids_of(
    strategy: Strategy, policy: AssignmentPolicy, queue_count: int, zones: Mapping[str, str]
) -> dict[str, list[int]]:
    """The queue ids of every member. ``zones``: the members that are there, and where each is."""
    if not queue_count or not zones:
        return {}
    room_of = {queue_id: room for room, its in policy.rooms.items() for queue_id in its}
    places = [f"{room_of.get(queue_id, _NO_ROOM)}@" for queue_id in range(queue_count)]
    is_of_rooms = strategy in (Strategy.MACHINE_ROOM, Strategy.MACHINE_ROOM_NEARBY)
    refs = [
        QueueRef("", f"{places[queue_id]}broker" if is_of_rooms else "", queue_id)
        for queue_id in range(queue_count)
    ]
    rooms = {f"{place}broker": place[:-1] for place in places}
    rooms |= {member: zone or _NO_ROOM for member, zone in zones.items()}
    assigned: Assignment = assign(
        strategy,
        refs,
        zones,
        configured={
            member: [QueueRef("", "", queue_id) for queue_id in queue_ids]
            for member, queue_ids in policy.consumers.items()
        },
        rooms=policy.read,
        room_of=rooms.get,
        within_room=policy.within_room,
    )
    return {member: [ref.queue_id for ref in found] for member, found in assigned.items()}
