"""The offset of a queue at a time: RocketMQ's LOWER rule on store time; pure reading.

timestamp_ms                     queue_offset
at or before the first message   min_offset
between two messages             of the later one
of several messages              of the first of them
after the last message           max_offset
"""

from __future__ import annotations

from collections.abc import Callable

from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record_parts import store_timestamp_of


def offset_at_time(
    commit_log: CommitLog,
    queue: ConsumeQueue,
    timestamp_ms: int,
    *,
    low: int | None = None,
    is_local: bool = False,
) -> int:
    """Queue offset of the first message stored at ``timestamp_ms`` or later.

    Reads one record for each halving; store times never decrease along a queue. A damaged record
    tells no time: then the next whole one does. ``low``: the offset of an earlier time, from which
    on it is looked for. ``is_local``: read nothing that only the bucket has; its messages count as
    stored when their segment ended. Else raises ``NotLocal``.
    """
    times = _times(commit_log, queue, timestamp_ms, is_local=is_local)
    low = queue.min_offset if low is None else low
    high = found = queue.max_offset  # ``found`` is the first whole record from ``high`` on
    while low < high:
        middle = whole = (low + high) // 2
        stamp = times(whole)
        while stamp is None and whole + 1 < high:
            whole += 1
            stamp = times(whole)
        if stamp is not None and stamp < timestamp_ms:
            low = whole + 1
        else:
            high = middle
            found = found if stamp is None else whole
    return found


def _times(
    commit_log: CommitLog, queue: ConsumeQueue, timestamp_ms: int, *, is_local: bool
) -> Callable[[int], int | None]:
    """When messages were stored, exact enough to compare it; most in the bucket need no reading."""

    def time(queue_offset: int) -> int | None:
        known = commit_log.times_in_bucket(queue.unit(queue_offset)[0])
        if known is not None:
            first_ms, last_ms = known
            if is_local or last_ms < timestamp_ms:
                return last_ms
            if first_ms >= timestamp_ms:
                return first_ms
        return store_timestamp(commit_log, queue, queue_offset)

    return time


def store_timestamp(commit_log: CommitLog, queue: ConsumeQueue, queue_offset: int) -> int | None:
    """When a message was stored; None when its record is damaged."""
    physical_offset, record_bytes, _ = queue.unit(queue_offset)
    (record,) = commit_log.read_whole([(physical_offset, record_bytes)])
    return None if record is None else store_timestamp_of(record)
