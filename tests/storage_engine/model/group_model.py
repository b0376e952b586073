"""What the members of one group hold, have settled and can get next, in dicts and sets alone.

machine ── leased, settled, failed, time ──▶ [GroupModel] ──▶ ready, consumer offsets, next records

A message whose delivery failed is ``leaving``: the model says which record must take its place, the
store where that stands.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from storage_engine.records.delay_levels import DELAY_LEVELS_MS
from storage_engine.records.schedule_topic import DELAY_QUEUE, SCHEDULE_TOPIC
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of
from storage_engine.settings.retry_policy import RECONSUME_FOR_EVER
from storage_engine.wire.groups import GroupConfig, StartFrom
from tests.storage_engine.model.store_model import Queue, Stored, StoreModel

LEASE_ENDED = "lease ended"


class Place(NamedTuple):
    """One message of one queue."""

    queue: Queue
    offset: int


class Receipt(NamedTuple):
    """What a member has of a delivery; ``run`` of the engine in which it was made."""

    generation: int
    place: Place
    run: int


class Held(NamedTuple):
    """A lease of one message; ``until_ms`` is monotonic, ``began_ms`` of the wall clock."""

    generation: int
    until_ms: int
    began_ms: int


class Failed(NamedTuple):
    """A delivery that failed, wall clock; ``delay_ms`` None: by the group's policy."""

    generation: int
    began_ms: int
    failed_ms: int
    delay_ms: int | None
    reason: str
    is_dead: bool


class Answer(enum.Enum):
    """To an ack."""

    SETTLED = enum.auto()
    WAS_SETTLED = enum.auto()
    EXPIRED = enum.auto()


class Move(NamedTuple):
    """``record`` takes the place of a message in ``queue``; where it stands the store says."""

    queue: Queue
    record: Stored


class GroupModel:
    """One group. A queue is in ``begins`` from the first receive of its topic on.

    ``retry_topics``: whose messages stand in which queue of the retry topic.
    """

    def __init__(self, store: StoreModel, config: GroupConfig) -> None:
        self._store = store
        self.config = config
        self.retry_topic, self.dlq_topic = retry_topic_of(config.group), dlq_topic_of(config.group)
        self.retry_topics: list[str] = []
        self.begins: dict[Queue, int] = {}
        self.settled: set[Place] = set()  # or left
        self.held: dict[Place, Held] = {}
        self.leaving: dict[Place, Failed] = {}
        # Of this run: generation of the lease that a message had, and where it went if at once.
        self._left: dict[Place, tuple[int, Place | None]] = {}
        self.run = 0
        self.receipts: list[Receipt] = []

    def subscribe(self, topic: str) -> None:
        """Fix where the group begins on queues it has not seen."""
        is_at_end = self.config.start_from is StartFrom.LATEST and not any(
            queue[0] == topic for queue in self.begins
        )
        for name, queue in self._store.queues.items():
            if name[0] == topic:
                self.begins.setdefault(name, queue.max_offset if is_at_end else 0)

    def sources(self, topic: str) -> list[Queue]:
        """Where messages of a topic come from."""
        queues = [name for name in self._store.queues if name[0] == topic]
        if topic in self.retry_topics:
            queues.append((self.retry_topic, self.retry_topics.index(topic)))
        return queues

    def is_settled(self, place: Place) -> bool:
        return place in self.settled or place.offset < self.consumer_offset(place.queue)

    def consumer_offset(self, name: Queue, *, with_damaged: bool = False) -> int:
        """End of the settled prefix. ``with_damaged``: as if those were passed over already."""
        queue = self._store.queues[name]
        offset = max(self.begins.get(name, 0), queue.min_offset)
        while Place(name, offset) in self.settled or (with_damaged and offset in queue.damaged):
            offset += 1
        return offset

    def ready(self, name: Queue) -> list[int]:
        """Offsets that may be given now, in order."""
        return [
            offset
            for offset in self._store.queues[name].whole(self.begins.get(name, 0))
            if (place := Place(name, offset)) not in self.settled
            and place not in self.held
            and place not in self.leaving
        ]

    def inflight_count(self, name: Queue) -> int:
        return sum(place.queue == name for place in [*self.held, *self.leaving])

    # Members ----------------------------------------------------------------------------------

    def leased(self, place: Place, held: Held) -> int:
        """Take note of a delivery; which attempt it must be."""
        self.held[place] = held
        self.receipts.append(Receipt(held.generation, place, self.run))
        return self._store.queues[place.queue].records[place.offset].failures + 1

    def holds(self, receipt: Receipt) -> bool:
        held = self.held.get(receipt.place)
        return held is not None and held.generation == receipt.generation

    def went_at_once(self, receipt: Receipt) -> bool:
        """Whether an ack may count where its message is now."""
        return self._left.get(receipt.place, (0, None))[1] is not None

    def ack(self, receipt: Receipt) -> Answer:
        place = receipt.place
        if place in self.held or place in self.leaving:
            return self._settle(place) if self.holds(receipt) else Answer.EXPIRED
        if place in self._left:
            return self._ack_elsewhere(receipt)
        if self.is_settled(place):
            return Answer.WAS_SETTLED
        # A restart forgets leases, and nobody has had it since.
        return self._settle(place) if receipt.run < self.run else Answer.EXPIRED

    def _ack_elsewhere(self, receipt: Receipt) -> Answer:
        generation, went_to = self._left[receipt.place]
        if went_to is None or generation != receipt.generation:
            return Answer.EXPIRED
        if any(went_to in known for known in (self.held, self.leaving, self._left)):
            return Answer.EXPIRED
        return Answer.WAS_SETTLED if self.is_settled(went_to) else self._settle(went_to)

    def _settle(self, place: Place) -> Answer:
        self.settled.add(place)
        self.held.pop(place, None)
        return Answer.SETTLED

    def nack(
        self, receipt: Receipt, delay_ms: int | None, reason: str, now_ms: int, *, is_dead: bool
    ) -> bool:
        """Whether it counts."""
        if not self.holds(receipt):
            return False
        generation, _, began_ms = self.held.pop(receipt.place)
        self.leaving[receipt.place] = Failed(
            generation, began_ms, now_ms, delay_ms, reason, is_dead
        )
        return True

    def extend(self, receipt: Receipt, until_ms: int) -> bool:
        """Whether it counts."""
        if not self.holds(receipt):
            return False
        self.held[receipt.place] = self.held[receipt.place]._replace(until_ms=until_ms)
        return True

    # Time -------------------------------------------------------------------------------------

    def tick(self, monotonic_ms: int, wall_ms: int) -> None:
        for place, (generation, until_ms, began_ms) in list(self.held.items()):
            if until_ms <= monotonic_ms:
                del self.held[place]
                ended = generation, began_ms, wall_ms, 0, LEASE_ENDED, False
                self.leaving[place] = Failed(*ended)

    def moves(self) -> dict[Place, Move]:
        """What must become of the messages that leave."""
        return {place: self._move(place, failed) for place, failed in self.leaving.items()}

    def _move(self, place: Place, failed: Failed) -> Move:
        one = self._store.queues[place.queue].records[place.offset]
        limit = self.config.max_reconsume_times
        failures = one.failures + 1
        is_retry = place.queue[0] == self.retry_topic
        topic = self.retry_topics[place.queue[1]] if is_retry else place.queue[0]
        record = one._replace(
            failures=failures,
            first_ms=one.first_ms or failed.began_ms,
            last_ms=failed.began_ms,
            origin=topic,
            physical_offset=-1,
        )
        if failed.is_dead or (limit != RECONSUME_FOR_EVER and one.failures >= limit):
            return Move((self.dlq_topic, 0), record._replace(reason=failed.reason))
        delay_ms = failed.delay_ms
        if delay_ms is None:
            delay_ms = self.config.retry.delay_ms(one.failures)
        # The first of its topic: its queue is still to be made.
        known = self.retry_topics if topic in self.retry_topics else [*self.retry_topics, topic]
        target = self.retry_topic, known.index(topic)
        if not delay_ms:
            return Move(target, record)
        is_level = delay_ms in DELAY_LEVELS_MS
        queue_id = DELAY_LEVELS_MS.index(delay_ms) if is_level else DELAY_QUEUE
        waiting = record._replace(due_ms=failed.failed_ms + delay_ms, target=target)
        return Move((SCHEDULE_TOPIC, queue_id), waiting)

    def moved(self, place: Place, to: Place) -> None:
        """A message that was leaving has its new place, and is settled in the old one."""
        failed = self.leaving.pop(place)
        is_direct = to.queue[0] == self.retry_topic
        self._left[place] = failed.generation, to if is_direct else None
        self.settled.add(place)

    def forget_below_min(self) -> None:
        """Retention ran: what lies below a queue's begin is nobody's any more."""
        for known in (self.held, self.leaving):
            for place in [
                at for at in known if at.offset < self._store.queues[at.queue].min_offset
            ]:
                del known[place]

    def restarted(self) -> None:
        """Leases, and failures that had not led anywhere, are forgotten."""
        self.held.clear()
        self.leaving.clear()
        self._left.clear()
        self.run += 1
