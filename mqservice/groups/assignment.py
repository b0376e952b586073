"""Further settings of a group's assignment strategy, in the forms of the API, the row and the
engine.

    {"rooms": {"east": [0, 1]}, "read": ["east"]} ──▶ [assignment] ──▶ AssignmentPolicy ──▶ row,
                                                  ◀── shown ◀──                            engine

The engine's form is what is stored. It knows consumers by their member ids; tenants by their own.
"""

from __future__ import annotations

import msgspec

from mqservice.groups.settings import ASSIGNMENT, WithinRoom
from mqservice.lib.json_fields import Fields
from mqservice.lib.names import CONSUMER_PREFIX
from mqservice.protocol.choices import AssignmentStrategy
from mqservice.store import AssignmentPolicy, Strategy

StoredAssignment = dict[str, object]


def read_assignment(fields: Fields) -> AssignmentPolicy | None:
    """The policy in the field ``assignment``; None when it is left out, or has faults."""
    given = ASSIGNMENT.read(fields)
    if given is None:
        return None
    consumers = given.get("consumers", {})
    return AssignmentPolicy(
        consumers={f"{CONSUMER_PREFIX}{name}": tuple(ids) for name, ids in consumers.items()},
        rooms={name: tuple(ids) for name, ids in given.get("rooms", {}).items()},
        read=tuple(dict.fromkeys(given.get("read", ()))),
        within_room=Strategy(given.get("within_room", WithinRoom.AVG)),
    )


def check_assignment(policy: AssignmentPolicy, strategy: Strategy, queue_count_max: int) -> None:
    """As ``AssignmentPolicy.check``, with the names that the request gave in what it says."""
    named = {name.removeprefix(CONSUMER_PREFIX): ids for name, ids in policy.consumers.items()}
    msgspec.structs.replace(policy, consumers=named).check(strategy, queue_count_max)


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
