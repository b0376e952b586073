"""What browse asks and what it gets: a question, and pages that say where to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from mqservice.delivery.reading.body_fields import FieldCondition, matches_fields
from mqservice.store import FilterKind, Record, encode_properties, known_filter

NO_END: Final = (1 << 63) - 1


class BrowseQuery(msgspec.Struct, frozen=True, array_like=True):
    """All that decides what a walk shows; its bytes are what a cursor is bound to.

    Times are store times, both included. Without ``tags`` all messages are shown. ``filter``: a
    canonical SQL92 condition, which goes without tags; ``contains``: a text of the body.
    """

    key: str | None
    tags: list[str]
    from_ms: int | None
    to_ms: int | None
    queue_id: int | None
    offset: int | None
    filter: str = ""
    contains: str = ""

    @property
    def is_scan(self) -> bool:
        """Whether messages have to be read to know which are wanted."""
        return bool(self.filter or self.reads_bodies)

    @property
    def reads_bodies(self) -> bool:
        """Whether it takes the body of a message to know whether it is wanted."""
        return bool(self.contains)

    @property
    def is_newest_first(self) -> bool:
        return False

    def end_of(self, queue_id: int) -> int:
        """The offset of the queue from which on nothing is wanted."""
        return NO_END

    def matches_body(self, body: bytes) -> bool:
        return self.contains.encode() in body


class SearchQuery(BrowseQuery, frozen=True, array_like=True):
    """Of a search, in either direction. ``last_ms``: the time before now that ``from_ms`` is.
    ``ends``: where the queues ended when it began, in the order of their ids, for a search that is
    not to find what is stored meanwhile; queues that are newer have nothing for it then. A cursor
    is bound to neither of the two.
    """

    fields: list[FieldCondition] = []
    last_ms: int | None = None
    newest_first: bool = True
    ends: list[int] = []

    @property
    def reads_bodies(self) -> bool:
        return bool(self.contains or self.fields)

    @property
    def is_newest_first(self) -> bool:
        return self.newest_first

    def end_of(self, queue_id: int) -> int:
        if not self.ends:
            return NO_END
        return self.ends[queue_id] if queue_id < len(self.ends) else 0

    def matches_body(self, body: bytes) -> bool:
        return self.contains.encode() in body and (
            not self.fields or matches_fields(body, self.fields)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsePage:
    """``place``: where the next page begins, None after the last one.

    ``is_complete`` is False while the key index lacks the newest messages. ``scanned_count``: how
    many messages were looked at for the page.
    """

    records: list[Record]
    place: bytes | None
    is_complete: bool = True
    scanned_count: int = 0


def has_properties(record: Record, condition: str) -> bool:
    """Whether the properties of a record match a condition in SQL92."""
    return known_filter(condition, FilterKind.SQL92).matches(encode_properties(record))
