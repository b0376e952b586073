"""A message that the client of a subscription holds, and what settles it."""

from __future__ import annotations

from typing import NamedTuple

from mqservice.store import Extend, Nack


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
