"""Idempotent puts: a record whose request is known stores nothing and gets the first reply again.

    PUT_ONCE ──▶ [IdempotentPuts] ─ key unknown ──▶ Store.put ──▶ remembered, answered when durable
                     ├── key known, same content ──▶ the first one's place, when that is durable
                     └── key known, other content ──▶ KeyReused

Two that come together are one: a key is remembered as its record is appended, and the second waits
for the disk as the first does. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from storage_engine.catalog.catalog import Catalog
from storage_engine.dedup.dedup import Dedup, Stored, namespace_hash_of, real_place
from storage_engine.errors import BadRequest, KeyReused, NoReplicatedLog, StoreError
from storage_engine.puts.delay_clock import DelayClock
from storage_engine.puts.put_path import Appended
from storage_engine.puts.route import REPLICATED, SYNCED, Confirmation
from storage_engine.records.dedup_mark import DedupMark, dedup_mark_of, key_hash_of
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import FIXED_BYTES, LENGTH_4
from storage_engine.records.record_parts import parts_of, properties_of
from storage_engine.records.schedule_topic import (
    MOMENT_QUEUE,
    SCHEDULE_TOPIC,
    SCHEDULE_TOPIC_BYTES,
)
from storage_engine.wire.put_once import PutOncePlace, PutOnceReply, PutOnceRequest

Put = Callable[[bytes, Callable[[Appended, int, StoreError | None], None]], tuple[Appended, int]]
Answer = Callable[[PutOnceReply | None, StoreError | None], None]
_length_4: Final = LENGTH_4.unpack_from


class _Offer(NamedTuple):
    """A record with a mark, taken apart. ``queue_id`` and ``topic`` are what its sender meant,
    ``stored_queue_id`` is where it goes, which is another queue for one that waits.
    """

    record: bytes
    mark: DedupMark
    key_hash: bytes
    topic: bytes
    queue_id: int
    stored_queue_id: int
    is_waiting: bool
    message_id: bytes


class IdempotentPuts:
    """See the module's docstring."""

    def __init__(
        self,
        dedup: Dedup,
        confirmations: Mapping[int, Confirmation],
        catalog: Catalog,
        delay_clock: DelayClock,
        put: Put,
    ) -> None:
        self._dedup = dedup
        self._confirmations = confirmations
        self._catalog = catalog
        self._delay_clock = delay_clock
        self._put = put

    def put(self, request: PutOnceRequest, answer: Answer) -> None:
        """Store what is new of a request; ``answer(reply, error)`` comes once.

        Raises (then ``answer`` is not called, and nothing was stored): as ``Store.put`` does;
        ``StoreBusy`` also when there is no room to remember more keys.
        """
        records = _records_of(request.records)
        places: list[PutOncePlace | None] = [None] * len(records)
        fresh: list[int] = []  # indexes of records to store
        firsts: dict[bytes, int] = {}  # by key hash, of those that are new in this request
        twins: list[tuple[int, int]] = []  # (index, index of the first with its key)
        offered: dict[int, _Offer] = {}
        wait_for, awaits = 0, SYNCED
        for index, record in enumerate(records):
            offer = _read_offer(record)
            if offer is None:
                fresh.append(index)
                continue
            offered[index] = offer
            if offer.key_hash in firsts:
                twins.append((index, firsts[offer.key_hash]))
                continue
            stored = self._known(offer, request.window_ms)
            if stored is None:
                firsts[offer.key_hash] = index
                fresh.append(index)
            elif stored.fingerprint != offer.mark.fingerprint:
                places[index] = PutOncePlace(KeyReused.code)
            elif self._is_replicated(offer) and REPLICATED not in self._confirmations:
                places[index] = PutOncePlace(NoReplicatedLog.code)  # nobody knows whether it was
            else:
                place = _place(stored, is_duplicate=True)
                places[index] = msgspec.structs.replace(place, due_ms=self._due_ms(offer, stored))
                wait_for = max(wait_for, stored.physical_offset + 1)
                if self._is_replicated(offer):
                    awaits = REPLICATED
        self._require_room([offered[index] for index in firsts.values()])
        waiting = _PendingReply(answer)
        if fresh:
            waiting.count += 1
            content = b"".join([records[index] for index in fresh])
            appended, stamp = self._put(content, lambda _, __, error: waiting.settle_one(error))
            self._note(appended, stamp, fresh, offered, places)
        for index, first in twins:
            places[index] = _duplicate_of_first(places[first], offered[first], offered[index])
        confirmation = self._confirmations[awaits]
        if wait_for > confirmation.confirmed_offset:
            waiting.count += 1
            confirmation.wait(wait_for, waiting.settle_one)
        waiting.begin(PutOnceReply(places=[place for place in places if place is not None]))

    def _is_replicated(self, offer: _Offer) -> bool:
        return offer.topic.decode("utf-8", "replace") in self._catalog.replicated_topics

    def _require_room(self, offers: list[_Offer]) -> None:
        counts: dict[bytes, int] = {}
        for offer in offers:
            namespace_hash = namespace_hash_of(offer.topic)
            counts[namespace_hash] = counts.get(namespace_hash, 0) + 1
        for namespace_hash, count in counts.items():
            self._dedup.index.require_room(namespace_hash, count)

    def _known(self, offer: _Offer, window_ms: int) -> Stored | None:
        """What the key has stored, if it can still be read: not in a topic that was deleted since,
        and not when retention has taken it.
        """
        stored = self._dedup.index.find(offer.key_hash, window_ms)
        if stored is None or stored.is_waiting:
            return stored
        topic = offer.topic.decode("utf-8", "replace")
        if topic not in self._catalog.topics:
            return None
        queues = self._catalog.queues_of(topic)
        is_there = (
            stored.queue_id < len(queues)
            and queues[stored.queue_id].min_offset <= stored.queue_offset
        )
        return stored if is_there else None

    def _due_ms(self, offer: _Offer, stored: Stored) -> int:
        """As the first was answered; 0 where that is not to be found any more, or not needed."""
        queue_id = offer.stored_queue_id
        if not stored.is_waiting or queue_id == MOMENT_QUEUE:
            return 0
        queue = self._catalog.queues_of(SCHEDULE_TOPIC)[queue_id]
        if stored.queue_offset < queue.min_offset:
            return 0
        physical_offset, _, due_ms = queue.unit(stored.queue_offset)
        return (
            self._delay_clock.shown_ms(due_ms) if physical_offset == stored.physical_offset else 0
        )

    def _note(
        self,
        appended: Appended,
        stamp: int,
        fresh: list[int],
        offered: dict[int, _Offer],
        places: list[PutOncePlace | None],
    ) -> None:
        offsets = appended.offsets
        for at, index in enumerate(fresh):
            queue_offset, physical_offset = offsets[2 * at], offsets[2 * at + 1]
            if queue_offset < 0:
                places[index] = PutOncePlace(-queue_offset)
                continue
            offer = offered.get(index)
            if offer is None:
                due_ms = appended.due_ms.get(at, 0)
                places[index] = PutOncePlace(
                    0, 0, queue_offset, physical_offset, stamp, due_ms=due_ms
                )
                continue
            stored = Stored(
                offer.mark.fingerprint,
                physical_offset,
                offer.queue_id,
                offer.is_waiting,
                queue_offset,
                stamp,
                namespace_hash_of(offer.topic),
                offer.message_id,
            )
            self._dedup.remember(offer.key_hash, stored)
            place = _place(stored, is_duplicate=False)
            places[index] = msgspec.structs.replace(place, due_ms=appended.due_ms.get(at, 0))


class _PendingReply:
    """Answers once all that it waits for has ended, with the first error of it."""

    def __init__(self, answer: Answer) -> None:
        self.count = 1  # until ``begin``
        self._answer = answer
        self._reply: PutOnceReply | None = None
        self._error: StoreError | None = None

    def begin(self, reply: PutOnceReply) -> None:
        self._reply = reply
        self.settle_one(None)

    def settle_one(self, error: StoreError | None) -> None:
        self._error = self._error or error
        self.count -= 1
        if not self.count:
            self._answer(None if self._error else self._reply, self._error)


def _records_of(content: bytes) -> list[bytes]:
    records = []
    at, size = 0, len(content)
    while at < size:
        record_bytes = _length_4(content, at)[0] if size - at >= FIXED_BYTES else 0
        if not FIXED_BYTES <= record_bytes <= size - at:
            raise BadRequest(f"PUT_ONCE has no record of {size} bytes at byte {at}")
        records.append(content[at : at + record_bytes])
        at += record_bytes
    if not records:
        raise BadRequest("PUT_ONCE has no record")
    return records


def _read_offer(record: bytes) -> _Offer | None:
    """None without a mark, and for a record whose lengths do not fit: the put refuses that one."""
    properties = properties_of(memoryview(record))
    mark = None if properties is None else dedup_mark_of(properties)
    if properties is None or mark is None:
        return None
    try:
        parts = parts_of(record)
    except (IndexError, ValueError):
        return None
    topic, queue_id = real_place(parts.topic, parts.queue_id, properties)
    return _Offer(
        record,
        mark,
        key_hash_of(topic, mark.key),
        topic,
        queue_id,
        parts.queue_id,
        parts.topic == SCHEDULE_TOPIC_BYTES,
        next(iter(keys_of(properties, 0, len(properties))), b""),
    )


def _place(stored: Stored, *, is_duplicate: bool) -> PutOncePlace:
    return PutOncePlace(
        0,
        stored.queue_id,
        stored.queue_offset,
        stored.physical_offset,
        stored.store_timestamp_ms,
        stored.message_id.decode("utf-8", "replace"),
        is_duplicate,
        stored.is_waiting,
    )


def _duplicate_of_first(first: PutOncePlace | None, of_first: _Offer, own: _Offer) -> PutOncePlace:
    """Of a record that comes in the same request as the first with its key."""
    assert first is not None, "the first has its place by now"
    if of_first.mark.fingerprint != own.mark.fingerprint:
        return PutOncePlace(KeyReused.code)
    if first.code:
        return first
    return PutOncePlace(
        0,
        first.queue_id,
        first.queue_offset,
        first.physical_offset,
        first.store_timestamp_ms,
        first.message_id,
        True,
        first.is_waiting,
        first.due_ms,
    )
