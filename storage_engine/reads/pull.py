"""Reading a queue at an offset, as RocketMQ's pull does; changes no delivery state.

queue_offset        status            next_offset
below min_offset    OFFSET_ILLEGAL    min_offset
above max_offset    OFFSET_ILLEGAL    max_offset
at max_offset       NO_NEW_MSG        queue_offset
between             FOUND             behind the last record returned or passed over
between             NO_MATCHED_MSG    behind the last record passed over: none was wanted

With tags or a filter, the hash in the unit decides first and the record's properties after that.
One call passes over a bounded number of units in a bounded time, so NO_MATCHED_MSG does not mean
that nothing follows.
"""

from __future__ import annotations

from typing import Final

from storage_engine.clock import Clock
from storage_engine.config import StoreConfig
from storage_engine.delivery.filter_scan import SCAN_MS_MAX, FilterScan
from storage_engine.errors import BadRequest
from storage_engine.filters.message_filter import Filter, FilterKind, known_filter
from storage_engine.log.commit_log import CommitLog
from storage_engine.queues.consume_queue import ConsumeQueue
from storage_engine.records.tag_hash import java_hash, tag_of
from storage_engine.wire.reads import PullHead, PullRequest, PullStatus

_UNITS_MIN: Final = 800  # passed over in one call at least; RocketMQ's 16,000 bytes of units
_TAGS_MAX: Final = 256


def pull(
    config: StoreConfig,
    clock: Clock,
    commit_log: CommitLog,
    queue: ConsumeQueue,
    request: PullRequest,
) -> tuple[PullHead, list[tuple[int, int]]]:
    """(head, (physical_offset, record_bytes) of each record); at least one where there is one.

    Raises:
        BadRequest: ``messages_max`` is out of range, or a tag is empty or one too many, or there
        are tags and a filter.
        FilterInvalid: the filter is none.
    """
    if not 1 <= request.messages_max <= config.receive_messages_max:
        raise BadRequest(
            f"messages_max is {request.messages_max}, it must be 1 to {config.receive_messages_max}"
        )
    if len(request.tags) > _TAGS_MAX or "" in request.tags:
        raise BadRequest(
            f"the request has {len(request.tags)} tags, at most {_TAGS_MAX} are allowed, "
            "none of them empty"
        )
    if request.tags and request.filter:
        raise BadRequest("the request has both tags and a filter; give only one of them")
    wanted = known_filter(request.filter, request.filter_kind)
    if request.tags:
        wanted = _tag_filter(request.tags)
    low, high, offset = queue.min_offset, queue.max_offset, request.queue_offset
    if not low <= offset <= high:
        correct = low if offset < low else high
        return _head(PullStatus.OFFSET_ILLEGAL, correct, queue), []
    if offset == high:
        return _head(PullStatus.NO_NEW_MSG, offset, queue), []
    bytes_left = min(request.bytes_max, config.receive_bytes_max)
    if not wanted.is_all:
        look = FilterScan(wanted, clock, SCAN_MS_MAX, commit_log.properties)
        return _pull_filtered(queue, request, bytes_left, look)
    records: list[tuple[int, int]] = []
    for physical_offset, record_bytes, _ in queue.units(offset, request.messages_max):
        if records and record_bytes > bytes_left:
            break
        records.append((physical_offset, record_bytes))
        bytes_left -= record_bytes
    return _head(PullStatus.FOUND, offset + len(records), queue), records


def _pull_filtered(
    queue: ConsumeQueue, request: PullRequest, bytes_left: int, look: FilterScan
) -> tuple[PullHead, list[tuple[int, int]]]:
    records: list[tuple[int, int]] = []
    next_offset = request.queue_offset
    units = queue.units(next_offset, max(_UNITS_MIN, request.messages_max))
    while len(records) < request.messages_max:
        unwanted_count, unit = look.next_match(units)
        next_offset += unwanted_count
        if unit is None:
            if look.absent is not None and not records:
                raise look.absent
            break
        physical_offset, record_bytes, _ = unit
        if records and record_bytes > bytes_left:
            break
        records.append((physical_offset, record_bytes))
        bytes_left -= record_bytes
        next_offset += 1
    status = PullStatus.FOUND if records else PullStatus.NO_MATCHED_MSG
    return _head(status, next_offset, queue), records


def _tag_filter(tags: list[str]) -> Filter:
    """Any of these tags, taken as they are: also one with blanks or bars in it."""
    wanted = frozenset(tag.encode() for tag in tags)
    return Filter(
        kind=FilterKind.TAG,
        text="",
        is_all=False,
        matches_unit=frozenset(map(java_hash, tags)).__contains__,
        matches=lambda properties: tag_of(properties) in wanted,
    )


def _head(status: PullStatus, next_offset: int, queue: ConsumeQueue) -> PullHead:
    return PullHead(
        status=status,
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
    )
