"""Clients of broadcast groups with attempt ids, leases that last, notices and kept sessions."""

from __future__ import annotations

from pathlib import Path

from storage_engine.config import HOUR_MS, SECOND_MS
from storage_engine.groups.group_members import members_of
from storage_engine.groups.offset_feed import OffsetFeed
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import find_dead_letter
from storage_engine.server.store_calls import observe, store_calls
from storage_engine.wire.deliveries import LeaseRef, SettleRequest
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.observers import OffsetsChangedRequest
from storage_engine.wire.offsets import OffsetResetRequest, ResetTo
from storage_engine.wire.operations import Op
from storage_engine.wire.reads import PullRequest
from storage_engine.wire.sessions import (
    LostLease,
    SessionLeases,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
)
from storage_engine.wire.topics import TopicConfig
from storage_engine.wire.traces import TraceReply, TraceRequest, TraceState
from tests.storage_engine.delivery.requests import Asked
from tests.storage_engine.delivery.requests import filled as filled_shared
from tests.storage_engine.doubles import OpenStore, message
from tests.storage_engine.groups.listeners import Listener, broadcast, clients, filled


class Ear:
    """A connection that listens."""

    def __init__(self, store: OpenStore) -> None:
        self.heard: list[Notice] = []
        store.store.consumption.notices.listeners[self] = None

    def on_notice(self, notice: Notice) -> None:
        self.heard.append(notice)

    @property
    def whom(self) -> list[tuple[NoticeKind, str, str]]:
        return sorted((each.kind, each.group, each.client_id) for each in self.heard)


async def test_two_clients_may_use_the_same_attempt_id_and_member(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 3)
        one = Asked(store, 2, attempt_id="x", client_id="a")
        two = Asked(store, 3, attempt_id="x", client_id="b")
        assert (one.bodies, two.bodies) == ([b"0", b"1"], [b"0", b"1", b"2"])
        assert one.settle(up_to=b"0").acked_count == 1
        again = Asked(store, 2, attempt_id="x", client_id="a")
        assert again.bodies == [b"1"]
        assert again.answer.lease_generation == one.answer.lease_generation
        again = Asked(store, 3, attempt_id="x", client_id="b")
        assert again.bodies == two.bodies
        assert again.answer.lease_generation == two.answer.lease_generation


async def test_a_waiting_receive_of_one_client_does_not_give_way_to_another(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 0)
        one = Asked(store, 1, attempt_id="x", client_id="a", wait_ms=5_000)
        two = Asked(store, 1, attempt_id="x", client_id="b", wait_ms=5_000)
        assert one.answers == two.answers == []
        await store.put_bodies(b"0")
        assert one.bodies == two.bodies == [b"0"]


async def test_leases_of_one_client_do_not_last_because_another_is_heard_of(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        for name in "ab":
            Asked(store, auto_extend_ms=60_000, client_id=name)
        for _ in range(3):
            await store.pass_time(900)
            store.store.consumption.settle(SettleRequest(group="g", member_id="m", client_id="b"))
        one, two = clients(store)
        assert (one.inflight_count, one.dropped_count) == (0, 1)
        assert (two.inflight_count, two.dropped_count) == (1, 0)


async def test_leases_that_last_end_at_the_consume_timeout(tmp_path: Path) -> None:
    async with filled_shared(OpenStore(tmp_path), 1) as store:
        store.store.catalog.group_put(
            GroupConfig(group="g", consume_timeout_ms=10 * SECOND_MS, max_reconsume_times=0)
        )
        asked = Asked(store, auto_extend_ms=HOUR_MS)
        for _ in range(11):
            await store.pass_time(900)
            asked.settle(member_id="m")
        assert store.store.consumption.delivery.subscriptions.inflight_count == 1
        await store.pass_time(100)
        await store.settled()
        request = PullRequest(
            topic="%DLQ%g", queue_id=0, queue_offset=0, messages_max=9, bytes_max=1 << 20
        )
        [record] = decode_records(store.store.read_records(store.store.pull(request)[1]))
        letter = find_dead_letter(record)
        assert letter is not None
        assert letter.reason == "consume timeout"


async def test_a_receive_that_is_repeated_does_not_outlast_the_consume_timeout(
    tmp_path: Path,
) -> None:
    async with filled_shared(OpenStore(tmp_path), 1) as store:
        store.store.catalog.group_put(GroupConfig(group="g", consume_timeout_ms=30 * SECOND_MS))
        Asked(store, attempt_id="x", lease_ms=20 * SECOND_MS)
        began_ms = store.clock.now_ms()
        await store.pass_time(19 * SECOND_MS)
        again = Asked(store, attempt_id="x", lease_ms=20 * SECOND_MS)
        assert again.answer.lease_until_ms == began_ms + 30 * SECOND_MS
        await store.pass_time(10 * SECOND_MS)
        assert Asked(store, attempt_id="x", lease_ms=20 * SECOND_MS).bodies == [b"0"]
        assert Asked(store, member_id="other").bodies == []
        await store.pass_time(1 * SECOND_MS)
        later = Asked(store, member_id="other")
        assert (later.bodies, later.answer.attempts) == ([b"0"], [2])


async def test_notices_name_the_client_and_never_its_reader(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 2)
        for name in ("a@1", "b"):
            Listener(store, name).receive(1)
        ear = Ear(store)
        reset = OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST, client_id="a@1")
        store.store.consumption.offset_reset(reset)
        assert ear.whom == [(NoticeKind.RESET, "g", "a@1")]
        ear.heard.clear()
        store.store.consumption.offset_reset(
            OffsetResetRequest(group="g", topic="t", to=ResetTo.EARLIEST)
        )
        assert ear.whom == [(NoticeKind.RESET, "g", "a@1"), (NoticeKind.RESET, "g", "b")]
        ear.heard.clear()
        broadcast_paused = store.store.catalog.groups["g"]
        store.store.catalog.group_put(
            GroupConfig(
                group="g", dispatch=broadcast_paused.dispatch, is_paused=True,
                start_from=broadcast_paused.start_from,
            )
        )  # fmt: skip
        assert ear.whom == [(NoticeKind.PAUSED, "g", "")]
        ear.heard.clear()
        store.store.consumption.deletions.topic_delete("t")
        assert ear.whom == [(NoticeKind.DELETED, "g", "a@1"), (NoticeKind.DELETED, "g", "b")]


async def test_a_saved_session_of_a_client_says_what_is_gone_and_drops_nothing(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 2)
        ear = Ear(store)
        listener = Listener(store, "a")
        leased = listener.receive(lease_ms=60_000)
        Listener(store, "b").receive(lease_ms=60_000)
        lease = LeaseRef(
            topic="t", queue_id=0, lease_generation=leased.generation, queue_offsets=[0, 1]
        )
        keep = SessionSaveRequest(
            session_id="s", keep_ms=5_000, content=b"x", reason="nobody came",
            held=[SessionLeases(group="g", leases=[lease], client_id="a")],
        )  # fmt: skip
        kept = store.store.consumption.saved_sessions
        kept.save(keep, ear)
        listener.ack(leased, b"1")
        replies: list[SessionTakeReply] = []
        take = SessionTakeRequest(session_id="s", wait_ms=0)
        kept.take(take, ear, replies.append)
        ended = LeaseRef(
            topic="t", queue_id=0, lease_generation=leased.generation, queue_offsets=[1]
        )
        gone = LostLease(group="g", lease=ended, why="lease_expired", client_id="a")
        assert replies == [SessionTakeReply(content=b"x", gone=[gone])]
        kept.save(keep, ear)
        await store.pass_time(5_000)
        await store.pass_time(1)
        assert (listener.stats.inflight_count, listener.stats.dropped_count) == (0, 0)
        again = listener.receive()
        assert (again.bodies, again.attempts) == ([b"0"], [1])


async def test_nobody_sees_a_client_as_a_group(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store, 1)
        for name in ("a@1", "b"):
            Listener(store, name).receive()
        consumption = store.store.consumption
        [topic] = members_of(consumption, "g").topics
        shown = [(each.client_id, each.member_id, each.inflight_count) for each in topic.members]
        assert sorted(shown) == [("a@1", "m", 1), ("b", "m", 1)]
        assert (topic.generation, topic.unassigned) == (0, ())
        assert observe(store.store).member_counts == {"g": 2}
        feed = OffsetFeed(consumption.delivery)
        page = feed.changed(OffsetsChangedRequest(epoch=0, since=0, rows_max=100))
        assert (page.rows, page.is_complete) == ([], True)


async def test_a_trace_says_what_a_message_is_to_each_client(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        store.store.catalog.topic_put(TopicConfig(topic="acme%t", queue_count=1))
        broadcast(store, "acme%g")
        given = message(b"body", topic="acme%t")
        await store.put(given)
        await store.settled()
        for name in "ab":
            leased = Listener(store, name, group="acme%g", topic="acme%t").receive()
        Listener(store, "b", group="acme%g", topic="acme%t").ack(leased)
        for group in ("", "acme%g"):
            request = TraceRequest(namespace="acme", message_id=given.message_id, group=group)
            reply = store_calls(store.store)[Op.TRACE](request)
            assert isinstance(reply, TraceReply)
            assert [(each.group, each.client_id, each.state) for each in reply.groups] == [
                ("acme%g", "a", TraceState.IN_FLIGHT),
                ("acme%g", "b", TraceState.SETTLED),
            ]
