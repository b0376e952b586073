"""Scheduled messages that retention cannot append again: they cost themselves, nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from storage_engine.records.record import PROPERTIES_BYTES_MAX, StoreMessage, encode_record
from storage_engine.records.record_parts import parts_of
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from tests.storage_engine.doubles import BORN_MS, OpenStore, message

SEGMENT_BYTES: Final = 128 * 1_024
LIMITS: Final = {
    "segment_bytes": SEGMENT_BYTES,
    "retention_bytes": 2 * SEGMENT_BYTES,
    "frame_bytes_max": SEGMENT_BYTES,
}
DUE_MS: Final = BORN_MS + 3_600_000


def waiting(body: bytes, filled_with: str = "") -> StoreMessage:
    """A message of the schedule, whose properties are full of that one, if any."""
    properties = {"REAL_TOPIC": "t", "REAL_QID": "0", "TIMER_DELIVER_MS": str(DUE_MS)}
    made = message(body, topic=SCHEDULE_TOPIC, properties=properties)
    if not filled_with:
        return made
    properties[filled_with] = ""
    parts = parts_of(encode_record(msgspec.structs.replace(made, properties=properties)))
    bare = len(parts.tail) - parts.properties_at
    properties[filled_with] = "x" * (PROPERTIES_BYTES_MAX - bare)
    return msgspec.structs.replace(made, properties=properties)


async def test_one_without_room_for_what_it_settles_is_lost_alone(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s", limits=LIMITS) as store:
        store.topic()
        store.topic(SCHEDULE_TOPIC)
        for each in (
            waiting(b"before"),
            waiting(b"lost", filled_with="mine"),
            waiting(b"traced", filled_with="RETRY_REASON"),
            waiting(b"after"),
        ):
            # No producer's put takes these; another engine's store may hold them.
            puts = store.store._engine_puts
            puts.append(puts.batch_of([encode_record(each)]), lambda: None)
        for _ in range(200):
            await store.put_bodies(bytes(1_900))
        assert store.store.catalog.get_queues(SCHEDULE_TOPIC)[0].max_offset == 4
        for _ in range(5):
            await store.store.retention.run()
        assert store.store._commit_log.start_offset >= SEGMENT_BYTES
        assert store.store.consumption.schedule.pending_count == 3
        end = store.store.catalog.get_queues("t")[0].max_offset
        await store.pass_time(3_600_001)
        assert store.pull_bodies(queue_offset=end) == [b"before", b"traced", b"after"]
