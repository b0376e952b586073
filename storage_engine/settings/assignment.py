"""Which member of a group reads which queue of a topic: RocketMQ's six strategies; pure functions.

    queues of one topic, members ──▶ [assign] ──▶ {member: its queues}

    AVG                  blocks of neighbours; the first n mod m members have one queue more
    AVG_BY_CIRCLE        dealt out in turn, one queue each, round and round
    CONFIG               what the configuration lists for each member, nothing else
    MACHINE_ROOM         blocks over the queues of the named rooms; what is left over in turn
    MACHINE_ROOM_NEARBY  queues go to members of their own room; queues of a room without members
                         are shared by all; within a room another strategy decides
    CONSISTENT_HASH      the next of 10 points each member has on a ring of MD5 hashes

Queues and members are sorted first, so the result depends on what there is and not on the order in
which it was learnt. CONFIG and MACHINE_ROOM may leave queues to nobody; ``unassigned`` names them.
The other four assign every queue to exactly one member. RocketMQ assigns topic by topic; so must
the caller, since AVG over two topics at once is something else than twice AVG.

A machine room is what stands before the '@' in ``room@rest``, as in RocketMQ's MACHINE_ROOM: in
``broker`` of a queue, and in the id of a member. A RocketMQ client's own id is ``address@process``,
which names no room; ``room_of`` takes a function or a mapping's ``get`` for ids like that.

Results are those of RocketMQ 5.3 ``AllocateMessageQueue…``; ``CONFIG`` differs in what it refuses.
"""

from __future__ import annotations

import enum
import hashlib
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from storage_engine.errors import BadRequest

VIRTUAL_NODE_COUNT: Final = 10  # RocketMQ's, for each member
ROOM_SEPARATOR: Final = "@"
_RING_BYTES: Final = 4  # of the MD5 digest


class Strategy(enum.StrEnum):
    """Names as RocketMQ's ``getName`` gives them."""

    AVG = "AVG"
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    CONFIG = "CONFIG"
    MACHINE_ROOM = "MACHINE_ROOM"
    MACHINE_ROOM_NEARBY = "MACHINE_ROOM_NEARBY"
    CONSISTENT_HASH = "CONSISTENT_HASH"


class QueueRef(NamedTuple):
    """One queue of a topic; sorts as RocketMQ's ``MessageQueue``."""

    topic: str
    broker: str
    queue_id: int


Assignment = dict[str, list[QueueRef]]
_Sortable = TypeVar("_Sortable", str, QueueRef)


def room_of_name(name: str) -> str | None:
    """The machine room that ``room@rest`` names; None when the name is not of that form."""
    room, separator, rest = name.partition(ROOM_SEPARATOR)
    return room if separator and room and rest and ROOM_SEPARATOR not in rest else None


def assign(
    strategy: Strategy,
    queues: Iterable[QueueRef],
    members: Iterable[str],
    *,
    configured: Mapping[str, Sequence[QueueRef]] | None = None,
    rooms: Collection[str] | None = None,
    room_of: Callable[[str], str | None] = room_of_name,
    within_room: Strategy = Strategy.AVG,
) -> Assignment:
    """Every member, in sorted order, with its queues: none of them in two lists.

    Args:
        queues: of one topic, in any order.
        members: their ids, in any order.
        configured: for CONFIG, the queues of each member; of members and queues that are not there
            now nothing is said.
        rooms: for MACHINE_ROOM, those whose queues are read.
        room_of: for MACHINE_ROOM_NEARBY, the room of a broker's name or a member's id.
        within_room: for MACHINE_ROOM_NEARBY, one of those that leave no queue to nobody.

    Returns:
        Queues in sorted order; with MACHINE_ROOM a left over one, with MACHINE_ROOM_NEARBY those of
        rooms without members come behind. A member without queues has an empty list.

    Raises:
        BadRequest: no queues or no members, one of them twice, an empty member id, an argument that
            the strategy needs is missing, a queue configured for two members, or a name whose
            room is not known.
    """
    sorted_queues = _sorted("queue", queues)
    sorted_members = _sorted("member", members)
    if not sorted_members[0]:
        raise BadRequest("a member has an empty id")
    if strategy is Strategy.CONFIG:
        if configured is None:
            raise BadRequest("strategy CONFIG needs the queues configured for each member")
        return _as_configured(sorted_queues, sorted_members, configured)
    if strategy is Strategy.MACHINE_ROOM:
        if not rooms:
            raise BadRequest(
                "strategy MACHINE_ROOM needs the names of the rooms whose queues are read"
            )
        return _of_rooms(sorted_queues, sorted_members, rooms)
    if strategy is Strategy.MACHINE_ROOM_NEARBY:
        if within_room not in _EXHAUSTIVE:
            raise BadRequest(
                f"queues within a room cannot be assigned by {within_room.value}, "
                f"only by {', '.join(one.value for one in _EXHAUSTIVE)}"
            )
        return _nearby(sorted_queues, sorted_members, room_of, _EXHAUSTIVE[within_room])
    return _EXHAUSTIVE[strategy](sorted_queues, sorted_members)


def unassigned(queues: Iterable[QueueRef], assignment: Assignment) -> list[QueueRef]:
    """The queues that nobody reads, sorted."""
    read = {queue for its in assignment.values() for queue in its}
    return sorted(set(queues) - read)


def _average(queues: Sequence[QueueRef], members: Sequence[str]) -> Assignment:
    size, more = divmod(len(queues), len(members))
    assignment = {}
    start = 0
    for index, member in enumerate(members):
        end = start + size + (index < more)
        assignment[member] = list(queues[start:end])
        start = end
    return assignment


def _circle(queues: Sequence[QueueRef], members: Sequence[str]) -> Assignment:
    return {member: list(queues[index :: len(members)]) for index, member in enumerate(members)}


def _as_configured(
    queues: Sequence[QueueRef], members: Sequence[str], configured: Mapping[str, Sequence[QueueRef]]
) -> Assignment:
    """A configuration outlives members and queues, so what it says of others is kept silent about.

    RocketMQ lets two members configure one queue, which then delivers everything twice.
    """
    owners: dict[QueueRef, str] = {}
    for member in sorted(configured):
        for queue in configured[member]:
            if queue in owners:
                raise BadRequest(
                    f"queue {_text(queue)} is configured twice, "
                    f"for {owners[queue]!r} and for {member!r}"
                )
            owners[queue] = member
    assignment: Assignment = {member: [] for member in members}
    for queue in queues:
        owner = owners.get(queue)
        if owner in assignment:
            assignment[owner].append(queue)
    return assignment


def _of_rooms(
    queues: Sequence[QueueRef], members: Sequence[str], rooms: Collection[str]
) -> Assignment:
    """Unlike in AVG a left over queue is not a neighbour of the member's block."""
    own = [queue for queue in queues if room_of_name(queue.broker) in rooms]
    size, more = divmod(len(own), len(members))
    rest = own[size * len(members) :]
    assert len(rest) == more
    return {
        member: own[size * index : size * (index + 1)] + rest[index : index + 1]
        for index, member in enumerate(members)
    }


def _nearby(
    queues: Sequence[QueueRef],
    members: Sequence[str],
    room_of: Callable[[str], str | None],
    within_room: Callable[[Sequence[QueueRef], Sequence[str]], Assignment],
) -> Assignment:
    queues_of: dict[str, list[QueueRef]] = {}
    for queue in queues:
        queues_of.setdefault(_room("broker", queue.broker, room_of), []).append(queue)
    members_of: dict[str, list[str]] = {}
    for member in members:
        members_of.setdefault(_room("member", member, room_of), []).append(member)
    assignment: Assignment = {member: [] for member in members}
    # A member's own room comes first, then those that have no member, by name.
    for room in sorted(queues_of, key=lambda name: (name not in members_of, name)):
        shares = within_room(queues_of[room], members_of.get(room, members))
        for member, share in shares.items():
            assignment[member] += share
    return assignment


def _consistent_hash(queues: Sequence[QueueRef], members: Sequence[str]) -> Assignment:
    # Where two points meet, the member that is sorted behind wins, as in Java's map.
    owners = {
        _ring_hash(f"{member}-{replica}"): member
        for member in members
        for replica in range(VIRTUAL_NODE_COUNT)
    }
    points = sorted(owners)
    assignment: Assignment = {member: [] for member in members}
    for queue in queues:
        at = bisect_left(points, _ring_hash(_text(queue)))
        assignment[owners[points[at % len(points)]]].append(queue)
    return assignment


_EXHAUSTIVE: Final = {
    Strategy.AVG: _average,
    Strategy.AVG_BY_CIRCLE: _circle,
    Strategy.CONSISTENT_HASH: _consistent_hash,
}


def _ring_hash(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:_RING_BYTES])


def _text(queue: QueueRef) -> str:
    """As Java writes a ``MessageQueue``; the ring's places depend on it."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue_id}]"
    )


def _room(kind: str, name: str, room_of: Callable[[str], str | None]) -> str:
    room = room_of(name)
    if not room:
        raise BadRequest(f"the machine room of {kind} {name!r} is not known")
    return room


def _sorted(kind: str, given: Iterable[_Sortable]) -> list[_Sortable]:
    ordered = sorted(given)
    if not ordered:
        raise BadRequest(f"cannot assign queues: there are no {kind}s")
    for before, after in pairwise(ordered):
        if before == after:
            raise BadRequest(f"{kind} {after!r} is given twice")
    return ordered
