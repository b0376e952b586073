"""What is done to a store while its disk is recorded: each workload is one short story."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from tests.storage_engine.crash.broadcast_workload import broadcasting_clients
from tests.storage_engine.crash.once_puts import keyed_sends
from tests.storage_engine.crash.story import LEASE_MS, Story
from tests.storage_engine.crash.violation import Violation

Workload = Callable[[Story], Awaitable[None]]
DRAWN_STEPS: Final = 30


async def single_sends(story: Story) -> None:
    story.topic(queues=2)
    for index in range(24):
        await story.put(
            150 + 61 * index % 700, queue_id=index % 2, tag="red" if index % 3 else None
        )


async def group_commit_of_fifty(story: Story) -> None:
    story.topic(queues=3)
    for _ in range(2):
        with story.recorder.lock:
            puts = [story.start_put(60 + index, queue_id=index % 3) for index in range(50)]
        await asyncio.gather(*puts)


async def segment_roll(story: Story) -> None:
    story.topic()
    for index in range(14):
        await story.put(2_100 + index * 13)


async def batch_across_a_segment_end(story: Story) -> None:
    story.topic(queues=2)
    for index in range(9):
        await story.put(500, 900 + index, 700, queue_id=index % 2)


async def messages_larger_than_a_page(story: Story) -> None:
    story.topic()
    for size in (5_000, 100, 6_500, 4_096, 7_600, 50, 4_200):
        await story.put(size)


async def frame_larger_than_a_segment(story: Story) -> None:
    story.topic(queues=2)
    for index in range(3):
        await story.put(3_000, 3_001, 3_002, 200 + index, queue_id=index % 2)


async def async_and_sync_mixed(story: Story) -> None:
    story.topic("t")
    story.topic("a", queues=2, is_sync=False)
    for index in range(8):
        await story.put(300, 310, topic="a", queue_id=index % 2)
        if index % 3 == 1:
            await story.put(400)
        await story.put(90, topic="a", queue_id=0)
        if index % 4 == 3:
            await story.flush()


async def consume_and_ack(story: Story) -> None:
    story.topic(queues=2)
    story.group()
    for round_index in range(5):
        for queue_id in range(2):
            await story.put(120, 130, 140, queue_id=queue_id)
        generation, records = story.receive(5)
        story.ack(generation, records[1:])
        if round_index % 2:
            story.sync_offsets()
        story.clock.advance(LEASE_MS + 1)
        story.store.store.tick()
        generation, records = story.receive(2)
        story.ack(generation, records)
    story.sync_offsets()


async def failures_of_every_kind(story: Story) -> None:
    story.topic(queues=2)
    story.group(max_reconsume_times=2)
    for round_index in range(4):
        for queue_id in range(2):
            await story.put(120, 130, queue_id=queue_id)
        generation, records = story.receive(9)
        story.ack(generation, records[:1])
        story.nack(generation, records[1:2], delay_ms=0)
        story.nack(generation, records[2:3], delay_ms=1_500)
        story.nack(generation, records[3:4], is_dead=True)
        if round_index == 2:
            await story.checkpoint()
        await story.pass_time(LEASE_MS + 1)  # and the other leases end
        if round_index % 2:
            story.sync_offsets()
    generation, records = story.receive(9)
    story.ack(generation, records)
    story.sync_offsets()


async def checkpoints(story: Story) -> None:
    story.topic(queues=2)
    story.group()
    for index in range(12):
        await story.put(700, queue_id=index % 2)
        await story.put(333, 90, queue_id=(index + 1) % 2)
        generation, records = story.receive(1)
        story.ack(generation, records)
        if index % 3 == 1:
            await story.checkpoint()


async def many_queues(story: Story) -> None:
    story.topic("t", queues=4)
    story.topic("u", queues=3)
    for index in range(21):
        await story.put(210 + index, topic="tu"[index % 2], queue_id=index % 3)
        if index == 12:
            await story.checkpoint()


async def topics_made_while_sending(story: Story) -> None:
    for number in range(5):
        name = f"t{number}"
        story.topic(name, queues=1 + number % 2, is_sync=number != 3)
        story.group(f"g{number}")
        await story.put(200, 201, topic=name)
        await story.put(220, topic="t0")
    await story.flush()


async def restarts_in_the_middle(story: Story) -> None:
    story.topic(queues=2)
    story.group()
    for index in range(3):
        for size in (300, 900, 1_500):
            await story.put(size + index, queue_id=index % 2)
        generation, records = story.receive(2)
        story.ack(generation, records)
        if index == 1:
            story.crash()
        else:
            await story.restart()


async def crashes_one_after_the_other(story: Story) -> None:
    story.topic()
    story.topic("a", is_sync=False)
    for index in range(4):
        await story.put(500 + index)
        await story.put(600, topic="a")
        story.crash()
    await story.put(50)


async def async_with_checkpoints(story: Story) -> None:
    story.topic("a", queues=2, is_sync=False)
    for index in range(9):
        await story.put(800, 410, topic="a", queue_id=index % 2)
        if index % 2:
            await story.checkpoint()
        await story.put(333, topic="a", queue_id=index % 2)


async def a_disk_that_was_full(story: Story) -> None:
    story.topic(queues=2)
    story.group()
    await story.put(2_000, 2_001)
    for index in range(4):
        story.recorder.is_full = True
        for size in (3_000, 3_001, 100):
            await story.put(size, queue_id=index % 2)
        story.recorder.is_full = False
        answered_count = story.answered_count
        await story.put(2_500)
        if story.answered_count == answered_count:
            raise Violation("unusable", "there is room again and puts are still refused")
        generation, records = story.receive(2)
        story.ack(generation, records)
    await story.checkpoint()


async def a_sync_that_failed(story: Story) -> None:
    story.topic(queues=2)
    for size in (700, 800, 900):
        await story.put(size)
    story.recorder.failures["msync"] = 1
    with story.recorder.lock:
        puts = [story.start_put(400 + index, queue_id=1) for index in range(3)]
    await asyncio.gather(*puts)
    for size in (500, 501, 502):
        await story.put(size)
    story.crash()
    await story.put(1_200)


async def a_sync_and_its_repair_that_failed(story: Story) -> None:
    """msync fails, then the new file as well; the process is killed and another one starts."""
    story.topic(queues=2)
    for size in (700, 800):
        await story.put(size)
    await story.put(100, queue_id=1)
    story.recorder.failures.update({"msync": 1, "fsync": 1})
    with story.recorder.lock:
        puts = [story.start_put(400 + index, queue_id=1) for index in range(3)]
    await asyncio.gather(*puts)
    story.crash()
    for size in (1_200, 4_500, 300):
        await story.put(size)


async def retention_by_age(story: Story) -> None:
    story.topic(queues=2)
    story.topic("idle")
    story.group()
    await story.put(300, 301, topic="idle")
    for index in range(9):
        await story.put(1_500 + index, 800, queue_id=index % 2)
        story.clock.advance(story.store.store.config.retention_ms // 4)
        if index % 3 == 1:
            await story.checkpoint()
        if index > 3:
            await story.retain()
            generation, records = story.receive(1)
            story.ack(generation, records)


async def retention_by_size(story: Story) -> None:
    story.topic(queues=2)
    story.topic("a", is_sync=False)
    story.group()
    for index in range(24):
        await story.put(3_000 + index, queue_id=index // 7 % 2)
        await story.put(150, topic="a")
        if index % 8 == 6:
            await story.checkpoint()
        if index % 8 in (1, 7):
            await story.retain()
        if index == 15:
            story.crash()


async def scheduled_messages_roll_forward(story: Story) -> None:
    story.topic()
    story.topic(SCHEDULE_TOPIC)
    await story.put(2_500, 2_501, topic=SCHEDULE_TOPIC)
    await story.put(2_502, 200, topic=SCHEDULE_TOPIC)
    for index in range(20):
        await story.put(3_000 + index)
        if index % 5 == 4:
            await story.retain()
        if index == 12:
            await story.checkpoint()


async def retention_and_deleted_queues(story: Story) -> None:
    story.topic(queues=2)
    story.topic("short")
    await story.put(500, 501, topic="short")
    for index in range(16):
        await story.put(3_000 + index, queue_id=index % 2)
        if index in (13, 15):
            await story.retain()
    await story.restart_without("consumequeue")
    await story.put(700, topic="short")
    await story.restart_without("index")
    await story.put(701, queue_id=1)


async def index_files_that_roll_and_go(story: Story) -> None:
    story.topic(queues=2)
    for index in range(13):
        await story.put(*[400 + index] * 6, queue_id=index % 2)
        story.store.store.tick()
        if index % 4 == 1:
            await story.checkpoint()
        if index % 4 == 3:
            await story.retain()


async def a_damaged_record(story: Story) -> None:
    story.topic(queues=2)
    story.group()
    for index in range(6):
        await story.put(1_200 + index, 300, queue_id=index % 2)
    await story.damage(2)
    story.read(2)
    await story.put(1_300, queue_id=1)
    generation, records = story.receive(4)
    story.ack(generation, records)
    await story.checkpoint()
    await story.damage(4, queue_id=1)
    await story.put(1_301)
    story.read(4, queue_id=1)
    story.crash()
    await story.put(1_302)


async def anything_in_any_order(story: Story) -> None:
    """Each seed is another story of sends, settles, checkpoints, failures and crashes."""
    draw = random.Random(story.seed)
    story.topic(queues=2)
    story.topic("a", is_sync=False)
    story.group()
    for _ in range(DRAWN_STEPS):
        topic, queue_id = draw.choice((("t", 0), ("t", 1), ("a", 0)))
        sizes = [draw.choice((40, 300, 900, 2_100, 5_000)) for _ in range(draw.randint(1, 3))]
        step = draw.choice((*["put"] * 6, "settle", "settle", "flush", "checkpoint", "full",
                            "failed sync", "failed repair", "crash", "restart"))  # fmt: skip
        if step == "put":
            await story.put(*sizes, topic=topic, queue_id=queue_id)
        elif step == "settle":
            generation, records = story.receive(draw.randint(1, 4), topic=topic)
            story.ack(generation, draw.sample(records, draw.randint(0, len(records))))
            if draw.random() < 0.5:
                story.sync_offsets()
            if draw.random() < 0.5:
                story.clock.advance(LEASE_MS + 1)
                story.store.store.tick()
        elif step == "flush":
            await story.flush()
        elif step == "checkpoint":
            await story.checkpoint()
        elif step == "full":
            story.recorder.is_full = True
            await story.put(*sizes, topic=topic, queue_id=queue_id)
            story.recorder.is_full = False
        elif step.startswith("failed"):
            story.recorder.failures["msync"] = 1
            story.recorder.failures["fsync"] = int(step == "failed repair")
            await story.put(*sizes, queue_id=queue_id)
            story.recorder.failures.clear()
            if step == "failed repair":
                story.crash()
        elif step == "crash":
            story.crash()
        else:
            await story.restart()


WORKLOADS: Final[dict[str, Workload]] = {
    work.__name__: work
    for work in (
        single_sends,
        group_commit_of_fifty,
        segment_roll,
        batch_across_a_segment_end,
        messages_larger_than_a_page,
        frame_larger_than_a_segment,
        async_and_sync_mixed,
        consume_and_ack,
        failures_of_every_kind,
        broadcasting_clients,
        keyed_sends,
        checkpoints,
        many_queues,
        topics_made_while_sending,
        restarts_in_the_middle,
        crashes_one_after_the_other,
        async_with_checkpoints,
        a_disk_that_was_full,
        a_sync_that_failed,
        a_sync_and_its_repair_that_failed,
        retention_by_age,
        retention_by_size,
        scheduled_messages_roll_forward,
        retention_and_deleted_queues,
        index_files_that_roll_and_go,
        a_damaged_record,
        anything_in_any_order,
    )
}
