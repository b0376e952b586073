"""Reads the dead letters that a task is for, page by page, in one of two ways.

    ids          in their order          ── LOOK_UP each ──▶ place: index of the next id
    filter, all  the DLQ, oldest first   ── PULL ──────────▶ place: the next offset

A filter by key reads the DLQ as well: the key index answers newest first, and messages of one key
are what should stay in order. So does one by cause, which no index knows. Nothing is changed here.
What was redriven or dropped before is not shown by the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from mqservice.delivery.reading.same_cause import SameCause
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.store import (
    LookUpRequest,
    OffsetAtTimeRequest,
    PullRequest,
    PullStatus,
    Record,
    StoreBusy,
    StoreClient,
    TopicNotFound,
    TopicRef,
    dlq_topic_of,
    find_dead_letter,
)
from mqservice.tasks.limits import (
    BATCH_BYTES_MAX,
    LOOK_UP_MESSAGES_MAX,
    LOOK_UPS_MAX,
    SCANNED_MAX,
)
from mqservice.tasks.selection import Selection

DLQ_QUEUE_ID: Final = 0


class DeadLetterRef(msgspec.Struct, frozen=True, array_like=True):
    """A message by id, and where it lies in the DLQ.

    Either may be missing: ``queue_offset`` None is an id without a message, an empty
    ``message_id`` an offset at which no message was shown.
    """

    message_id: str
    queue_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``topics``: where the letters of ``spots`` that can be seen came from, tenant's names.

    ``place``: where the next page begins, None after the last one. ``looked_count``: how much of
    ``to_look_count`` is behind the walk then.
    """

    spots: list[DeadLetterRef]
    topics: list[str]
    place: str | None
    looked_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """All that decides what a walk shows: the letters of ``group`` in [begin, end)."""

    group: str
    selection: Selection
    begin_offset: int
    end_offset: int

    @property
    def to_look_count(self) -> int:
        """How many ids or offsets there are to look at."""
        if self.selection.ids:
            return len(self.selection.ids)
        return self.end_offset - self.begin_offset

    def page(self, client: StoreClient, place: str, messages_max: int) -> Page:
        """The page at ``place``, which is empty at the start. Raises ``StoreError``."""
        try:
            if self.selection.ids:
                return self._ids_page(client, int(place or 0), messages_max)
            return self._queue_page(client, int(place or self.begin_offset), messages_max)
        except TopicNotFound:  # the group has not given up anything yet
            ids = self.selection.ids
            return Page(
                spots=[DeadLetterRef(one, None) for one in ids],
                topics=[],
                place=None,
                looked_count=len(ids),
            )

    def _queue_page(self, client: StoreClient, position: int, messages_max: int) -> Page:
        left = self.end_offset - position
        if left <= 0:
            return self._last_page()
        selection = self.selection
        pulled_max = SCANNED_MAX if selection.is_compared else messages_max
        head, records = client.pull(
            PullRequest(
                topic=dlq_topic_of(self.group),
                queue_id=DLQ_QUEUE_ID,
                queue_offset=position,
                messages_max=min(pulled_max, left),
                bytes_max=BATCH_BYTES_MAX,
                tags=selection.tags,
            )
        )
        next_offset = min(head.next_offset, self.end_offset)
        if next_offset <= position:  # nothing is left: a DLQ never ends before it did once
            return self._last_page()
        same = None if selection.cause is None else SameCause(selection.cause)
        wanted = [record for record in records if self._is_wanted(record, same)]
        if len(wanted) > messages_max:
            next_offset = wanted[messages_max].queue_offset
            del wanted[messages_max:]
        spots = [DeadLetterRef(record.message_id, record.queue_offset) for record in wanted]
        if head.status is PullStatus.FOUND and not selection.tags and not selection.is_compared:
            # Moved before, or damaged; only the engine can say which.
            seen = {record.queue_offset for record in wanted}
            spots += [
                DeadLetterRef("", at) for at in range(position, next_offset) if at not in seen
            ]
        return Page(
            spots=spots,
            topics=[_origin(record) for record in wanted],
            place=str(next_offset) if next_offset < self.end_offset else None,
            looked_count=next_offset - self.begin_offset,
        )

    def _last_page(self) -> Page:
        looked_count = max(0, self.end_offset - self.begin_offset)
        return Page(spots=[], topics=[], place=None, looked_count=looked_count)

    def _ids_page(self, client: StoreClient, index: int, messages_max: int) -> Page:
        ids = self.selection.ids
        spots: list[DeadLetterRef] = []
        topics: list[str] = []
        bytes_left = BATCH_BYTES_MAX
        while index < len(ids) and len(spots) < messages_max and bytes_left > 0:
            record = self._find(client, ids[index])
            if record is None:
                spots.append(DeadLetterRef(ids[index], None))
            else:
                spots.append(DeadLetterRef(ids[index], record.queue_offset))
                topics.append(_origin(record))
                bytes_left -= len(record.body)
            index += 1
        place = str(index) if index < len(ids) else None
        return Page(spots=spots, topics=topics, place=place, looked_count=index)

    def _find(self, client: StoreClient, message_id: str) -> Record | None:
        """The newest letter of that id, as the DLQ shows it to those who read it."""
        cursor = ""
        for _ in range(LOOK_UPS_MAX):
            head, found = client.look_up(
                LookUpRequest(
                    topic=dlq_topic_of(self.group),
                    key=message_id,
                    messages_max=LOOK_UP_MESSAGES_MAX,
                    bytes_max=BATCH_BYTES_MAX,
                    cursor=cursor,
                )
            )
            if not head.is_complete:
                raise StoreBusy(
                    "the key index does not have the newest messages yet, so a message "
                    "that was not found may exist"
                )
            for record in found:
                if record.message_id == message_id and self._is_inside(record):
                    return record
            cursor = head.cursor
            if not cursor:
                break
        return None

    def _is_wanted(self, record: Record, same: SameCause | None) -> bool:
        key = self.selection.key
        return (
            self._is_inside(record)
            and (key is None or key in record.keys or key == record.message_id)
            and (same is None or same.has(record))
        )

    def _is_inside(self, record: Record) -> bool:
        return self.begin_offset <= record.queue_offset < self.end_offset


def walk_from(client: StoreClient, group: str, selection: Selection) -> Walk:
    """A walk through what is there now. Two or three calls to the engine; raises ``StoreError``."""
    topic = dlq_topic_of(group)
    try:
        [queue] = client.topic_stats(TopicRef(topic=topic)).queues
    except TopicNotFound:
        return Walk(group=group, selection=selection, begin_offset=0, end_offset=0)
    begin, end = queue.min_offset, queue.max_offset
    if selection.from_ms is not None:
        begin = max(begin, _offset_at(client, topic, selection.from_ms))
    if selection.to_ms is not None:
        end = min(end, _offset_at(client, topic, selection.to_ms + 1))
    return Walk(group=group, selection=selection, begin_offset=begin, end_offset=max(begin, end))


def _offset_at(client: StoreClient, topic: str, moment_ms: int) -> int:
    request = OffsetAtTimeRequest(topic=topic, queue_id=DLQ_QUEUE_ID, timestamp_ms=moment_ms)
    return client.offset_at_time(request).queue_offset


def _origin(record: Record) -> str:
    """The tenant's name of the topic that a dead letter was produced to."""
    found = find_dead_letter(record)
    return found.origin_topic.partition(ENGINE_SEPARATOR)[2] if found else ""
