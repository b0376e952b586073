"""Reading a queue at an offset, as RocketMQ's pull does; changes no delivery state.

queue_offset        status            next_offset
below min_offset    OFFSET_ILLEGAL    min_offset
above max_offset    OFFSET_ILLEGAL    max_offset
at max_offset       NO_NEW_MSG        queue_offset
between             FOUND             behind the last record returned
"""

from __future__ import annotations

from storage_engine.config import StoreConfig
from storage_engine.consume_queue import ConsumeQueue
from storage_engine.errors import BadRequest
from storage_engine.protocol import PullHead, PullRequest, PullStatus


def pull(
    config: StoreConfig, queue: ConsumeQueue, request: PullRequest
) -> tuple[PullHead, list[tuple[int, int]]]:
    """(head, (physical_offset, record_bytes) of each record); at least one where there is one.

    Raises:
        BadRequest: ``messages_max`` is out of range.
    """
    if not 1 <= request.messages_max <= config.receive_messages_max:
        raise BadRequest(
            f"messages_max is {request.messages_max}, 1 to {config.receive_messages_max} is allowed"
        )
    low, high, offset = queue.min_offset, queue.max_offset, request.queue_offset
    if not low <= offset <= high:
        correct = low if offset < low else high
        return _head(PullStatus.OFFSET_ILLEGAL, correct, queue), []
    records: list[tuple[int, int]] = []
    bytes_left = min(request.bytes_max, config.receive_bytes_max)
    for physical_offset, record_bytes, _ in queue.units(offset, request.messages_max):
        if records and record_bytes > bytes_left:
            break
        records.append((physical_offset, record_bytes))
        bytes_left -= record_bytes
    status = PullStatus.FOUND if records else PullStatus.NO_NEW_MSG
    return _head(status, offset + len(records), queue), records


def _head(status: PullStatus, next_offset: int, queue: ConsumeQueue) -> PullHead:
    return PullHead(
        status=status,
        next_offset=next_offset,
        min_offset=queue.min_offset,
        max_offset=queue.max_offset,
    )
