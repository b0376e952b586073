"""What hops of a scheduled message tell: each time that it was given, and no move of the store."""

from __future__ import annotations

from mqservice.store import SCHEDULE_TOPIC, TraceHop
from mqservice.traces.events import EventKind, events_of


def waits(physical_offset: int, due_ms: int, from_topic: str = "") -> TraceHop:
    return TraceHop(
        topic=SCHEDULE_TOPIC, queue_id=18, queue_offset=0, physical_offset=physical_offset,
        born_ms=1, stored_ms=physical_offset, target_topic="acme%orders", due_ms=due_ms,
        from_topic=from_topic,
    )  # fmt: skip


def times(*hops: TraceHop) -> list[int]:
    return [event.due_ms for event in events_of(hops) if event.kind is EventKind.SCHEDULED]


def test_a_message_that_was_made_due_at_another_time_tells_both() -> None:
    hops = waits(10, 500), waits(20, 900, SCHEDULE_TOPIC), waits(30, 200, SCHEDULE_TOPIC)
    assert times(*hops) == [500, 900, 200]


def test_what_retention_moved_to_the_end_of_the_log_tells_nothing_new() -> None:
    hops = waits(10, 500), waits(20, 500, SCHEDULE_TOPIC), waits(30, 900, SCHEDULE_TOPIC)
    assert times(*hops) == [500, 900]
    assert times(*hops[1:2]) == []
