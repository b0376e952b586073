"""Marks of the progress of groups, from which reports know when messages were delivered and
settled.

    groups' queues, as sampled ──▶ [write_marks] ─ where something moved ──▶ ProgressMark, one row
                                                                             a group and topic

Settling knows nothing of this: it costs a row each ten seconds for a group at work, whatever its
rate. What lies between two marks of a queue was settled between their times; that is all that is
known, and reports say how far apart those were.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from mqservice.lib.durations import DAY_MS
from mqservice.lib.names import ENGINE_SEPARATOR
from mqservice.lib.rows import delete_oldest
from mqservice.sampling.limits import (
    DELETED_ROWS_MAX,
    MARK_ROWS_DAY_MAX,
    MARKS_RETAINED_MS,
    SAMPLE_MS,
)
from mqservice.sampling.models import RETRY_TOPIC, MarkRound, ProgressMark
from mqservice.store import GroupQueueStats

# What this process wrote last of each group and topic; another one's rows it writes once more.
_CACHED_MAX: Final = 20_000
_written: dict[tuple[int, str, str], bytes] = {}


class GroupPositions(NamedTuple):
    """A group's queues as the engine has just told them."""

    namespace_id: int
    group: str
    queues: list[GroupQueueStats]


class QueuePosition(msgspec.Struct, frozen=True, array_like=True):
    """Everything below ``consumer_offset`` is settled, below ``delivered_offset`` was given out."""

    queue_id: int
    consumer_offset: int
    delivered_offset: int
    reset_count: int


def encode_positions(places: list[QueuePosition]) -> bytes:
    return msgspec.msgpack.encode(places)


def decode_positions(content: bytes | memoryview) -> list[QueuePosition]:
    return msgspec.msgpack.decode(content, type=list[QueuePosition])


def write_marks(broker: str, standings: Iterable[GroupPositions], now_ms: int) -> int:
    """Write a mark wherever something moved since the last one; how many.

    Two queries and an insert. Nothing when so many groups move that a day would have too many rows
    and the last marks are not old enough.
    """
    marks = {
        (each.namespace_id, each.group, topic): blob
        for each in standings
        for topic, blob in positions_of(each)
    }
    moved = {key: blob for key, blob in marks.items() if _written.get(key) != blob}
    last = MarkRound.objects.filter(broker=broker).values_list("at_ms", flat=True).first()
    pause_ms = mark_pause_ms(len(moved))
    # Rounds do not come to the millisecond; a clock that was set back waits for nothing.
    if last is not None and 0 <= now_ms - last < pause_ms - SAMPLE_MS // 2:
        return 0
    after_ms = 0 if last is None or last > now_ms else last
    ProgressMark.objects.bulk_create(
        [
            ProgressMark(
                namespace_id=namespace_id, group_name=group, topic=topic,
                after_ms=after_ms, at_ms=now_ms, places=blob,
            )
            for (namespace_id, group, topic), blob in moved.items()
        ],
        ignore_conflicts=True,
        batch_size=1_000,
    )  # fmt: skip
    MarkRound.objects.update_or_create(broker=broker, defaults={"at_ms": now_ms})
    if len(_written) + len(moved) > _CACHED_MAX:
        _written.clear()
    _written.update(moved)
    return len(moved)


def mark_pause_ms(mark_count: int) -> int:
    """How far marks of so many groups and topics lie apart, so that a day has not too many."""
    rows_a_day = mark_count * (DAY_MS // SAMPLE_MS)
    return SAMPLE_MS * max(1, -(-rows_a_day // MARK_ROWS_DAY_MAX))


def delete_old_marks(now_ms: int) -> int:
    """Drop marks that are too old, ``DELETED_ROWS_MAX`` at most; how many went."""
    return delete_oldest(
        "sampling_progressmark",
        "at_ms < %s",
        [now_ms - MARKS_RETAINED_MS],
        rows_max=DELETED_ROWS_MAX,
    )


def positions_of(standing: GroupPositions) -> Iterable[tuple[str, bytes]]:
    """(topic, encoded places) of each topic that the group reads, and of its retries."""
    by_topic: dict[str, list[QueuePosition]] = {}
    for queue in standing.queues:
        # Retry queues of all topics are queues of one topic, which has the group's name.
        topic = RETRY_TOPIC if queue.retry_of else queue.topic.partition(ENGINE_SEPARATOR)[2]
        by_topic.setdefault(topic, []).append(_place(queue))
    for topic, places in by_topic.items():
        yield topic, encode_positions(places)


def _place(queue: GroupQueueStats) -> QueuePosition:
    return QueuePosition(
        queue_id=queue.queue_id,
        consumer_offset=queue.consumer_offset,
        # What was given back and waits is ready again: so much less counts as given out.
        delivered_offset=max(queue.consumer_offset, queue.max_offset - queue.undelivered_count),
        reset_count=queue.reset_count,
    )
