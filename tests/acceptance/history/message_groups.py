"""Judges the order of message groups, where a group of consumers is ordered and shares its queues.

    History ── [judge_message_groups] ──▶ overtaken, held twice

A message group has an order in each queue: a message comes only when a consumer has said of each
before it that it is done, or has it in the same batch (overtaken); and while one batch of a message
group is somebody's, no other one comes (held twice). Dead letters would be done too, so a load must
not make any. An ack counts from when it is about to be sent: later than that the service has it.
While clients are cut off nobody can tell from what they see who holds what, so nobody is said to.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.acceptance.history.events import (
    Accepted,
    AckBegun,
    Cut,
    Delivered,
    Event,
    GivenBack,
    Killed,
    Offered,
)


@dataclass(slots=True)
class _Order:
    """One message group in one queue. ``open``: places of those that nobody has acked, in order."""

    open: list[int] = field(default_factory=list)
    held: dict[int, Delivered] = field(default_factory=dict)


def judge_message_groups(events: list[Event], late_s: float) -> tuple[list[str], list[str]]:
    """(overtaken, held twice), each as text; ``events`` of one topic and one group.

    ``late_s``: by how much clients see later what happens.
    """
    group_of = {one.body: one.message_group for one in events if isinstance(one, Offered)}
    places: dict[str, tuple[int, int]] = {}  # the first ones, in which they have their order
    for event in events:
        if isinstance(event, (Accepted, Delivered)) and group_of.get(event.body):
            places.setdefault(event.body, (event.queue, event.offset))
    orders: dict[tuple[str | None, int], _Order] = {}
    for body, (queue, offset) in places.items():
        orders.setdefault((group_of[body], queue), _Order()).open.append(offset)
    for order in orders.values():
        order.open.sort()
    batches: dict[tuple[str, int], set[tuple[int, int]]] = {}
    for event in events:
        if isinstance(event, Delivered) and event.body in places:
            batches.setdefault((event.consumer, event.batch), set()).add(places[event.body])
    cuts = [event for event in events if isinstance(event, Cut)]
    overtaken: list[str] = []
    held_twice: list[str] = []
    for event in sorted(events, key=lambda each: each.at):
        if isinstance(event, (Killed, Cut)):
            for order in orders.values():
                order.held.clear()
        elif isinstance(event, (AckBegun, GivenBack)) and event.body in places:
            queue, offset = places[event.body]
            order = orders[group_of[event.body], queue]
            order.held.pop(offset, None)
            if isinstance(event, AckBegun) and offset in order.open:
                order.open.remove(offset)
        elif isinstance(event, Delivered) and event.body in places:
            queue, offset = places[event.body]
            order = orders[group_of[event.body], queue]
            batch = batches[event.consumer, event.batch]
            before = [at for at in order.open if at < offset]
            if any((queue, at) not in batch for at in before):
                overtaken.append(f"{event.body} at {offset} came before {before}")
            held_twice += [
                f"{event.body} came to {event.consumer} while {other.consumer} had {other.body}"
                for at, other in order.held.items()
                if (other.consumer, other.batch) != (event.consumer, event.batch)
                and at != offset
                and event.at < other.at + other.lease_ms / 1_000 - late_s
            ]
            if not any(cut.at <= event.at <= cut.until for cut in cuts):
                order.held[offset] = event
    return overtaken, held_twice
