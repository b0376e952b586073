"""The feed of changed consumer offsets, and what observers are told of the engine's health."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.groups.offset_feed import ROWS_MAX, OffsetFeed
from storage_engine.server.store_calls import observe
from storage_engine.wire.deliveries import LeaveRequest, SubscribeRequest
from storage_engine.wire.observers import OffsetsChangedReply, OffsetsChangedRequest
from storage_engine.wire.offsets import OffsetCommitRequest, OffsetResetRequest, ResetTo
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.engines import engine_with_topic
from tests.storage_engine.retention.deleting import begun, delete_topic, killed

MESSAGES = 20
QUEUES = 6


def feed_of(store: OpenStore) -> OffsetFeed:
    return OffsetFeed(store.store.consumption.delivery)


def commit(store: OpenStore, queue_id: int, offset: int) -> None:
    store.store.consumption.offset_commit(
        OffsetCommitRequest(group="g", topic="t", queue_id=queue_id, offset=offset)
    )


def reset(store: OpenStore, to: ResetTo) -> None:
    store.store.consumption.offset_reset(OffsetResetRequest(group="g", topic="t", to=to))


async def filled(path: Path) -> OpenStore:
    store = await begun(path, queues=QUEUES)
    for queue_id in range(QUEUES):
        await store.put_bodies(*[b"x"] * MESSAGES, queue_id=queue_id)
    return store


def ask(
    feed: OffsetFeed, before: OffsetsChangedReply | None = None, rows_max: int = 100
) -> OffsetsChangedReply:
    return feed.changed(
        OffsetsChangedRequest(
            epoch=0 if before is None else before.epoch,
            since=0 if before is None else before.next,
            rows_max=rows_max,
        )
    )


def shown(reply: OffsetsChangedReply) -> dict[int, int]:
    assert {(row.group, row.topic) for row in reply.rows} <= {("g", "t")}
    return {row.queue_id: row.consumer_offset for row in reply.rows}


async def test_only_what_changed_since_is_reported(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    assert ask(feed).rows == []
    commit(store, 2, 5)  # the group begins, on all queues
    first = ask(feed)
    assert shown(first) == {0: 0, 1: 0, 2: 5, 3: 0, 4: 0, 5: 0}
    assert ask(feed, first).rows == []
    commit(store, 4, 7)
    commit(store, 1, 1)
    second = ask(feed, first)
    assert shown(second) == {4: 7, 1: 1}
    # A reader that could not keep the page gets it again, and all of what changed meanwhile.
    commit(store, 4, 8)
    assert shown(ask(feed, first)) == {4: 8, 1: 1}
    assert shown(ask(feed, second)) == {4: 8}
    assert shown(ask(feed, first)) == {4: 8, 1: 1}
    await store.close()


async def test_pages_give_each_change_once_in_their_order(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    commit(store, 3, 3)
    pages = [ask(feed, rows_max=4)]
    commit(store, 0, 9)  # while the reader is between two pages
    while not pages[-1].is_complete:
        pages.append(ask(feed, pages[-1], rows_max=4))
    rows = [row.queue_id for page in pages for row in page.rows]
    assert rows == [0, 1, 2, 3, 4, 5, 0]
    assert [len(page.rows) for page in pages] == [4, 3]
    assert shown(pages[-1]) == {4: 0, 5: 0, 0: 9}
    assert ask(feed, pages[-1]).rows == []
    await store.close()


async def test_a_reset_is_a_change_though_it_leads_to_where_the_group_was(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    commit(store, 0, 3)
    before = ask(feed)
    reset(store, ResetTo.EARLIEST)
    commit(store, 0, 3)
    after = ask(feed, before)
    assert shown(after)[0] == 3
    assert {row.reset_count for row in after.rows} == {1}
    await store.close()


async def test_after_a_start_all_there_is_is_reported_again(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    commit(store, 0, 3)
    before = ask(feed_of(store))
    store = killed(store)
    after = ask(feed_of(store), before)
    assert after.epoch != before.epoch
    assert shown(after)[0] == 3
    assert len(after.rows) == QUEUES
    await store.close()


async def test_what_was_deleted_is_no_longer_reported_and_costs_no_memory(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    commit(store, 0, 3)
    before = ask(feed)
    delete_topic(store)
    assert ask(feed, before).rows == []
    assert ask(feed).rows == []
    assert feed._recorded == {}
    await store.close()


async def test_a_page_compares_no_more_than_it_needs_and_the_last_one_all(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    await store.put_bodies(b"x")
    groups = [f"g{number}" for number in range(5)]
    for group in groups:
        store.group(group)
        store.store.consumption.offset_commit(
            OffsetCommitRequest(group=group, topic="t", queue_id=0, offset=1)
        )
    feed = feed_of(store)
    pages = [ask(feed, rows_max=2)]
    assert len(feed._recorded) == 2
    while not pages[-1].is_complete:
        pages.append(ask(feed, pages[-1], rows_max=2))
    told = [row.group for page in pages for row in page.rows]
    assert sorted(told) == groups
    await store.close()


@pytest.mark.parametrize("rows_max", [0, -1, ROWS_MAX + 1])
async def test_a_page_of_no_size_is_refused(tmp_path: Path, rows_max: int) -> None:
    store = await begun(tmp_path / "s")
    with pytest.raises(BadRequest, match="rows_max"):
        ask(feed_of(store), rows_max=rows_max)
    await store.close()


async def test_a_number_that_nobody_was_told_gets_all(tmp_path: Path) -> None:
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    commit(store, 0, 3)
    told = ask(feed)
    for since in (told.next + 1, -1):
        request = OffsetsChangedRequest(epoch=told.epoch, since=since)
        assert len(feed.changed(request).rows) == QUEUES
    await store.close()


@pytest.mark.parametrize("seed", range(20))
async def test_two_readers_of_any_pace_end_with_the_truth(tmp_path: Path, seed: int) -> None:
    """Each keeps a copy, loses some pages before it could keep them, and never goes wrong."""
    chance = random.Random(seed)
    store = await filled(tmp_path / "s")
    feed = feed_of(store)
    copies: list[dict[int, int]] = [{}, {}]
    kept: list[OffsetsChangedReply | None] = [None, None]
    truth = dict.fromkeys(range(QUEUES), 0)

    def read(reader: int, *, is_lost: bool) -> bool:
        reply = ask(feed, kept[reader], rows_max=chance.randint(1, QUEUES))
        if not is_lost:
            copies[reader].update(shown(reply))
            kept[reader] = reply
        return reply.is_complete and not reply.rows

    for _ in range(100):
        if chance.random() < 0.5:
            queue_id = chance.randrange(QUEUES)
            truth[queue_id] = min(MESSAGES, truth[queue_id] + chance.randint(0, 3))
            commit(store, queue_id, truth[queue_id])
        else:
            read(chance.randrange(2), is_lost=chance.random() < 0.3)
    for reader in range(2):
        while not read(reader, is_lost=False):
            pass
        assert copies[reader] == truth
    await store.close()


async def test_members_are_counted_once_while_they_are_there(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", queues=1)
    store.topic("u")

    def seen() -> dict[str, int]:
        real = store.store
        return observe(real).member_counts

    assert seen() == {}
    store.receive(member_id="a")
    store.store.consumption.subscribe(SubscribeRequest(group="g", topic="u", member_id="a"))
    store.receive(member_id="b")
    assert seen() == {"g": 2}
    gone = LeaveRequest(group="g", topic="t", member_id="b")
    store.store.consumption.delivery.leave(gone.group, gone.topic, gone.member_id)
    assert seen() == {"g": 1}
    await store.pass_time(120_000)
    assert seen() == {}
    await store.close()


def test_observers_are_answered_over_the_socket() -> None:
    with engine_with_topic() as engine, engine.client() as client:
        fares = client.observe()
        assert fares.is_writable
        assert fares.disk_state in ("fine", "clean", "force")
        assert 0 < fares.disk_free_bytes <= fares.disk_total_bytes
        assert (fares.broker, fares.lost_message_count, fares.member_counts) == ("broker-0", 0, {})
        assert client.offsets_changed(OffsetsChangedRequest()).rows == []
        with pytest.raises(BadRequest):
            client.offsets_changed(OffsetsChangedRequest(rows_max=0))
