"""Which message of which group a record settles, when it replaces that message.

A message that is moved (to the retry topic, to dead letters, on time from the schedule, or back) is
appended again, and the old place is settled. Both must happen or neither: so the new record says
what it settles, and whoever finds it in the log knows. Pure functions.

    __SETTLES = queue_offset @ queue_id @ reset_count @ topic @ group

``reset_count`` is how often the group's offset on the queue had been reset by then: an older record
settles nothing that was made deliverable again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

PROPERTY_SETTLES: Final = "__SETTLES"
SETTLES_HEAD: Final = f"{PROPERTY_SETTLES}\x01".encode()
_PARTS: Final = 5


class Settles(NamedTuple):
    """One message of a group, by the full names of group and topic."""

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    reset_count: int


def settles_value(settles: Settles) -> str:
    """The property's value."""
    group, topic, queue_id, queue_offset, reset_count = settles
    return f"{queue_offset}@{queue_id}@{reset_count}@{topic}@{group}"


def settles_of(tail: bytes, properties_at: int) -> Settles | None:
    """What a record settles; None for an ordinary one, or when the value makes no sense.

    ``tail`` and ``properties_at`` are those of ``record_parts``.
    """
    at = tail.find(SETTLES_HEAD, properties_at)
    if at < 0 or (at > properties_at and tail[at - 1] != 2):
        return None
    end = tail.find(b"\x02", at)
    return _settles(tail[at + len(SETTLES_HEAD) : end if end >= 0 else None])


def parse_settles(value: str) -> Settles | None:
    """The same from the property's value."""
    return _settles(value.encode())


def _settles(value: bytes) -> Settles | None:
    parts = value.split(b"@")
    if len(parts) != _PARTS or not all(part.isdigit() for part in parts[:3]):
        return None
    queue_offset, queue_id, reset_count = map(int, parts[:3])
    return Settles(parts[4].decode(), parts[3].decode(), queue_id, queue_offset, reset_count)
