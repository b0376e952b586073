"""What browse asks and what it gets: a question, and pages that say where to go on."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from mqservice.store import Record


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
        return bool(self.filter or self.contains)


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
