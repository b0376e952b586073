"""The road of one message: where its records are, and what it is to each group."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # overrides of a request's fields

import msgspec
import pytest

from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import BadRequest
from storage_engine.groups import message_trace
from storage_engine.records.message_id import new_message_id
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.server.store_calls import store_calls
from storage_engine.wire.dead_letters import PurgeRequest, RedriveRequest
from storage_engine.wire.deliveries import Nack, ReceiveRequest, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.operations import Op
from storage_engine.wire.topics import TopicConfig
from storage_engine.wire.traces import TracedGroup, TraceReply, TraceRequest, TraceState
from tests.storage_engine.doubles import Leased, ManualClock, OpenStore, message

TOPIC, GROUP = "acme%orders", "acme%billing"


class Traced:
    """A store of two tenants, and one message of the first."""

    def __init__(self, store_dir: Path, **limits: int) -> None:
        self.open_store = OpenStore(store_dir, limits=limits)
        self.store = self.open_store.store
        self.id = new_message_id()

    async def __aenter__(self) -> Traced:
        self.open_store.open()
        for topic in (TOPIC, "acme%other", "rival%orders"):
            self.store.catalog.topic_put(TopicConfig(topic=topic, queue_count=1))
        self.group(GROUP)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.open_store.close()

    def group(self, name: str, **settings: Any) -> None:
        self.store.catalog.group_put(GroupConfig(group=name, **settings))

    async def put(self, topic: str = TOPIC, **fields: Any) -> None:
        given = message(b"body", topic=topic)
        put = await self.open_store.put(
            msgspec.structs.replace(given, **{"message_id": self.id, **fields})
        )
        assert put.error is None

    def receive(self, group: str = GROUP, topic: str = TOPIC, member_id: str = "m") -> Taken:
        return Taken(self, group, topic, member_id)

    def trace(self, namespace: str = "acme", **fields: str) -> TraceReply:
        request = TraceRequest(namespace=namespace, message_id=self.id, **fields)
        reply = store_calls(self.store)[Op.TRACE](request)
        assert isinstance(reply, TraceReply)
        return reply

    def state(self, group: str = GROUP, topic: str = TOPIC) -> TracedGroup:
        [found] = [
            each for each in self.trace().groups if (each.group, each.topic) == (group, topic)
        ]
        return found

    def topics(self) -> list[str]:
        return [hop.topic for hop in self.trace().hops]


class Taken:
    """What one receive got; one message."""

    def __init__(self, traced: Traced, group: str, topic: str, member_id: str) -> None:
        self._store = traced.store
        self._group = group
        request = ReceiveRequest(
            group=group, topic=topic, member_id=member_id, messages_max=1, bytes_max=1 << 20,
            wait_ms=0, lease_ms=1_000,
        )  # fmt: skip
        traced.store.consumption.receive(request, self._took)

    def _took(self, delivered: Delivered) -> None:
        [self.record] = decode_records(self._store.read_records(delivered.records))
        self._generation = delivered.lease_generation
        self.leased = Leased(self._generation, delivered.attempts, [self.record])

    def nack(self, **how: Any) -> None:
        nack = Nack(
            topic=self.record.topic,
            queue_id=self.record.queue_id,
            lease_generation=self._generation,
            queue_offset=self.record.queue_offset,
            **how,
        )
        assert not self._store.consumption.settle(
            SettleRequest(group=self._group, nacks=[nack])
        ).failures


async def test_a_message_that_nobody_had_is_stored_and_ready(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        assert traced.trace().groups == []  # the group has not read the topic yet
        [hop] = traced.trace().hops
        assert (hop.topic, hop.queue_id, hop.queue_offset) == (TOPIC, 0, 0)
        assert hop.stored_ms == traced.open_store.clock.now_ms()
        await traced.put(message_id=new_message_id())
        traced.receive()
        assert (traced.state().state, traced.state().attempts) == (TraceState.IN_FLIGHT, 1)


async def test_each_state_of_a_message_that_fails_until_it_is_dead_and_redriven(
    tmp_path: Path,
) -> None:
    async with Traced(tmp_path) as traced:
        clock = traced.open_store.clock
        traced.group(GROUP, max_reconsume_times=1)
        await traced.put()
        taken = traced.receive(member_id="consumer-w1")
        state = traced.state()
        assert (state.state, state.member_id) == (TraceState.IN_FLIGHT, "consumer-w1")
        assert state.until_ms == clock.now_ms() + 1_000

        began_ms = clock.now_ms()
        clock.advance(300)
        taken.nack(delay_ms=5_000, reason="db down")
        assert traced.state().state is TraceState.MOVING
        await traced.open_store.settled()
        state = traced.state()
        assert (state.state, state.attempts) == (TraceState.SCHEDULED, 1)
        assert state.until_ms == clock.now_ms() + 5_000
        waiting = traced.trace().hops[-1]
        assert (waiting.topic, waiting.target_topic) == (SCHEDULE_TOPIC, f"%RETRY%{GROUP}")
        assert (waiting.member_id, waiting.reason) == ("consumer-w1", "db down")
        assert (waiting.delivered_ms, waiting.stored_ms) == (began_ms, began_ms + 300)

        await traced.open_store.pass_time(5_000)
        assert traced.state().state is TraceState.READY
        retry = traced.trace().hops[-1]
        assert (retry.topic, retry.reason, retry.from_topic) == (
            f"%RETRY%{GROUP}", "db down", SCHEDULE_TOPIC,
        )  # fmt: skip

        traced.receive(member_id="ws-7-1")
        await traced.open_store.pass_time(1_000)
        state = traced.state()
        assert (state.state, state.attempts) == (TraceState.DEAD, 2)
        dead = traced.trace().hops[-1]
        assert (dead.topic, dead.member_id, dead.reason) == (
            f"%DLQ%{GROUP}", "ws-7-1", "lease ended",
        )  # fmt: skip

        await redrive(traced)
        assert traced.state().state is TraceState.READY
        assert traced.topics() == [
            TOPIC, SCHEDULE_TOPIC, f"%RETRY%{GROUP}", f"%DLQ%{GROUP}", TOPIC,
        ]  # fmt: skip
        assert traced.trace().hops[-1].from_topic == f"%DLQ%{GROUP}"
        assert traced.trace().is_complete


async def redrive(traced: Traced, topic: str = "") -> None:
    request = RedriveRequest(group=GROUP, queue_offsets=[0], topic=topic)
    traced.store.consumption.dead_letters.redrive(request, lambda reply: None)
    await traced.open_store.settled()


async def test_dead_letters_that_went_elsewhere_or_nowhere_are_gone(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        traced.receive().nack(is_dead=True, reason="bad")
        await traced.open_store.settled()
        assert traced.state().state is TraceState.DEAD
        await redrive(traced, "acme%other")
        assert traced.state().state is TraceState.GONE
        assert traced.topics() == [TOPIC, f"%DLQ%{GROUP}", "acme%other"]
    async with Traced(tmp_path / "2") as traced:
        await traced.put()
        traced.receive().nack(is_dead=True)
        await traced.open_store.settled()
        traced.store.consumption.dead_letters.purge(PurgeRequest(group=GROUP, queue_offsets=[0]))
        assert traced.state().state is TraceState.GONE


async def test_settled_skipped_and_waiting_in_its_place(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put(tag="blue")
        for name, settings in (
            ("acme%acks", {}),
            ("acme%ordered", {"dispatch": Dispatch.EXCLUSIVE, "is_ordered": True}),
        ):
            traced.group(name, **settings)
        taken = traced.receive("acme%acks")
        traced.open_store.ack(taken.leased, group="acme%acks")
        assert traced.state("acme%acks").state is TraceState.SETTLED
        traced.receive("acme%ordered").nack(delay_ms=700)
        ordered = traced.state("acme%ordered")
        assert (ordered.state, ordered.attempts) == (TraceState.WAITING, 1)
        assert ordered.until_ms == traced.open_store.clock.now_ms() + 700
        await traced.open_store.pass_time(700)
        assert traced.state("acme%ordered").state is TraceState.READY


async def test_nothing_of_another_tenant_is_shown_whoever_uses_the_id(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        traced.group("rival%spies")
        await traced.put()
        await traced.put("rival%orders")
        for group in (GROUP, "rival%spies"):
            traced.receive(group).nack(delay_ms=60_000, reason=f"secret of {group}")
        traced.receive("rival%spies", "rival%orders").nack(delay_ms=60_000, reason="theirs")
        await traced.open_store.settled()

        ours, theirs = traced.trace(), traced.trace("rival")

        assert {each.group for each in ours.groups} == {GROUP}
        assert {hop.reason for hop in ours.hops} == {"", f"secret of {GROUP}"}
        assert {hop.topic for hop in ours.hops} == {TOPIC, SCHEDULE_TOPIC}
        assert {each.group for each in theirs.groups} == {"rival%spies"}
        assert {hop.reason for hop in theirs.hops} == {"", "theirs"}
        for namespace in ("acm", "nobody"):
            assert traced.trace(namespace).hops == []
        for namespace in ("%RETRY%acme", "acme%orders", "%"):
            with pytest.raises(BadRequest):
                traced.trace(namespace)


async def test_a_group_that_has_it_from_two_topics_has_two_roads(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        traced.receive().nack(is_dead=True)
        await traced.open_store.settled()
        await redrive(traced, "acme%other")
        traced.receive(topic="acme%other").nack(delay_ms=5_000)
        await traced.open_store.settled()
        assert traced.state().state is TraceState.GONE
        assert traced.state(topic="acme%other").state is TraceState.SCHEDULED


async def test_a_key_that_looks_like_the_id_is_no_hop(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        await traced.put(message_id=new_message_id(), keys=[traced.id])
        assert [hop.queue_offset for hop in traced.trace().hops] == [0]


async def test_only_the_topic_or_group_that_is_asked_for(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        traced.group("acme%second")
        await traced.put()
        for group in (GROUP, "acme%second"):
            traced.receive(group).nack(delay_ms=0)
        await traced.open_store.settled()
        assert {each.group for each in traced.trace(group=GROUP).groups} == {GROUP}
        assert traced.trace(topic="acme%other").hops == []
        assert traced.trace(topic="rival%orders").hops == []
        assert traced.trace(topic="acme%absent").hops == []
        assert len(traced.trace(topic=TOPIC).groups) == 2


@pytest.mark.parametrize("look_ms", [6, 11])
async def test_one_call_ends_after_its_time_and_the_next_continues(
    tmp_path: Path, look_ms: int
) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        traced.store.consumption.clock = Ticking(look_ms)
        first = traced.trace()
        assert ([hop.topic for hop in first.hops], first.after) == ([TOPIC], TOPIC)
        second = traced.trace(after=first.after)
        assert second == TraceReply()


class Ticking(ManualClock):
    """Six ms pass whenever somebody looks at it: time for one topic; with eleven there is none."""

    def __init__(self, look_ms: int) -> None:
        super().__init__()
        self._look_ms = look_ms

    def monotonic_ms(self) -> int:
        self.advance(self._look_ms)
        return super().monotonic_ms()


async def test_too_many_groups_and_records_are_cut_and_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_trace, "_GROUPS_MAX", 2)
    monkeypatch.setattr(message_trace, "_PLACE_RECORDS_MAX", 3)
    async with Traced(tmp_path) as traced:
        await traced.put()
        for name in ("acme%a", "acme%b"):
            traced.group(name)
            traced.receive(name)
        assert traced.trace().is_complete
        traced.receive(GROUP)
        cut = traced.trace()
        assert ([each.group for each in cut.groups], cut.is_complete) == (
            ["acme%a", "acme%b"], False,
        )  # fmt: skip
        assert [each.group for each in traced.trace(group=GROUP).groups] == [GROUP]
        for _ in range(4):
            await traced.put()
        cut = traced.trace(group=GROUP)
        assert ([hop.queue_offset for hop in cut.hops], cut.is_complete) == ([2, 3, 4], False)


async def test_ids_and_namespaces_that_cannot_be_meant(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        for message_id in ("", "x" * 256):
            traced.id = message_id
            with pytest.raises(BadRequest):
                traced.trace()
        traced.id = "x" * 255
        assert traced.trace().hops == []
        with pytest.raises(BadRequest):
            traced.trace("")


async def test_a_restart_changes_nothing_but_leases(tmp_path: Path) -> None:
    async with Traced(tmp_path) as traced:
        await traced.put()
        traced.receive().nack(delay_ms=60_000, reason="db down")
        await traced.open_store.settled()
        before = traced.trace()
    again = Traced(tmp_path)
    again.open_store.clock = traced.open_store.clock
    again.id = traced.id
    async with again:
        assert again.trace() == before
