"""The life of each message of one group, told by the message: where it is and what happens to it.

    machine ── put, leased, acked, nacked, time ──▶ [MessageModel] ──▶ who may have what, and when

               lease              ack
    READY ──────────▶ HELD ──────────────▶ SETTLED
      ▲                 │ nack, lease end
      │                 ▼
      ├─────────── LEAVING ── given up ──▶ DEAD        a restart: HELD, LEAVING ──▶ READY
      │  at once        │ delay
      └──── due ──── DELAYED

It knows nothing of the engine's structures: a message is its body, and has one place at a time.
The engine decides which place comes next, the machine reads it there and says so (``arrived``).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from storage_engine.settings.retry_policy import RECONSUME_FOR_EVER
from storage_engine.wire.groups import GroupConfig

LEASE_ENDED = "lease ended"


class Place(NamedTuple):
    """Of one record."""

    topic: str
    queue_id: int
    offset: int


class State(enum.StrEnum):
    """See the drawing in the module's docstring."""

    READY = enum.auto()
    HELD = enum.auto()
    LEAVING = enum.auto()
    DELAYED = enum.auto()
    SETTLED = enum.auto()
    DEAD = enum.auto()


class Answer(enum.Enum):
    """To an ack."""

    SETTLED = enum.auto()
    WAS_SETTLED = enum.auto()
    EXPIRED = enum.auto()


@dataclass(slots=True)
class Message:
    """One message. ``until_ms`` is monotonic, the other times are of the wall clock."""

    body: bytes
    place: Place
    state: State = State.READY
    failures: int = 0
    generation: int = 0
    until_ms: int = 0
    began_ms: int = 0  # of the delivery that goes on, or failed last
    first_ms: int = 0  # of the first delivery that failed
    failed_ms: int = 0
    delay_ms: int = 0
    is_given_up: bool = False
    reason: str = ""

    @property
    def due_ms(self) -> int:
        return self.failed_ms + self.delay_ms


class Receipt(NamedTuple):
    """What a member has of a delivery; ``run`` of the engine in which it was made."""

    generation: int
    place: Place
    run: int


class MessageModel:
    """See the module's docstring. ``moving``: messages whose next place is still to be told."""

    def __init__(self, group: GroupConfig) -> None:
        self._group = group
        self.messages: dict[bytes, Message] = {}
        self.at: dict[Place, Message] = {}  # who is or was there
        self.run = 0
        self.moving: dict[bytes, Message] = {}
        # Of this run: generation of the lease that a message had, and where it went if at once.
        self._left: dict[Place, tuple[int, Place | None]] = {}
        self.receipts: list[Receipt] = []
        self.refused: set[Receipt] = set()  # given back by their member

    def put(self, body: bytes, place: Place) -> None:
        assert place not in self.at
        self.messages[body] = self.at[place] = Message(body, place)

    def in_state(self, *states: State) -> list[Message]:
        return [message for message in self.messages.values() if message.state in states]

    # Members ----------------------------------------------------------------------------------

    def leased(self, message: Message, generation: int, until_ms: int, began_ms: int) -> None:
        assert message.state is State.READY
        message.state, message.generation = State.HELD, generation
        message.until_ms, message.began_ms = until_ms, began_ms
        self.receipts.append(Receipt(generation, message.place, self.run))

    def ack(self, receipt: Receipt) -> Answer:
        message = self.at[receipt.place]
        if message.place == receipt.place:
            return self._ack_there(message, receipt)
        if receipt.place not in self._left:
            return Answer.WAS_SETTLED  # it left before the last restart
        generation, went_to = self._left[receipt.place]
        if generation != receipt.generation or message.place != went_to:
            return Answer.EXPIRED
        if message.state is State.READY:
            message.state = State.SETTLED
            return Answer.SETTLED
        return Answer.WAS_SETTLED if message.state is State.SETTLED else Answer.EXPIRED

    def _ack_there(self, message: Message, receipt: Receipt) -> Answer:
        if message.state is State.SETTLED:
            return Answer.WAS_SETTLED
        is_before = message.state is State.READY and receipt.run < self.run
        if is_before or self.holds(receipt):
            message.state = State.SETTLED
            return Answer.SETTLED
        return Answer.EXPIRED

    def holds(self, receipt: Receipt) -> bool:
        message = self.at[receipt.place]
        is_there = message.place == receipt.place and message.state is State.HELD
        return is_there and message.generation == receipt.generation

    def has_left(self, receipt: Receipt) -> bool:
        """Whether its message has gone elsewhere, where it is still to be settled."""
        message = self.at[receipt.place]
        return message.place != receipt.place and message.state is not State.SETTLED

    def nack(
        self, receipt: Receipt, delay_ms: int | None, reason: str, now_ms: int, *, is_dead: bool
    ) -> bool:
        """Whether it counts."""
        if not self.holds(receipt):
            return False
        message = self.at[receipt.place]
        if delay_ms is None:
            delay_ms = self._group.retry.delay_ms(message.failures)
        self._fail(message, delay_ms, reason, now_ms, is_dead=is_dead)
        self.refused.add(receipt)
        return True

    def extend(self, receipt: Receipt, until_ms: int) -> bool:
        """Whether it counts."""
        if not self.holds(receipt):
            return False
        self.at[receipt.place].until_ms = until_ms
        return True

    def _fail(
        self, message: Message, delay_ms: int, reason: str, now_ms: int, *, is_dead: bool = False
    ) -> None:
        limit = self._group.max_reconsume_times
        message.state = State.LEAVING
        message.delay_ms, message.failed_ms, message.reason = delay_ms, now_ms, reason
        is_last = limit != RECONSUME_FOR_EVER and message.failures >= limit
        message.is_given_up = is_dead or is_last

    # Time -------------------------------------------------------------------------------------

    def tick(self, monotonic_ms: int, wall_ms: int) -> bool:
        """One look of the engine at the time; whether messages move, ``arrived`` follows then."""
        assert not self.moving
        due = [one for one in self.in_state(State.DELAYED) if one.due_ms <= wall_ms]
        for message in self.in_state(State.HELD):
            if message.until_ms <= monotonic_ms:
                self._fail(message, 0, LEASE_ENDED, wall_ms)
        for message in self.in_state(State.LEAVING):
            if not message.failures:
                message.first_ms = message.began_ms
            message.failures += 1
            self.moving[message.body] = message
        for message in due:
            message.delay_ms = 0
            self.moving[message.body] = message
        return bool(self.moving)

    def arrived(self, body: bytes, place: Place) -> Message:
        """A message that moves is there now; it must be one that does."""
        message = self.moving.pop(body)
        if message.state is State.LEAVING:
            is_direct = not message.is_given_up and not message.delay_ms
            self._left[message.place] = message.generation, place if is_direct else None
        if message.state is State.LEAVING and message.is_given_up:
            message.state = State.DEAD
        else:
            message.state = State.DELAYED if message.delay_ms else State.READY
        assert place not in self.at
        message.place, self.at[place] = place, message
        return message

    def restarted(self) -> None:
        """Leases are forgotten, and failures that had not led anywhere."""
        assert not self.moving
        for message in self.in_state(State.HELD, State.LEAVING):
            message.state = State.READY
        self._left.clear()
        self.run += 1

    # Numbers ----------------------------------------------------------------------------------

    def ready(self, topic: str, queue_id: int) -> list[int]:
        """Offsets that may be given now, in order."""
        found = [one.place for one in self.in_state(State.READY)]
        return sorted(at.offset for at in found if at[:2] == (topic, queue_id))

    def inflight_count(self, topic: str, queue_id: int) -> int:
        found = [one.place for one in self.in_state(State.HELD, State.LEAVING)]
        return sum(at[:2] == (topic, queue_id) for at in found)

    def consumer_offset(self, topic: str, queue_id: int) -> int:
        """End of the prefix that is settled there or has left."""
        offset = 0
        while (place := Place(topic, queue_id, offset)) in self.at:
            message = self.at[place]
            if message.place == place and message.state is not State.SETTLED:
                break
            offset += 1
        return offset
