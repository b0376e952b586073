"""What is done to a store with a broadcast group while its disk is recorded."""

from __future__ import annotations

from tests.storage_engine.crash.story import Story


async def broadcasting_clients(story: Story) -> None:
    """Two of them settle; a third one is there once, and is forgotten on the way."""
    story.topic(queues=2)
    story.broadcast_group("g", "a@1", "b")
    await story.put(110, 111)
    story.receive(1, group="g@gone")
    for round_index in range(5):
        for queue_id in range(2):
            await story.put(120, 130, queue_id=queue_id)
        for reader in ("g@a@1", "g@b"):
            generation, records = story.receive(3, group=reader)
            story.ack(generation, records[1:], reader)
            story.drop(generation, records[:1], reader)
        if round_index % 2:
            story.sync_offsets()
        if round_index == 1:
            await story.checkpoint()
        if round_index == 2:
            story.topic(queues=3)
            await story.put(150, queue_id=2)
        story.clock.advance(3 * 24 * 3_600_000)
        story.store.store.tick()
    generation, records = story.receive(9, group="g@b")
    story.ack(generation, records, "g@b")
    story.sync_offsets()
