"""What a group has still to do, counted the slow way: every message of every queue is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from storage_engine.delivery.subscription import ProcessQueue, Subscription
from storage_engine.filters.message_filter import FilterKind
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.wire.groups import TopicLag
from tests.storage_engine.doubles import OpenStore


class Counted(NamedTuple):
    """See ``TopicLag``; ``oldest_ms``: when the oldest was stored in its topic."""

    lag: int
    ready: int
    inflight: int
    retry_waiting: int
    retry_scheduled: int
    oldest_ms: int | None


def told(lag: TopicLag) -> tuple[int | None, ...]:
    """What the engine says, in the order of ``Counted``."""
    return (
        lag.lag,
        lag.ready_count,
        lag.inflight_count,
        lag.retry_waiting_count,
        lag.retry_scheduled_count,
        lag.oldest_stored_ms,
    )


def counted(store: OpenStore, group: str, topic: str, born_ms: dict[bytes, int]) -> Counted:
    """``born_ms``: when each message, known by its body, was stored in its topic."""
    subscription = store.store.consumption.delivery.subscriptions.find(group, topic)
    assert subscription is not None
    ready = inflight = waiting = 0
    left: list[bytes] = []
    for process_queue in subscription.queues:
        for record in _unsettled(store, process_queue):
            is_held = record.queue_offset in process_queue.inflight
            if is_held or _is_wanted(subscription, process_queue, record):
                inflight += is_held
                ready += not is_held
                left.append(record.body)
    for record in _unsettled(store, subscription.retry) if subscription.retry else ():
        assert subscription.retry is not None
        is_held = record.queue_offset in subscription.retry.inflight
        inflight += is_held
        waiting += not is_held
        left.append(record.body)
    scheduled = [record.body for record in _scheduled(store, subscription)]
    left += scheduled
    oldest_ms = min((born_ms[body] for body in left), default=None)
    return Counted(len(left), ready, inflight, waiting, len(scheduled), oldest_ms)


def _unsettled(store: OpenStore, process_queue: ProcessQueue) -> Iterator[Record]:
    queue = process_queue.queue
    for offset in range(queue.min_offset, queue.max_offset):
        if not process_queue.progress.is_settled(offset):
            yield _read(store, queue.unit(offset)[:2])


def _is_wanted(subscription: Subscription, process_queue: ProcessQueue, record: Record) -> bool:
    if record.queue_offset in process_queue.released:
        return True  # by the filter of that time
    unit = process_queue.queue.unit(record.queue_offset)
    wanted = subscription.filter
    if wanted.kind is FilterKind.TAG:
        return wanted.is_all or wanted.matches_unit(unit[2])  # tags of one hash count as one
    pairs = {**record.properties, **({"TAGS": record.tag} if record.tag else {})}
    encoded = "".join(f"{name}\x01{value}\x02" for name, value in pairs.items())
    return wanted.matches(encoded.encode())


def _scheduled(store: OpenStore, subscription: Subscription) -> Iterator[Record]:
    if subscription.retry is None:
        return
    consumption = store.store.consumption
    target = subscription.retry.queue
    for source in consumption.schedule.sources:
        for offset in range(source.queue.min_offset, source.queue.max_offset):
            if source.progress.is_settled(offset):
                continue
            unit = source.queue.unit(offset)[:2]
            record = _read(store, unit)
            properties = record.properties
            place = properties.get("REAL_TOPIC"), properties.get("REAL_QID")
            if place == (target.topic, str(target.queue_id)) and not (
                store.store.parts.min_offsets.is_orphan(store.store._commit_log.read_many([unit]))
            ):
                yield record


def _read(store: OpenStore, unit: tuple[int, int]) -> Record:
    (record,) = decode_records(store.store._commit_log.read_many([unit]))
    return record
