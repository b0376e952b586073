"""Which messages of an ordered group may be delivered now, told by the message; both dispatches.

    machine ── put, received, acked, nacked, time, stops ──▶ [OrderedModel] ──▶ runs that may come

             received               ack
    READY ─────────────▶ HELD ─────────────▶ SETTLED (or passed over by a filter)
      ▲  ▲                │ nack, lease end
      │  └─ delay over ───┤ keeps its place: SUSPENDED
      └──── elsewhere ────┘ does not, or is given up: LEAVING, then GONE; READY in its new place

A message is one place in one queue; one that moves is another message from then on. It knows
nothing of the engine's structures.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from storage_engine.wire.groups import Dispatch, GroupConfig

RETRY = "%RETRY%g"
Queue = tuple[str, int]


class State(enum.Enum):
    """See the drawing in the module's docstring."""

    READY = enum.auto()
    HELD = enum.auto()
    SUSPENDED = enum.auto()
    LEAVING = enum.auto()
    SETTLED = enum.auto()
    GONE = enum.auto()


DONE = (State.SETTLED, State.GONE)


@dataclass(slots=True)
class Message:
    """``key``: its message group, empty for none; times are monotonic. ``saved_failures`` survive
    a kill. ``is_known``: delivered in this run of the engine, and since the last reset.
    ``settings``: in which of the group's it was delivered; ``moves``: from place to place so far.
    """

    queue: Queue
    offset: int
    body: bytes
    key: str
    tag: str
    state: State = State.READY
    failures: int = 0
    saved_failures: int = 0
    generation: int = 0
    until_ms: int = 0
    is_known: bool = False
    settings: int = 0
    moves: int = 0
    is_given_up: bool = False
    is_skipped: bool = False


class Receipt(NamedTuple):
    """What a member has of a delivery; in which run of the engine, and after how many resets."""

    message: Message
    generation: int
    run: int
    resets: int


class OrderedModel:
    """One group on the queues of one topic. ``wanted``: tags that its filter lets pass."""

    def __init__(self, config: GroupConfig) -> None:
        self.config = config
        self.settings = 0
        self.queues: dict[Queue, list[Message]] = {}
        self.resets: dict[Queue, int] = {}
        self.receipts: list[Receipt] = []
        self.wanted = {"x", "y"}
        self.run = 0

    @property
    def messages(self) -> list[Message]:
        return [message for queue in self.queues.values() for message in queue]

    def put(self, message: Message) -> None:
        queue = self.queues.setdefault(message.queue, [])
        assert message.offset == len(queue)
        queue.append(message)
        self.resets.setdefault(message.queue, 0)

    def change(self, config: GroupConfig) -> None:
        self.config = config
        self.settings += 1

    # Who may have what ------------------------------------------------------------------------

    def is_wanted(self, message: Message) -> bool:
        return message.is_known or message.queue[0] == RETRY or message.tag in self.wanted

    def runs(self, now_ms: int) -> list[list[Message]]:
        """What may be delivered now: of each run any number, from its first on."""
        found = []
        for unit in self._units():
            waiting = [one for one in unit if one.state not in DONE and self.is_wanted(one)]
            if any(one.state in {State.HELD, State.LEAVING} for one in waiting):
                continue
            end = next((at for at, one in enumerate(waiting) if one.until_ms > now_ms), None)
            found.append(waiting[:end][: self._batch_max(unit)])
        return [run for run in found if run]

    def _units(self) -> list[list[Message]]:
        """Messages that wait for each other; alone those that wait for none."""
        units: dict[tuple[object, ...], list[Message]] = {}
        for one in self.messages:
            is_alone = one.queue[0] == RETRY or not self.config.is_ordered
            if self.config.dispatch is Dispatch.SHARED:
                is_alone = is_alone or not one.key
                name: tuple[object, ...] = (one.queue, one.key)
            else:
                name = (one.queue,)
            units.setdefault((*one.queue, one.offset) if is_alone else name, []).append(one)
        return list(units.values())

    def _batch_max(self, unit: list[Message]) -> int:
        is_shared = self.config.dispatch is Dispatch.SHARED
        return self.config.batch_per_group if is_shared else len(unit)

    # Members ----------------------------------------------------------------------------------

    def received(self, message: Message, generation: int, until_ms: int) -> None:
        message.state, message.generation = State.HELD, generation
        message.until_ms, message.is_known = until_ms, True
        message.settings = self.settings
        resets = self.resets[message.queue]
        self.receipts.append(Receipt(message, generation, self.run, resets))

    def holds(self, receipt: Receipt) -> bool:
        one = receipt.message
        return one.state is State.HELD and one.generation == receipt.generation

    def ack(self, receipt: Receipt) -> bool:
        """Whether it counts."""
        one = receipt.message
        if one.state is State.LEAVING or (one.state is State.HELD and not self.holds(receipt)):
            return False
        if receipt.resets != self.resets[one.queue]:
            return False
        if one.state is State.SETTLED:
            return True
        if one.is_known and one.generation != receipt.generation:
            return False
        if not one.is_known and receipt.run == self.run:
            return False
        self.settled(one)
        return True

    def settled(self, message: Message) -> None:
        message.state, message.failures, message.saved_failures = State.SETTLED, 0, 0

    def release(self, receipt: Receipt) -> bool:
        """Whether it counts."""
        if not self.holds(receipt):
            return False
        receipt.message.state, receipt.message.until_ms = State.READY, 0
        return True

    def keeps_its_place(self, message: Message) -> bool:
        """Whether it does so when it fails."""
        if not self.config.is_ordered or message.queue[0] == RETRY:
            return False
        return self.config.dispatch is Dispatch.EXCLUSIVE or bool(message.key)

    def fail(self, message: Message, ready_ms: int, *, keeps_place: bool, is_dead: bool) -> None:
        """A delivery has failed; the message keeps its place unless it has failed too often."""
        limit = self.config.max_reconsume_times
        failures = message.failures if keeps_place else message.moves
        message.is_given_up = is_dead or 0 <= limit <= failures
        if keeps_place and not message.is_given_up:
            message.state, message.until_ms = State.SUSPENDED, ready_ms
            message.failures += 1
        else:
            message.state = State.LEAVING

    def skipped(self, message: Message) -> None:
        """A filter has passed over it. A kill may undo that, so what was counted stays."""
        assert message.state is State.READY
        assert not self.is_wanted(message)
        message.state, message.is_skipped = State.SETTLED, True

    # Time and stops ---------------------------------------------------------------------------

    def ended(self, now_ms: int) -> list[Message]:
        """Those whose lease is over."""
        return [one for one in self.messages if one.state is State.HELD and one.until_ms <= now_ms]

    def ticked(self) -> None:
        """What left has its new place, what failed is journaled."""
        for one in self.messages:
            if one.state is State.LEAVING:
                self.settled(one)
                one.state = State.GONE
            one.saved_failures = one.failures

    def reset(self, queue: Queue, offset: int) -> None:
        self.resets[queue] += 1
        for one in self.queues[queue]:
            self.settled(one)
            one.until_ms, one.is_known, one.is_skipped = 0, False, False
            if one.offset >= offset:
                one.state = State.READY

    def restarted(self, *, is_killed: bool) -> None:
        self.run += 1
        for one in self.messages:
            if one.state not in DONE:
                one.state, one.until_ms, one.is_known = State.READY, 0, False
            if is_killed:
                one.failures = one.saved_failures
            one.saved_failures = one.failures
