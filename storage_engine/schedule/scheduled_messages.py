"""Single scheduled messages: list those of a topic, cancel, send now, or reschedule.

    page ◀── units and records of SCHEDULE_TOPIC_XXXX
    cancel ──▶ settled, and durable before the answer         both win only while it is to come;
    send ──▶ moved to its topic, and durable before the answer   so does the schedule itself
    move ──▶ appended again with another time, likewise

A message is found at the place where it was stored; after retention has appended it again, by its
id in the key index. Loop thread only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from isal.isal_zlib import crc32

from storage_engine.catalog.catalog import Catalog
from storage_engine.config import MIB
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.errors import BadRequest, StoreBusy, TopicNotFound
from storage_engine.moves.moves import Move, settles_for
from storage_engine.reads.queries import Queries
from storage_engine.records.delay_levels import DAY_MS, DELAY_MS_MAX
from storage_engine.records.record import Record
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import rescheduled_record, scheduled_queue_of
from storage_engine.records.schedule_topic import (
    DELAY_QUEUE,
    MOMENT_QUEUE,
    SCHEDULE_TOPIC,
)
from storage_engine.schedule.schedule import Schedule
from storage_engine.schedule.source import Source, real_topic, real_topics
from storage_engine.wire.reads import LookUpRequest
from storage_engine.wire.scheduled import (
    ScheduledListHead,
    ScheduledListRequest,
    ScheduledMoveRequest,
    ScheduledOutcome,
    ScheduledRef,
    ScheduledReply,
)

BLOCK_UNITS: Final = 4_096  # of the schedule, whose topics are known together
_LOOKED_AT_MAX: Final = BLOCK_UNITS  # messages for one page, of any topic; about 3 ms
_TOGETHER_MIN: Final = 32  # messages looked at in one go, at first; then four times as many
_ALONE_MAX: Final = 32  # so few are read one by one, which is quicker
_TOGETHER_MAX: Final = 2_048
_READ_COST: Final = 16  # of reading a message by itself, in messages looked at
_KNOWN_COST: Final = 16  # of passing over a block, in messages looked at; about 1 µs
_READ_BYTES_MAX: Final = 8 * MIB
_SAME_ID_MAX: Final = 32  # records of one id; retention appends a message again and again


_HASHES: Final = 4_096
_BLOCKS_MAX: Final = 16_384  # known at a time: 64 million messages, 9 MB


class TopicBlocks:
    """The real topics of scheduled messages per block of a queue, so that blocks need not be read
    again.

        a page of a listing ── topics of a block that it has read ──▶ [TopicBlocks]
        the next listing ── may block n hold messages for this topic? ──▶ no: it is passed over

    A consume queue of the schedule does not know where its messages go; the records do. Blocks
    that are full change no more, but for messages that are done with, so what was found once
    stays true. Each costs 512 bytes in memory, whatever it holds: a bit for each of 4,096
    hashes of topics, and of their namespaces. Two topics may share one, then a block is read
    for nothing. Nothing is written down.
    """

    def __init__(self) -> None:
        self._bits: dict[tuple[int, int], int] = {}  # (queue id, block) → bit of each hash

    def note(self, queue_id: int, block: int, topics: Iterable[bytes]) -> None:
        """A full block holds messages for these topics and, but for those done with, no others."""
        if len(self._bits) >= _BLOCKS_MAX:
            del self._bits[next(iter(self._bits))]  # the one known longest
        bits = 0
        for topic in topics:
            bits |= _bit(topic) | _bit(_namespace_prefix(topic))
        self._bits[queue_id, block] = bits

    def may_hold(self, queue_id: int, block: int, topic: bytes) -> bool:
        """False when it is certain that nothing there is for the topic, or the namespace."""
        bits = self._bits.get((queue_id, block))
        return bits is None or bits & _bit(topic) != 0


def _namespace_prefix(topic: bytes) -> bytes:
    """The name before the separator, and the separator; empty where there is none."""
    head, separator, _ = topic.partition(b"%")
    return head + separator if separator else b""


def _bit(topic: bytes) -> int:
    return 1 << crc32(topic) % _HASHES


class _Found(NamedTuple):
    source: Source
    queue_offset: int


class _TopicMatch(NamedTuple):
    """Messages for the topic of that name, or for all topics that begin with it."""

    name: bytes
    is_prefix: bool

    def matches(self, topic: bytes) -> bool:
        return topic.startswith(self.name) if self.is_prefix else topic == self.name


class _Page:
    """What a listing has found; ``left``: how many messages it may look at yet, ``together``: how
    many next.
    """

    __slots__ = ("_due_ms", "_records", "_room", "_room_messages", "left", "together")

    def __init__(self, bytes_max: int, messages_max: int) -> None:
        self.left = _LOOKED_AT_MAX
        self.together = _TOGETHER_MIN
        self._room, self._room_messages = bytes_max, messages_max
        self._due_ms: list[int] = []
        self._records: list[bytes] = []

    @property
    def is_full(self) -> bool:
        return self._room_messages <= 0

    def has_room(self, record_bytes: int) -> bool:
        """The first one may be larger than the page."""
        return not self._records or (record_bytes <= self._room and self._room_messages > 0)

    def add(self, record: bytes, due_ms: int) -> None:
        self._room -= len(record)
        self._room_messages -= 1
        self._records.append(record)
        self._due_ms.append(due_ms)

    def until(
        self, queue_id: int, queue_offset: int, *, is_end: bool = False
    ) -> tuple[ScheduledListHead, bytes]:
        """The page so far; the next one continues at that place."""
        head = ScheduledListHead(
            due_ms=self._due_ms, queue_id=queue_id, queue_offset=queue_offset, is_end=is_end
        )
        return head, b"".join(self._records)


class ScheduledMessages:
    """See the module's docstring."""

    def __init__(
        self, parts: EngineParts, catalog: Catalog, schedule: Schedule, queries: Queries
    ) -> None:
        self._config = parts.config
        self._commit_log = parts.commit_log
        self._consumer_offsets = parts.consumer_offsets
        self._is_orphan = parts.min_offsets.is_orphan
        self._catalog = catalog
        self._schedule = schedule
        self._queries = queries
        self._blocks = TopicBlocks()

    def page(self, request: ScheduledListRequest) -> tuple[ScheduledListHead, bytes]:
        """A page, and its records back to back. Raises ``TopicNotFound``, ``BadRequest``."""
        if not request.is_namespace:
            self._catalog.get_queues(request.topic)
        if not 1 <= request.messages_max <= self._config.receive_messages_max:
            raise BadRequest(
                f"messages_max is {request.messages_max}, it must be 1 to "
                f"{self._config.receive_messages_max}"
            )
        if request.queue_id < 0 or request.queue_offset < 0:
            raise BadRequest(f"there is no place {request.queue_offset} of {request.queue_id}")
        self._schedule.follow()
        name = f"{request.topic}%" if request.is_namespace else request.topic
        wanted = _TopicMatch(name.encode(), request.is_namespace)
        page = _Page(min(request.bytes_max, self._config.receive_bytes_max), request.messages_max)
        place = request.queue_offset
        for source in self._schedule.sources[request.queue_id :]:
            place = self._fill(page, source, max(place, source.start), wanted)
            if place < source.end:
                return page.until(source.queue.queue_id, place)
            place = 0
        return page.until(0, 0, is_end=True)

    def _fill(self, page: _Page, source: Source, place: int, wanted: _TopicMatch) -> int:
        """Add messages from ``place`` on, a block of the queue after the other.

        Where to go on, which is the end of the queue when it has no more.
        """
        queue_id = source.queue.queue_id
        while place < source.end and page.left > 0 and not page.is_full:
            block = place // BLOCK_UNITS
            stop = min((block + 1) * BLOCK_UNITS, source.end)
            if not self._blocks.may_hold(queue_id, block, wanted.name):
                page.left -= _KNOWN_COST
                place = stop
                continue
            if stop - place > page.left:
                break  # else it would not be seen as a whole
            is_whole = place <= max(source.start, block * BLOCK_UNITS) and not stop % BLOCK_UNITS
            topics: set[bytes] = set()
            while place < stop and page.left > 0 and not page.is_full:
                places = range(place, min(place + page.together, stop))
                page.together = min(4 * page.together, _TOGETHER_MAX)
                place = self._add_messages(page, source, places, wanted, topics)
                if place < places.stop:
                    return place
            if is_whole and place == stop:
                self._blocks.note(queue_id, block, topics)
        return place

    def _add_messages(
        self, page: _Page, source: Source, places: range, wanted: _TopicMatch, topics: set[bytes]
    ) -> int:
        """Add messages of these places as far as they fit; the first place that is left.

        ``topics`` gets all topics that they are for.
        """
        page.left -= len(places)
        likely: list[bytes | None] = [None] * len(places)
        if len(places) > _ALONE_MAX:
            physical_offsets = source.queue.physical_offsets(places.start, places.stop)
            likely = real_topics(self._commit_log, physical_offsets)
            topics.update(filter(None, likely))
        for place, found in zip(places, likely, strict=True):
            if found is not None and not wanted.matches(found):
                continue
            if page.left < 0:
                return place
            if source.progress.is_settled(place):
                continue
            page.left -= _READ_COST
            physical_offset, record_bytes, due = source.queue.unit(place)
            unit = physical_offset, record_bytes
            found = real_topic(self._commit_log.properties(*unit) or b"")
            topics.add(found)
            if not (wanted.matches(found) and source.is_pending(place)):
                continue
            if self._commit_log.damaged([unit]):
                continue
            if not page.has_room(record_bytes):
                return place
            record = self._commit_log.read_many([unit])
            if not self._is_orphan(record):
                page.add(record, self._schedule.shown_ms(source.queue.queue_id, due))
        return places.stop

    def cancel(self, request: ScheduledRef) -> ScheduledReply:
        """Deliver a message never; durable on return (one fdatasync) when that is still possible.

        Raises:
            StoreBusy: it is on its way just now; ask again.
            DiskFull: nothing was changed.
            SyncFailed: it is cancelled, which a power cut may undo.
        """
        found = self._find(request)
        if isinstance(found, ScheduledOutcome):
            return ScheduledReply(outcome=found)
        self._consumer_offsets.settle([(found.source.progress, [(found.queue_offset, 1)])])
        self._consumer_offsets.sync()
        return ScheduledReply(outcome=ScheduledOutcome.DONE)

    def send(self, request: ScheduledRef, answer: Callable[[ScheduledReply], None]) -> None:
        """Deliver a message now; ``answer`` comes when it is durable in its topic.

        Raises ``StoreBusy``, ``DiskFull``, ``StoreReadOnly``: nothing was changed; and
        ``TopicNotFound``: there is nowhere to deliver it.
        """
        found = self._find(request)
        if isinstance(found, ScheduledOutcome):
            answer(ScheduledReply(outcome=found))
            return
        source, queue_offset = found
        unit = source.queue.unit(queue_offset)[:2]
        move = self._schedule.due_move(source, queue_offset, self._commit_log.read_many([unit]))
        self._schedule.mover.move([move], partial(self._sent, found, answer))
        source.moving.add(queue_offset)

    def move(self, request: ScheduledMoveRequest, answer: Callable[[ScheduledReply], None]) -> None:
        """Deliver a message at another time; ``answer`` comes when that is durable. A time that is
        over means at once.

        One record takes the place of the other, so that a crash leaves one of the two times.

        Raises ``BadRequest``: no such time; ``StoreBusy``, ``DiskFull``, ``StoreReadOnly``,
        ``RecordRefused``: nothing was changed; and ``TopicNotFound`` as ``send``.
        """
        queue_id, due_ms = self._new_time(request)
        found = self._find(request)
        if isinstance(found, ScheduledOutcome):
            answer(ScheduledReply(outcome=found))
            return
        source, queue_offset = found
        unit = source.queue.unit(queue_offset)[:2]
        old = self._commit_log.read_many([unit])
        # What was for a topic that is gone must not become younger than its deletion.
        self._schedule.due_move(source, queue_offset, old)
        record = rescheduled_record(
            old,
            due_ms=due_ms,
            queue_id=queue_id,
            settles=settles_for(source.progress, queue_offset),
        )
        self._schedule.mover.check(record)
        move = Move(record, source.progress, queue_offset)

        def moved() -> None:
            source.moving.discard(queue_offset)
            answer(
                ScheduledReply(
                    outcome=ScheduledOutcome.DONE,
                    queue_id=queue_id,
                    queue_offset=place,
                    due_ms=self._schedule.shown_ms(queue_id, due_ms),
                )
            )

        (place,) = self._schedule.mover.move([move], moved)
        source.moving.add(queue_offset)

    def _new_time(self, request: ScheduledMoveRequest) -> tuple[int, int]:
        """The queue of the schedule, and the due time there. Raises ``BadRequest``."""
        if (request.delay_ms == 0) == (request.deliver_at_ms == 0):
            raise BadRequest("give either delay_ms or deliver_at_ms")
        queue_id = DELAY_QUEUE if request.delay_ms else MOMENT_QUEUE
        now_ms = self._schedule.now_ms(queue_id)
        # What has begun of the millisecond counts in full: never early.
        due_ms = now_ms + 1 + request.delay_ms if request.delay_ms else request.deliver_at_ms
        if request.delay_ms < 0 or not 0 < due_ms <= now_ms + 1 + DELAY_MS_MAX:
            raise BadRequest(
                "the delivery time must be in the future and at most "
                f"{DELAY_MS_MAX // DAY_MS} days ahead"
            )
        return queue_id, due_ms

    def _sent(self, found: _Found, answer: Callable[[ScheduledReply], None]) -> None:
        found.source.moving.discard(found.queue_offset)
        self._schedule.delivered_count += 1
        answer(ScheduledReply(outcome=ScheduledOutcome.DONE))

    # Finding ----------------------------------------------------------------------------------

    def _find(self, request: ScheduledRef) -> _Found | ScheduledOutcome:
        """Where the message waits, or why it does not."""
        self._schedule.follow()
        places = [(request.queue_id, request.queue_offset)]
        found = self._waiting(places, request)
        if found is not None:
            return found
        found = self._waiting(
            [(each.queue_id, each.queue_offset) for each in self._by_id(SCHEDULE_TOPIC, request)],
            request,
        )
        if found is not None:
            return found
        if self._by_id(request.topic, request):
            return ScheduledOutcome.DELIVERED
        return ScheduledOutcome.GONE

    def _waiting(self, places: list[tuple[int, int]], request: ScheduledRef) -> _Found | None:
        for queue_id, queue_offset in places:
            if not 0 <= queue_id < len(self._schedule.sources):
                continue
            source = self._schedule.sources[queue_id]
            if not source.start <= queue_offset < source.end:
                continue
            unit = source.queue.unit(queue_offset)[:2]
            if self._commit_log.damaged([unit]):
                continue
            content = self._commit_log.read_many([unit])
            (record,) = decode_records(content)
            if (
                record.message_id != request.message_id
                or scheduled_queue_of(content, request.topic) is None
                or self._is_orphan(content)
            ):
                continue
            if queue_offset in source.moving:
                raise StoreBusy(f"message {request.message_id} is being delivered; try again")
            if source.is_pending(queue_offset):
                return _Found(source, queue_offset)
        return None

    def _by_id(self, topic: str, request: ScheduledRef) -> list[Record]:
        """Records of the message in a topic, newest first.

        Raises ``StoreBusy`` while the index does not know.
        """
        try:
            head, content = self._queries.look_up(
                LookUpRequest(
                    topic=topic,
                    key=request.message_id,
                    messages_max=_SAME_ID_MAX,
                    bytes_max=_READ_BYTES_MAX,
                )
            )
        except TopicNotFound:
            return []
        found = decode_records(content)
        if not found and not head.is_complete:
            raise StoreBusy("the key index is behind; try again")
        return found
