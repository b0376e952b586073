"""What the members of one group hold, have settled and can get next, in dicts and sets alone.

machine ── leased, settled, time ──▶ [GroupModel] ──▶ ready, consumer offsets, who may settle
"""

from __future__ import annotations

from typing import NamedTuple

from storage_engine.wire.groups import StartFrom
from tests.storage_engine.model.store_model import Queue, StoreModel


class Place(NamedTuple):
    """One message of one queue."""

    queue: Queue
    offset: int


Receipt = tuple[int, Place]


class GroupModel:
    """One group. A queue is in ``begins`` from the first receive of its topic on."""

    def __init__(self, store: StoreModel, start_from: StartFrom) -> None:
        self._store = store
        self._start_from = start_from
        self.begins: dict[Queue, int] = {}
        self.settled: set[Place] = set()
        self.held: dict[Place, tuple[int, int]] = {}  # → (generation, until, monotonic ms)
        self.delayed: dict[Place, int] = {}  # → not before, monotonic ms
        self.attempts: dict[Place, int] = {}
        self.receipts: list[Receipt] = []
        self.superseded: set[Receipt] = set()

    def subscribe(self, topic: str) -> None:
        """Fix where the group begins on queues it has not seen."""
        is_at_end = self._start_from is StartFrom.LATEST and not any(
            queue[0] == topic for queue in self.begins
        )
        for name, queue in self._store.queues.items():
            if name[0] == topic:
                self.begins.setdefault(name, queue.max_offset if is_at_end else 0)

    def is_settled(self, place: Place) -> bool:
        return place in self.settled or place.offset < self.consumer_offset(place.queue)

    def consumer_offset(self, name: Queue, *, with_damaged: bool = False) -> int:
        """End of the settled prefix. ``with_damaged``: as if those were passed over already."""
        queue = self._store.queues[name]
        offset = max(self.begins.get(name, 0), queue.min_offset)
        while Place(name, offset) in self.settled or (with_damaged and offset in queue.damaged):
            offset += 1
        return offset

    def ready(self, topic: str, now_ms: int) -> set[Place]:
        """What may be given now."""
        return {
            Place(name, offset)
            for name, queue in self._store.queues.items()
            if name[0] == topic
            for offset in queue.whole(self.begins.get(name, 0))
            if Place(name, offset) not in self.settled
            and Place(name, offset) not in self.held
            and self.delayed.get(Place(name, offset), 0) <= now_ms
        }

    def held_count(self, name: Queue) -> int:
        return sum(place.queue == name for place in self.held)

    def leased(self, place: Place, generation: int, until_ms: int) -> int:
        """Take note of a delivery; which attempt it must be."""
        self.superseded |= {receipt for receipt in self.receipts if receipt[1] == place}
        self.attempts[place] = self.attempts.get(place, 0) + 1
        self.delayed.pop(place, None)
        self.held[place] = generation, until_ms
        self.receipts.append((generation, place))
        return self.attempts[place]

    def holds(self, receipt: Receipt) -> bool:
        return self.held.get(receipt[1], (0, 0))[0] == receipt[0]

    def acked(self, place: Place) -> None:
        self.settled.add(place)
        self.held.pop(place, None)
        self.delayed.pop(place, None)

    def tick(self, now_ms: int) -> None:
        self.held = {place: held for place, held in self.held.items() if held[1] > now_ms}

    def forget_below_min(self) -> None:
        """Retention ran: what lies below a queue's begin is nobody's any more."""
        for known in (self.held, self.delayed, self.attempts):
            for place in [
                at for at in known if at.offset < self._store.queues[at.queue].min_offset
            ]:
                del known[place]

    def restarted(self) -> None:
        """Leases, delays and attempts are forgotten, what was settled is not."""
        self.held.clear()
        self.delayed.clear()
        self.attempts.clear()
        # Which of two receipts came later is not remembered across a restart.
        self.receipts = [receipt for receipt in self.receipts if receipt not in self.superseded]
        self.superseded.clear()
