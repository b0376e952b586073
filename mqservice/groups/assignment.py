"""Further settings of a group's assignment strategy, in the forms of the API, the row and the
engine.

    {"rooms": {"east": [0, 1]}, "read": ["east"]} ──▶ [assignment] ──▶ AssignmentPolicy ──▶ row,
                                                  ◀── shown ◀──                            engine

The engine's form is what is stored. It knows consumers by their member ids; tenants by their own.
"""

from __future__ import annotations

import enum

import msgspec

from mqservice.lib.json_fields import Fields, shown
from mqservice.lib.names import CONSUMER_PREFIX, name_fault
from mqservice.protocol.choices import AssignmentStrategy
from mqservice.store import ASSIGNMENT_NAMES_MAX, AssignmentPolicy, Strategy
from mqservice.topics.models import QUEUE_COUNT_MAX

StoredAssignment = dict[str, object]
QueueIds = dict[str, tuple[int, ...]]


class WithinRoom(enum.StrEnum):
    """Strategies that leave no queue of a room to nobody."""

    AVG = "AVG"
    AVG_BY_CIRCLE = "AVG_BY_CIRCLE"
    CONSISTENT_HASH = "CONSISTENT_HASH"


def read_assignment(fields: Fields) -> AssignmentPolicy | None:
    """The policy in the field ``assignment``; None when it is left out, or has faults."""
    assignment = fields.object("assignment")
    if assignment is None:
        return None
    fault_count = len(fields.faults)
    consumers = _read_queues(assignment, "consumers")
    rooms = _read_queues(assignment, "rooms")
    read = _read_rooms(assignment)
    within = assignment.choice("within_room", WithinRoom) or WithinRoom.AVG
    assignment.reject_unknown()
    if len(fields.faults) > fault_count:
        return None
    return AssignmentPolicy(
        consumers={f"{CONSUMER_PREFIX}{name}": ids for name, ids in consumers.items()},
        rooms=rooms,
        read=read,
        within_room=Strategy(within),
    )


def _read_queues(assignment: Fields, name: str) -> QueueIds:
    """The queue ids of each name of an object."""
    value = assignment.find(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        assignment.fault(name, f"must be an object, found {shown(value)}")
        return {}
    if len(value) > ASSIGNMENT_NAMES_MAX:
        assignment.out_of_range(
            name, f"must have at most {ASSIGNMENT_NAMES_MAX} names, found {len(value)}"
        )
        return {}
    found: QueueIds = {}
    for key, queue_ids in value.items():
        place = f"{name}/{key.replace('~', '~0').replace('/', '~1')}"
        if fault := name_fault(key):
            assignment.fault(place, fault)
        elif not isinstance(queue_ids, list):
            assignment.fault(place, f"must be a list of queues, found {shown(queue_ids)}")
        else:
            given = [
                assignment.checked_integer(f"{place}/{at}", queue_id, 0, QUEUE_COUNT_MAX - 1)
                for at, queue_id in enumerate(queue_ids[:QUEUE_COUNT_MAX])
            ]
            found[key] = tuple(queue_id for queue_id in given if queue_id is not None)
    return found


def _read_rooms(assignment: Fields) -> tuple[str, ...]:
    value = assignment.find("read")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(room, str) for room in value):
        assignment.fault("read", f"must be a list of rooms, found {shown(value)}")
        return ()
    return tuple(dict.fromkeys(value))


def assignment_of(stored: StoredAssignment) -> AssignmentPolicy:
    """What the row means."""
    return msgspec.convert(stored, AssignmentPolicy)


def shown_assignment(
    policy: AssignmentPolicy, strategy: AssignmentStrategy, *, is_whole: bool = False
) -> dict[str, object]:
    """The policy as the API writes it; it can be sent back as it is.

    ``is_whole``: also what the strategy does not use, and would be lost if it were not written.
    """
    answer: dict[str, object] = {}
    if policy.consumers:
        answer["consumers"] = {
            name.removeprefix(CONSUMER_PREFIX): list(ids) for name, ids in policy.consumers.items()
        }
    if policy.rooms:
        answer["rooms"] = {name: list(ids) for name, ids in policy.rooms.items()}
    if policy.read:
        answer["read"] = list(policy.read)
    is_chosen = policy.within_room != AssignmentPolicy().within_room
    if strategy is AssignmentStrategy.MACHINE_ROOM_NEARBY or (is_whole and is_chosen):
        answer["within_room"] = policy.within_room.value
    return answer
