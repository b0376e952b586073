"""The messages that the client of a subscription holds, by tag, and what settles them.

    received ── add ──▶ outstanding[tag] ── take: settled, lease ended ──▶ late[tag] ── take ──▶

A tag is used once. Late are those whose credit has been returned although they may still be
settled: their lease has ended, or the engine could not be told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from typing import Any, Final, NamedTuple, cast

from mqservice.delivery.limits import LATE_TAG_COUNT_MAX
from mqservice.delivery.socket import pushes
from mqservice.store import Extend, Nack, Received


class Delivery(NamedTuple):
    """What must be remembered of a message that the client holds.

    ``topic`` is the engine's, which is another one once a delivery has failed.
    """

    topic: str
    queue_id: int
    lease_generation: int
    queue_offset: int
    body_bytes: int
    lease_until_ms: int
    extend_until_ms: int  # how long its lease is extended by itself; 0: never
    attempt: int


def nack_of(
    delivery: Delivery,
    delay_ms: int | None,
    reason: str,
    *,
    is_dead: bool = False,
    is_release: bool = False,
) -> Nack:
    """What gives a message back after a delay; None: the group's retry policy decides.

    ``is_dead``: to the DLQ instead. ``is_release``: at once, as if it had never been delivered.
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


# As ``Delivery(*fields)``, without its function in Python.
_delivery: Final = cast("Callable[[tuple[Any, ...]], Delivery]", partial(tuple.__new__, Delivery))


class Given(NamedTuple):
    """The first of the tags, which follow each other, and the credit that the messages take."""

    first_tag: int
    msgs: int
    body_bytes: int


class Taken(NamedTuple):
    """What was taken out, and the credit that comes back for it."""

    deliveries: list[tuple[int, Delivery]]
    msgs: int
    body_bytes: int


class Held:
    """See the module's docstring. Times are wall clock, ms."""

    def __init__(self) -> None:
        self.outstanding: dict[int, Delivery] = {}
        self._late: dict[int, Delivery] = {}
        self._why_lost: dict[int, str] = {}
        self._next_tag = 1

    def add(self, received: Received, extend_until_ms: int) -> Given:
        """Give tags to messages, in their order; the credit that they take.

        By columns: every message that is pushed comes through here.
        """
        head, records = received
        body_bytes = [len(record.body) for record in records]
        fields = zip(
            [record.topic for record in records],
            [record.queue_id for record in records],
            repeat(head.lease_generation),
            [record.queue_offset for record in records],
            body_bytes,
            repeat(head.lease_until_ms),
            repeat(extend_until_ms),
            head.attempts,
        )
        first_tag = self._next_tag
        self._next_tag = first_tag + len(records)
        tags = range(first_tag, self._next_tag)
        self.outstanding.update(zip(tags, map(_delivery, fields), strict=True))
        return Given(first_tag, len(records), sum(body_bytes))

    def restore(
        self,
        next_tag: int,
        outstanding: dict[int, Delivery],
        late: dict[int, Delivery],
        why_lost: dict[int, str],
    ) -> None:
        """Go on from what another session had come to."""
        self._next_tag = next_tag
        self.outstanding = outstanding
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
        return sum([delivery.body_bytes for delivery in self.outstanding.values()])

    def leased(self, now_ms: int) -> list[Delivery]:
        """All whose lease has not ended; some of the late ones were revoked only."""
        late = [each for each in self._late.values() if each.lease_until_ms > now_ms]
        return [*self.outstanding.values(), *late]

    def take(self, tags: Iterable[int], failures: list[pushes.TagFailure]) -> Taken:
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
                        failures.append(pushes.TagFailure(tag, "UNKNOWN_TAG"))
                    continue
            taken.append((tag, delivery))
        return Taken(taken, msgs, body_bytes)

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

    def ended(self, now_ms: int) -> list[int]:
        """Tags whose lease has ended."""
        return [tag for tag, each in self.outstanding.items() if each.lease_until_ms <= now_ms]

    def to_extend(self, now_ms: int, ahead_ms: int) -> list[int]:
        """Tags whose lease ends within ``ahead_ms`` and is to be extended by itself."""
        return [
            tag
            for tag, each in self.outstanding.items()
            if each.lease_until_ms - now_ms <= ahead_ms < each.extend_until_ms - now_ms
        ]

    def extended(self, tag: int, until_ms: int) -> None:
        """The engine has moved the end of a lease."""
        delivery = self.outstanding.get(tag)
        if delivery is not None:
            self.outstanding[tag] = delivery._replace(lease_until_ms=until_ms)
