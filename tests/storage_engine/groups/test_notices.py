"""What the engine tells unasked: resets, revoked queues, deletions, groups that pause."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.client import AsyncStoreClient
from storage_engine.delivery.members import SILENCE_MS_MAX
from storage_engine.errors import GroupNotFound, TopicNotFound
from storage_engine.wire.deliveries import SubscribeRequest
from storage_engine.wire.frames import FrameDecoder, encode_frame, encode_struct
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.offsets import ResetTo
from storage_engine.wire.operations import Op
from storage_engine.wire.protocol import HelloRequest
from tests.storage_engine.delivery.exclusive_member import Member
from tests.storage_engine.doubles import WAIT_S, OpenStore
from tests.storage_engine.engines import engine_with_topic
from tests.storage_engine.groups.resetting import filled, reset

QUEUES = 4


class Ear:
    """Hears all notices of a store."""

    def __init__(self, store: OpenStore) -> None:
        self.heard: list[Notice] = []
        store.store.consumption.notices.listeners[self] = None

    def on_notice(self, notice: Notice) -> None:
        self.heard.append(notice)

    def take(self) -> list[Notice]:
        heard, self.heard = self.heard, []
        return heard


async def exclusive(store: OpenStore, *, count: int = 2, is_ordered: bool = False) -> Ear:
    await filled(store, count, queues=QUEUES)
    config = GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE, is_ordered=is_ordered)
    store.store.catalog.group_put(config)
    return Ear(store)


async def test_a_reset_is_reported_with_a_floor_between_old_and_new_leases(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 3, queues=2)
        ear = Ear(store)
        before = store.receive(1)
        reset(store, ResetTo.EARLIEST, 0, 1, is_dry_run=True)
        assert ear.take() == []
        reset(store, ResetTo.EARLIEST, 0, 1)
        (notice,) = ear.take()
        after = store.receive(1)

        assert (notice.kind, notice.group, notice.topic) == (NoticeKind.RESET, "g", "t")
        assert notice.queue_ids == (1,)
        assert before.generation < notice.lease_floor < after.generation


async def test_a_member_is_told_which_queues_it_lost_if_it_holds_messages(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        ear = await exclusive(store)
        first, second = Member(store, "a"), Member(store, "b")
        first.poll(8, lease_ms=60_000)
        assert ear.take() == []
        second.poll()
        (notice,) = ear.take()

        assert (notice.kind, notice.member_id) == (NoticeKind.REVOKED, "a")
        assert notice.queue_ids == (2, 3)
        assert notice.assignment == 2
        assert notice.lease_floor > max(answer.lease_generation for answer in first.got)


async def test_a_member_that_leaves_on_its_own_is_told_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        ear = await exclusive(store)
        first, second = Member(store, "a"), Member(store, "b")
        first.poll(lease_ms=60_000)
        first.leave()
        second.poll()

        assert ear.take() == []


async def test_a_member_that_was_silent_for_too_long_is_notified(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        ear = await exclusive(store)
        Member(store, "a").poll(lease_ms=10 * SILENCE_MS_MAX)
        await store.pass_time(SILENCE_MS_MAX)
        Member(store, "b").poll()

        assert [(each.kind, each.member_id) for each in ear.take()] == [(NoticeKind.REVOKED, "a")]


async def test_a_member_that_announces_itself_again_is_not_silent(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        ear = await exclusive(store)
        request = SubscribeRequest(group="g", topic="t", member_id="a")
        Member(store, "a").poll(lease_ms=10 * SILENCE_MS_MAX)
        for _ in range(3):
            await store.pass_time(SILENCE_MS_MAX - 1)
            store.store.consumption.subscribe(request)
        stranger = SubscribeRequest(group="g", topic="t", member_id="b")
        store.store.consumption.subscribe(stranger)

        assert ear.take() == [], "and who only announces itself is no member yet"


async def test_an_ordered_queue_that_was_revoked_waits_for_what_is_held(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        ear = await exclusive(store, is_ordered=True)
        first, second = Member(store, "a"), Member(store, "b")
        first.poll(8, lease_ms=5_000)
        second.poll()
        assert [notice.queue_ids for notice in ear.take()] == [(2, 3)]
        second.poll()
        assert second.bodies() == []
        await store.pass_time(5_000)
        second.poll()

        attempts = [attempt for got in second.got for attempt in got.attempts]
        assert (second.bodies(), attempts) == ([b"0", b"1", b"0", b"1"], [1, 1, 1, 1])


async def test_what_is_left_in_a_queue_that_was_handed_over_keeps_its_attempt(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await exclusive(store)
        first, second = Member(store, "a"), Member(store, "b")
        first.poll(8, lease_ms=5_000)
        second.poll()
        await store.pass_time(5_000)
        second.poll()

        given = [attempt for got in second.got for attempt in got.attempts]
        assert given == [1] * 4 + [2] * 4, "its own queues' by hand-over, the others as retries"


async def test_deletions_are_told_for_each_subscription(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        store.group("h")
        ear = Ear(store)
        leased = store.receive(lease_ms=60_000)
        store.receive(group="h")
        store.store.consumption.deletions.group_delete("h")
        store.store.consumption.deletions.topic_delete("t")
        notices = ear.take()

        assert [(each.kind, each.group, each.topic, each.code) for each in notices] == [
            (NoticeKind.DELETED, "h", "t", GroupNotFound.code),
            (NoticeKind.DELETED, "g", "t", TopicNotFound.code),
        ]
        assert notices[1].lease_floor > leased.generation


async def test_a_pause_of_a_group_is_reported_once(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        ear = Ear(store)
        subscribe = SubscribeRequest(group="g", topic="t", member_id="m")
        assert not store.store.consumption.subscribe(subscribe).is_paused
        for is_paused in (True, True, False):
            store.store.catalog.group_put(GroupConfig(group="g", is_paused=is_paused))
            assert store.store.consumption.subscribe(subscribe).is_paused == is_paused

        kinds = [each.kind for each in ear.take()]
        assert kinds == [NoticeKind.PAUSED, NoticeKind.UNPAUSED]


async def test_only_who_listens_hears_and_after_a_restart_still() -> None:
    with engine_with_topic() as engine:
        heard: asyncio.Queue[Notice] = asyncio.Queue()
        listener = AsyncStoreClient(engine.socket, client_name="listener")
        listener.listen(heard.put_nowait)
        deaf = AsyncStoreClient(engine.socket, client_name="deaf")
        try:
            for _ in range(2):
                await listener.wait_connected(10_000)
                await deaf.wait_connected(10_000)
                request = SubscribeRequest(group="g", topic="t", member_id="m")
                await deaf.group_put(GroupConfig(group="g"))
                await deaf.subscribe(request)
                await deaf.group_put(GroupConfig(group="g", is_paused=True))
                assert (await asyncio.wait_for(heard.get(), WAIT_S)).kind is NoticeKind.PAUSED
                await deaf.group_put(GroupConfig(group="g"))
                assert (await asyncio.wait_for(heard.get(), WAIT_S)).kind is NoticeKind.UNPAUSED
                engine.kill()
                while listener.is_connected or deaf.is_connected:
                    await asyncio.sleep(0.01)
                engine.start()
        finally:
            await listener.aclose()
            await deaf.aclose()
        assert heard.empty()


@pytest.mark.torture
async def test_a_listener_that_does_not_read_is_dropped() -> None:
    # Each pause and resume is one notice, which has the group's name; the kernel takes a few
    # hundred KiB.
    group = "g" * 200
    with (
        engine_with_topic(
            MQ_ENGINE_NOTICE_COUNT_MAX="10", MQ_ENGINE_REPLY_BUFFER_BYTES_MAX="4096"
        ) as engine,
        engine.client() as admin,
    ):
        admin.group_put(GroupConfig(group=group))
        reader, writer = await asyncio.open_unix_connection(engine.socket, limit=64)
        hello = encode_struct(HelloRequest(client="lazy", is_listening=True))
        writer.write(encode_frame(Op.HELLO, 1, hello))
        subscribe = SubscribeRequest(group=group, topic="t", member_id="m")
        writer.write(encode_frame(Op.SUBSCRIBE, 2, encode_struct(subscribe)))
        await reader.readexactly(1)
        before = admin.stats().connection_count
        for number in range(20_000):
            admin.group_put(GroupConfig(group=group, is_paused=bool(number % 2)))
            if number % 20 == 0 and admin.stats().connection_count < before:
                break
        after = admin.stats().connection_count
        writer.close()

    assert after == before - 1
    del reader


async def test_clients_send_no_notices() -> None:
    with engine_with_topic() as engine:
        reader, writer = await asyncio.open_unix_connection(engine.socket)
        writer.write(encode_frame(Op.NOTICE, 1, encode_struct(Notice(kind=NoticeKind.PAUSED))))
        frames = FrameDecoder(1 << 20).feed(await reader.read(4096))
        writer.close()

    assert [(frame.op, frame.status) for frame in frames] == [(Op.NOTICE, 4)]


async def test_whoever_waits_beside_a_full_queue_is_told_each_second(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"inflight_count_max": 2}) as store:
        await filled(store, 3)
        ear = Ear(store)
        leased = store.receive(2, lease_ms=60_000)
        await store.pass_time(1_000)
        assert ear.take() == [], "nobody waits"

        answers, _ = store.park()
        for _ in range(2):
            await store.pass_time(1_000)
            (notice,) = ear.take()
            assert (notice.kind, notice.group, notice.topic) == (NoticeKind.HELD_UP, "g", "t")
            assert notice.member_id == ""

        store.ack(leased, *[record.queue_offset for record in leased.records])
        assert [each.bodies for each in answers] == [[b"2"]]
        store.park()
        await store.pass_time(1_000)
        assert ear.take() == [], "there is nothing to wait for"


async def test_in_an_exclusive_group_those_are_told_whose_queues_are_full(tmp_path: Path) -> None:
    async with OpenStore(tmp_path, limits={"inflight_span_max": 1}) as store:
        ear = await exclusive(store, count=1)
        await store.put_bodies(b"more", queue_id=0)
        first, second = Member(store, "a"), Member(store, "b")
        for member in (first, second, *[first, second] * 2):
            member.poll(1, lease_ms=60_000)
        for member in (first, second):
            assert member.poll(wait_ms=10_000) is not None
        await store.pass_time(1_000)
        assert [(each.kind, each.member_id) for each in ear.take()] == [(NoticeKind.HELD_UP, "a")]
