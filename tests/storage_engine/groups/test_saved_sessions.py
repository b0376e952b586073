"""Sessions that the engine keeps: taken once, given back in time, never more than there is room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.client import AsyncStoreClient
from storage_engine.delivery.notices import Listener
from storage_engine.errors import BadRequest, StoreBusy
from storage_engine.wire.deliveries import LeaseRef
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.offsets import ResetTo
from storage_engine.wire.protocol import Empty
from storage_engine.wire.sessions import (
    SessionAbsentRequest,
    SessionLeases,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
)
from tests.storage_engine.doubles import WAIT_S, Leased, OpenStore
from tests.storage_engine.engines import engine_with_topic
from tests.storage_engine.groups.resetting import filled, reset


class Web:
    """A process that listens."""

    def __init__(self, store: OpenStore) -> None:
        self.heard: list[Notice] = []
        self.taken: list[SessionTakeReply] = []
        self.consumption = store.store.consumption
        self.sessions = self.consumption.saved_sessions
        listener: Listener = self
        self.consumption.notices.listeners[listener] = None

    def on_notice(self, notice: Notice) -> None:
        self.heard.append(notice)

    def keep(
        self,
        leased: Leased | None = None,
        keep_ms: int = 30_000,
        name: str = "s",
        *,
        has_vanished: bool = True,
    ) -> None:
        request = SessionSaveRequest(
            session_id=name,
            keep_ms=keep_ms,
            content=b"state",
            held=held(leased),
            reason="gone",
            has_vanished=has_vanished,
        )
        self.sessions.save(request, self)

    def take(self, wait_ms: int = 2_000, name: str = "s") -> None:
        request = SessionTakeRequest(session_id=name, wait_ms=wait_ms)
        self.sessions.take(request, self, self.taken.append)

    def absent(self, name: str = "s") -> None:
        self.sessions.absent(name, self)

    def content(self) -> list[bytes | None]:
        return [reply.content for reply in self.taken]


def held(leased: Leased | None) -> list[SessionLeases]:
    if leased is None:
        return []
    offsets = [record.queue_offset for record in leased.records]
    [topic] = {record.topic for record in leased.records}
    lease = LeaseRef(
        topic=topic, queue_id=0, lease_generation=leased.generation, queue_offsets=offsets
    )
    return [SessionLeases(group="g", leases=[lease])]


async def test_a_saved_session_is_taken_once_with_its_leases(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 3)
        leased = store.receive(2, lease_ms=60_000)
        a, b, c = Web(store), Web(store), Web(store)

        a.keep(leased)
        b.take()
        c.take()
        for web in (a, b, c):
            web.absent()

        assert (b.content(), b.taken[0].gone, c.content()) == ([b"state"], [], [None])
        await store.pass_time(31_000)
        assert store.ack(leased).acked_count == 2, "its leases did not end with its keeping"


async def test_what_nobody_takes_is_released_in_time_and_not_before(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 2)
        web = Web(store)
        web.keep(store.receive(2, lease_ms=3_600_000), keep_ms=10_000)

        await store.pass_time(9_990)
        assert store.receive().records == []
        await store.pass_time(20)
        again = store.receive()

        assert (again.bodies, again.attempts) == ([b"0", b"1"], [2, 2])
        web.take(wait_ms=0)
        assert (web.content(), len(web.sessions)) == ([None], 0)


async def test_what_a_member_held_that_left_in_order_keeps_its_attempt(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 2)
        web = Web(store)
        for _ in range(3):
            web.keep(store.receive(2, lease_ms=60_000), keep_ms=1_000, has_vanished=False)
            await store.pass_time(1_010)
        again = store.receive()

        assert (again.bodies, again.attempts) == ([b"0", b"1"], [1, 1])


async def test_a_member_that_vanishes_again_and_again_waits_by_the_groups_policy(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        web = Web(store)
        web.keep(store.receive(1, lease_ms=60_000), keep_ms=1_000)
        await store.pass_time(1_010)
        second = store.receive(1, lease_ms=60_000)
        assert second.attempts == [2], "at once the first time"

        web.keep(second, keep_ms=1_000)
        await store.pass_time(1_010)
        assert store.receive(1).records == []
        await store.pass_time(29_000)
        assert store.receive(1).records == [], "RocketMQ's second delay is 30 s"
        await store.pass_time(1_100)

        assert store.receive(1).attempts == [3]


async def test_an_open_session_is_asked_for_and_handed_over(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        leased = store.receive(lease_ms=60_000)
        has_it, wants_it, other = Web(store), Web(store), Web(store)

        wants_it.take()
        assert [each.heard[-1].kind for each in (has_it, other)] == [NoticeKind.WANTED] * 2
        for web in (other, wants_it):
            web.absent()
        assert wants_it.taken == []
        has_it.keep(leased)

        assert (wants_it.content(), len(has_it.sessions)) == ([b"state"], 0)
        await store.pass_time(31_000)
        assert store.ack(leased).acked_count == 1


async def test_two_who_want_an_open_session_do_not_both_get_it(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        has_it, first, second = Web(store), Web(store), Web(store)
        first.take()
        second.take()
        has_it.keep()
        for web in (first, second):
            web.absent()

        assert (first.content(), second.content()) == ([b"state"], [None])


@pytest.mark.parametrize("how", ["all say no", "the last one is gone", "time is over"])
async def test_who_wants_what_nobody_has_does_not_wait_for_ever(tmp_path: Path, how: str) -> None:
    async with OpenStore(tmp_path) as store:
        web, other = Web(store), Web(store)
        web.take(wait_ms=2_000)
        web.absent()
        assert web.taken == []
        if how == "all say no":
            other.absent()
        elif how == "the last one is gone":
            web.sessions.disconnected(other)
        else:
            await store.pass_time(2_000)

        assert web.content() == [None]
        other.keep()
        web.take()
        assert web.content() == [None, b"state"], "it is kept although it came too late for one"


async def test_a_process_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        has_it, gone, later = Web(store), Web(store), Web(store)
        gone.take()
        store.store.consumption.notices.listeners.pop(gone)
        gone.sessions.disconnected(gone)
        has_it.keep()
        later.take()

        assert (gone.taken, later.content()) == ([], [b"state"])


async def test_a_session_taken_back_says_which_leases_are_gone_and_why(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 4)
        web = Web(store)
        leased = store.receive(2, lease_ms=2_000)
        web.keep(leased)
        await store.pass_time(2_500)
        web.take()
        void = store.receive(2, lease_ms=60_000)
        web.keep(void, name="reset")
        reset(store, ResetTo.EARLIEST)
        web.take(name="reset")
        store.store.consumption.deletions.topic_delete("t")
        web.keep(void, name="deleted")
        web.take(name="deleted")

        gone = [(each.lease.queue_offsets, each.why) for reply in web.taken for each in reply.gone]
        assert gone == [([0, 1], "lease_expired"), ([2, 3], "reset"), ([2, 3], "deleted")]
        assert store.ack(void).acked_count == 0


async def test_there_is_room_for_so_many_sessions_and_bytes(tmp_path: Path) -> None:
    limits = {"saved_session_count_max": 2, "saved_session_bytes_max": 600}
    async with OpenStore(tmp_path, limits=limits) as store:
        await filled(store, 9)
        leased = store.receive(9, lease_ms=60_000)
        web = Web(store)
        with pytest.raises(BadRequest, match="keep_ms is 300001"):
            web.keep(keep_ms=300_001)
        with pytest.raises(BadRequest, match="wait_ms is 5001"):
            web.take(wait_ms=5_001)
        web.keep(leased, name="a")
        with pytest.raises(StoreBusy, match="saved sessions take"):
            web.keep(leased, name="b")
        web.keep(name="b")
        with pytest.raises(StoreBusy, match="2 sessions are saved"):
            web.keep(name="c")

        await store.pass_time(30_000)
        web.keep(leased, name="c")
        assert len(web.sessions) == 1


async def test_sessions_of_a_deleted_group_end_without_harm(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        web = Web(store)
        web.keep(store.receive())
        store.store.consumption.deletions.group_delete("g")
        await store.pass_time(30_000)

        assert len(web.sessions) == 0


async def test_a_session_goes_from_one_client_to_another() -> None:
    with engine_with_topic() as engine:
        a, b = (AsyncStoreClient(engine.socket, client_name=name) for name in "ab")
        heard: asyncio.Queue[Notice] = asyncio.Queue()

        def hear_b(notice: Notice) -> None:
            b_says_no.append(asyncio.ensure_future(b.session_absent(absent)))

        b_says_no: list[asyncio.Future[Empty]] = []
        absent = SessionAbsentRequest(session_id="s")
        await a.wait_connected(10_000)
        a.listen(heard.put_nowait)
        b.listen(hear_b)
        await b.wait_connected(10_000)
        try:
            take = SessionTakeRequest(session_id="s", wait_ms=5_000)
            keep = SessionSaveRequest(
                session_id="s", keep_ms=1_000, content=b"x" * 9, held=[], reason=""
            )
            await a.ping()  # what was written before is served
            taking = asyncio.ensure_future(b.session_take(take))
            assert (await asyncio.wait_for(heard.get(), WAIT_S)).session_id == "s"
            await a.session_keep(keep)
            reply = await asyncio.wait_for(taking, WAIT_S)
            again = asyncio.ensure_future(b.session_take(take))
            assert (await asyncio.wait_for(heard.get(), WAIT_S)).kind is NoticeKind.WANTED
            await a.session_absent(absent)

            assert reply.content == b"x" * 9
            assert (await asyncio.wait_for(again, WAIT_S)).content is None
        finally:
            await a.aclose()
            await b.aclose()
