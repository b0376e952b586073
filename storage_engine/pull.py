"""Reading a queue at an offset, as RocketMQ's pull does; changes no delivery state.

queue_offset        status            next_offset
below min_offset    OFFSET_ILLEGAL    min_offset
above max_offset    OFFSET_ILLEGAL    max_offset
at max_offset       NO_NEW_MSG        queue_offset
between             FOUND             behind the last record returned or passed over
between             NO_MATCHED_MSG    behind the last record passed over: none had a wanted tag

With tags, the hash in the unit decides first and the text in the record after that. One call passes
over a bounded number of units, so NO_MATCHED_MSG does not mean that nothing follows.
"""

from __future__ import annotations

from typing import Final

from storage_engine.config import StoreConfig
from storage_engine.errors import BadRequest, StoreCorrupt
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.record import parse_head
from storage_engine.records.tag_hash import java_hash, tag_of
from storage_engine.wire.reads import PullHead, PullRequest, PullStatus

_UNITS_MIN: Final = 800  # passed over in one call at least; RocketMQ's 16,000 bytes of units
_TAGS_MAX: Final = 256
# Read for the comparison of tags in one call, though not returned.
_UNWANTED_BYTES_MAX: Final = 16 * 1024 * 1024


def pull(
    config: StoreConfig, commit_log: CommitLog, queue: ConsumeQueue, request: PullRequest
) -> tuple[PullHead, list[tuple[int, int]]]:
    """(head, (physical_offset, record_bytes) of each record); at least one where there is one.

    Raises:
        BadRequest: ``messages_max`` is out of range, or a tag is empty or one too many.
    """
    if not 1 <= request.messages_max <= config.receive_messages_max:
        raise BadRequest(
            f"messages_max is {request.messages_max}, 1 to {config.receive_messages_max} is allowed"
        )
    if len(request.tags) > _TAGS_MAX or "" in request.tags:
        raise BadRequest(f"{len(request.tags)} tags, at most {_TAGS_MAX} and none empty")
    low, high, offset = queue.min_offset, queue.max_offset, request.queue_offset
    if not low <= offset <= high:
        correct = low if offset < low else high
        return _head(PullStatus.OFFSET_ILLEGAL, correct, queue), []
    if offset == high:
        return _head(PullStatus.NO_NEW_MSG, offset, queue), []
    bytes_left = min(request.bytes_max, config.receive_bytes_max)
    if request.tags:
        return _pull_tagged(commit_log, queue, request, bytes_left)
    records: list[tuple[int, int]] = []
    for physical_offset, record_bytes, _ in queue.units(offset, request.messages_max):
        if records and record_bytes > bytes_left:
            break
        records.append((physical_offset, record_bytes))
        bytes_left -= record_bytes
    return _head(PullStatus.FOUND, offset + len(records), queue), records


def _pull_tagged(
    commit_log: CommitLog, queue: ConsumeQueue, request: PullRequest, bytes_left: int
) -> tuple[PullHead, list[tuple[int, int]]]:
    wanted = {tag.encode() for tag in request.tags}
    hashes = {java_hash(tag) for tag in request.tags}
    records: list[tuple[int, int]] = []
    unwanted_bytes = 0
    next_offset = request.queue_offset
    units_max = max(_UNITS_MIN, request.messages_max)
    for physical_offset, record_bytes, tag_hash in queue.units(next_offset, units_max):
        if tag_hash in hashes:
            if _tag(commit_log, physical_offset, record_bytes) in wanted:
                if records and record_bytes > bytes_left:
                    break
                records.append((physical_offset, record_bytes))
                bytes_left -= record_bytes
            else:
                unwanted_bytes += record_bytes
        next_offset += 1
        if len(records) == request.messages_max or unwanted_bytes > _UNWANTED_BYTES_MAX:
            break
    status = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MSG
    return _head(status, next_offset, queue), records


def _tag(commit_log: CommitLog, physical_offset: int, record_bytes: int) -> bytes | None:
    """The tag of a record as text; None for one that has none or is damaged."""
    record = commit_log.read_many([(physical_offset, record_bytes)])
    try:
        head = parse_head(record)
    except StoreCorrupt:
        return None
    return tag_of(record[head.properties_at :])


def _head(status: PullStatus, next_offset: int, queue: ConsumeQueue) -> PullHead:
    return PullHead(
        status=status,
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
    )
