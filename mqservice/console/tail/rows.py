"""What a live tail shows of a message: its place, tag, keys and the start of its body."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec

from mqservice.lib.timestamps import rfc3339
from mqservice.masking.masks import TopicMask
from mqservice.store import Record
from mqservice.topic_schemas.models import TopicSchema

TEXT_CHARS: Final = 160
KEYS_SHOWN: Final = 3
_FILTER_CHARS_MAX: Final = 128
_CHAR_BYTES_MAX: Final = 4


class TailRow(msgspec.Struct, frozen=True, gc=False):
    """``more_keys``: that are not shown. ``text`` is None for a body that is no UTF-8.

    ``masked``: ``body`` where masking hides all of it, which has no text then, ``fields`` where
    values in it.
    """

    id: str
    at: str
    queue: int
    offset: int
    tag: str | None
    keys: list[str]
    more_keys: int
    text: str | None
    body_bytes: int
    masked: str = ""


class TailFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parts of the tag and of one of the keys, in upper or lower case; empty: all fit."""

    tag: str = ""
    key: str = ""

    @property
    def is_all(self) -> bool:
        return not self.tag and not self.key

    @property
    def is_too_long(self) -> bool:
        return max(len(self.tag), len(self.key)) > _FILTER_CHARS_MAX

    def matches(self, record: Record) -> bool:
        """Whether tag and keys of the record have what is wanted."""
        if self.tag and self.tag.casefold() not in (record.tag or "").casefold():
            return False
        wanted = self.key.casefold()
        return not wanted or any(wanted in key.casefold() for key in record.keys)


def row_of(record: Record, mask: TopicMask, schema: TopicSchema | None) -> TailRow:
    """One line of the table, without what ``mask`` hides. ``schema``: that of the topic."""
    shown = mask.body(record.body)
    text = None if shown is None else text_of(shown[0])
    if schema is not None and not mask.hides_bodies:
        text = _one_line(schema.line_of(record.body)) or text
    masked = "body" if shown is None else "fields" if shown[1] else ""
    return TailRow(
        record.message_id,
        rfc3339(record.store_timestamp_ms),
        record.queue_id,
        record.queue_offset,
        record.tag,
        record.keys[:KEYS_SHOWN],
        max(0, len(record.keys) - KEYS_SHOWN),
        text,
        len(record.body),
        masked,
    )


def text_of(body: bytes) -> str | None:
    """The beginning of a body in one line; None for what is no UTF-8."""
    start = body[: 2 * TEXT_CHARS * _CHAR_BYTES_MAX]
    try:
        # What the cut left of a character is passed over, unless the body ends with it.
        text = codecs.getincrementaldecoder("utf-8")().decode(start, final=len(start) == len(body))
    except UnicodeDecodeError:
        return None
    return _one_line(text)


def _one_line(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())[:TEXT_CHARS]
