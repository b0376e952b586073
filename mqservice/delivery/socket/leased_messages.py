"""The messages leased to the client of a subscription, by tag, and what settles them.

    received ── add ──▶ batch ── pop_batch: acked as it was pushed ───▶
                          │ [spread], when anything else happens to one of its messages
                          ▼
                   outstanding[tag] ── take: settled, lease ended ──▶ late[tag] ── take ──▶

A tag is used once. Late are those whose credit has been returned although they may still be
settled: their lease has ended, or the engine could not be told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mqservice.delivery.limits import LATE_TAG_COUNT_MAX
from mqservice.delivery.socket.leased_batch import Delivery, LeasedBatch
from mqservice.protocol import frames
from mqservice.store import Extend, Nack, Received


def nack_of(
    delivery: Delivery,
    delay_ms: int | None,
    reason: str,
    *,
    is_dead: bool = False,
    is_release: bool = False,
    has_vanished: bool = False,
) -> Nack:
    """What gives a message back after a delay; None: the group's retry policy decides.

    ``is_dead``: to the DLQ instead. ``is_release``: at once, without an attempt counted.
    ``has_vanished``: see ``Nack``.
    """
    return Nack(
        topic=delivery.topic,
        queue_id=delivery.queue_id,
        lease_generation=delivery.lease_generation,
        queue_offset=delivery.queue_offset,
        delay_ms=delay_ms,
        reason=reason,
        is_dead=is_dead,
        is_release=is_release,
        has_vanished=has_vanished,
    )


def extend_of(delivery: Delivery, lease_ms: int) -> Extend:
    """What lets the lease of one delivered message end ``lease_ms`` from now."""
    return Extend(
        topic=delivery.topic,
        queue_id=delivery.queue_id,
        lease_generation=delivery.lease_generation,
        queue_offset=delivery.queue_offset,
        lease_ms=lease_ms,
    )


class PushedBatch(NamedTuple):
    """The first of the tags, which follow each other, and the credit that the messages take."""

    first_tag: int
    msgs: int
    body_bytes: int


class TakenMessages(NamedTuple):
    """What was taken out, and the credit that comes back for it."""

    deliveries: list[tuple[int, Delivery]]
    msgs: int
    body_bytes: int


class LeasedMessages:
    """See the module's docstring. Times are wall clock, ms."""

    def __init__(self) -> None:
        self._spread: dict[int, Delivery] = {}
        self._batches: dict[
            int, LeasedBatch
        ] = {}  # by the first tag; theirs are not in ``_spread``
        self._late: dict[int, Delivery] = {}
        self._why_lost: dict[int, str] = {}
        self._next_tag = 1

    def __len__(self) -> int:
        """Of all that is outstanding."""
        return len(self._spread) + sum([len(batch.tags) for batch in self._batches.values()])

    @property
    def outstanding(self) -> dict[int, Delivery]:
        """Each message by itself; costs what batches save."""
        if self._batches:
            self._spread_out(list(self._batches.values()))
        return self._spread

    def add(self, received: Received, extend_until_ms: int) -> PushedBatch:
        """Give tags to messages, in their order; the credit that they take.

        Every message that is pushed comes through here.
        """
        first_tag = self._next_tag
        if not received.count:
            return PushedBatch(first_tag, 0, 0)
        batch = LeasedBatch(first_tag, received, extend_until_ms)
        self._batches[first_tag] = batch
        self._next_tag = batch.tags.stop
        return PushedBatch(first_tag, len(batch.tags), batch.body_bytes)

    def restore(
        self,
        next_tag: int,
        outstanding: dict[int, Delivery],
        late: dict[int, Delivery],
        why_lost: dict[int, str],
    ) -> None:
        """Go on from what another session had come to."""
        self._next_tag = next_tag
        self._spread = outstanding
        self._late = late
        self._why_lost = why_lost

    @property
    def why_lost(self) -> dict[int, str]:
        """Of the late ones, why those were lost that were."""
        return {tag: why for tag, why in self._why_lost.items() if tag in self._late}

    @property
    def next_tag(self) -> int:
        return self._next_tag

    @property
    def late(self) -> dict[int, Delivery]:
        return self._late

    @property
    def body_bytes(self) -> int:
        """Of all that is outstanding."""
        single = sum([delivery.body_bytes for delivery in self._spread.values()])
        return single + sum([batch.body_bytes for batch in self._batches.values()])

    def leased(self, now_ms: int) -> list[Delivery]:
        """All whose lease has not ended; some of the late ones were revoked only."""
        late = [each for each in self._late.values() if each.lease_until_ms > now_ms]
        return [*self.outstanding.values(), *late]

    def pop_batch(self, tags: list[int]) -> LeasedBatch | None:
        """Take out what was pushed together, if ``tags`` are all of that and untouched."""
        batch = self._batches.get(tags[0]) if tags else None
        if batch is None or len(tags) != len(batch.tags) or tags != list(batch.tags):
            return None
        return self._batches.pop(tags[0])

    def pop(self, tags: Iterable[int], failures: list[frames.TagFailure]) -> TakenMessages:
        """Take ``tags`` out; one that was never given is a failure.

        A tag that was settled before is passed over, so that settling twice is harmless.
        """
        outstanding, late = self.outstanding, self._late
        taken: list[tuple[int, Delivery]] = []
        body_bytes = msgs = 0
        for tag in tags:
            delivery = outstanding.pop(tag, None)
            if delivery is not None:
                body_bytes += delivery.body_bytes
                msgs += 1
            else:
                delivery = late.pop(tag, None)
                if delivery is None:
                    if not 0 < tag < self._next_tag:
                        failures.append(frames.TagFailure(tag, "UNKNOWN_TAG"))
                    continue
            taken.append((tag, delivery))
        return TakenMessages(taken, msgs, body_bytes)

    def is_late(self, tag: int) -> bool:
        """Whether ``tag`` can still be settled although its credit has been returned."""
        return tag in self._late

    def remember_late(self, deliveries: list[tuple[int, Delivery]], why: str | None = None) -> None:
        """Keep what may still be settled although its credit has been returned."""
        late = self._late
        late.update(deliveries)
        if why is not None:
            self._why_lost.update((tag, why) for tag, _ in deliveries)
        while len(late) > LATE_TAG_COUNT_MAX:
            del late[next(iter(late))]
        if len(self._why_lost) > 2 * LATE_TAG_COUNT_MAX:
            self._why_lost = self.why_lost

    def expired(self, now_ms: int) -> list[int]:
        """Tags whose lease has ended."""
        self._spread_out([each for each in self._batches.values() if each.lease_until_ms <= now_ms])
        return [tag for tag, each in self._spread.items() if each.lease_until_ms <= now_ms]

    def due_for_extension(self, now_ms: int, ahead_ms: int) -> list[int]:
        """Tags whose lease ends within ``ahead_ms`` and is to be extended by itself."""

        def is_due(each: Delivery | LeasedBatch) -> bool:
            return each.lease_until_ms - now_ms <= ahead_ms < each.extend_until_ms - now_ms

        self._spread_out([each for each in self._batches.values() if is_due(each)])
        return [tag for tag, each in self._spread.items() if is_due(each)]

    def extended(self, tag: int, until_ms: int) -> None:
        """The engine has moved the end of a lease."""
        delivery = self._spread.get(tag)  # where it has been since somebody asked for the extension
        if delivery is not None:
            self._spread[tag] = delivery._replace(lease_until_ms=until_ms)

    def clear(self) -> None:
        """Nothing is outstanding any more."""
        self._spread.clear()
        self._batches.clear()

    def _spread_out(self, batches: list[LeasedBatch]) -> None:
        for batch in batches:
            del self._batches[batch.tags.start]
            self._spread.update(batch.deliveries())
