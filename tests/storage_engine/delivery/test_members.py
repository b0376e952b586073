"""Exclusive groups: every queue has one member, whoever comes and goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storage_engine.delivery.lease_messages import MessageLeaser
from storage_engine.delivery.members import SILENCE_MS_MAX, Members
from storage_engine.delivery.subscription import Delivered
from storage_engine.errors import BadRequest, StoreBusy
from storage_engine.records.record_run import decode_records
from storage_engine.settings.assignment import Strategy
from storage_engine.wire.deliveries import LeaseRef, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.topics import TopicConfig
from tests.storage_engine.delivery.exclusive_member import Member
from tests.storage_engine.doubles import OpenStore

QUEUES = 4


async def exclusive(
    store_dir: Path, strategy: Strategy = Strategy.AVG, *, limits: dict[str, int] | None = None
) -> OpenStore:
    """Four queues with two messages each, named by queue and number."""
    store = OpenStore(store_dir, limits=limits).open()
    store.topic(queues=QUEUES)
    store.store.catalog.group_put(
        GroupConfig(group="g", dispatch=Dispatch.EXCLUSIVE, strategy=strategy)
    )
    for number in range(2):
        for queue_id in range(QUEUES):
            await store.put_bodies(b"%d/%d" % (queue_id, number), queue_id=queue_id)
    return store


def test_a_change_of_members_is_a_new_generation() -> None:
    members = Members()
    assert members.queues_of("a", 4, Strategy.AVG) == []
    assert members.member_seen("a", 0)
    assert not members.member_seen("a", 10)
    assert members.queues_of("a", 3, Strategy.AVG) == [0, 1, 2]
    assert members.member_seen("b", 10)
    assert members.generation == 2
    assert (members.queues_of("a", 3, Strategy.AVG), members.queues_of("b", 3, Strategy.AVG)) == (
        [0, 1],
        [2],
    )
    assert members.queues_of("a", 4, Strategy.AVG_BY_CIRCLE) == [0, 2]
    assert members.leave("a")
    assert not members.leave("a")
    assert members.queues_of("b", 3, Strategy.AVG) == [0, 1, 2]


def test_the_silent_are_members_no_more() -> None:
    members = Members()
    members.member_seen("a", 0)
    members.member_seen("b", 1)
    assert members.expire(SILENCE_MS_MAX - 1) == []
    assert members.expire(SILENCE_MS_MAX) == ["a"]
    assert len(members) == 1


@pytest.mark.parametrize(
    "strategy", [Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH]
)
async def test_each_queue_is_read_by_one_member(tmp_path: Path, strategy: Strategy) -> None:
    store = await exclusive(tmp_path, strategy)
    members = [Member(store, name) for name in ("a", "b", "c")]
    for member in members:
        member.poll(1)  # the first comers take from what was theirs then
        member.got.clear()
    await store.pass_time(1_001)  # what they hold goes to the retry topic, which all read
    for _ in range(3):
        for member in members:
            member.poll(lease_ms=60_000)
    got = [member.bodies() for member in members]
    assert sorted(body for bodies in got for body in bodies) == sorted(
        b"%d/%d" % (queue_id, number) for queue_id in range(QUEUES) for number in range(2)
    )
    for number, bodies in enumerate(got):
        others = {body[:2] for other in got[number + 1 :] for body in other if body[2:] == b"1"}
        assert others.isdisjoint(body[:2] for body in bodies if body[2:] == b"1")
    await store.close()


async def test_members_beyond_the_queues_wait_for_one_to_leave(tmp_path: Path) -> None:
    store = await exclusive(tmp_path)
    members = [Member(store, name) for name in "abcde"]
    for member in members:
        member.poll(1)
    for member in members:
        member.got.clear()
        member.poll(wait_ms=10_000, lease_ms=60_000)
    spare = members[-1]
    assert spare.bodies() == []
    members[0].leave()
    for queue_id in range(QUEUES):
        await store.put_bodies(b"%d/new" % queue_id, queue_id=queue_id)
    assert spare.queues() == {3}
    await store.close()


async def test_a_member_that_falls_silent_loses_its_queues_and_one_that_waits_does_not(
    tmp_path: Path,
) -> None:
    store = await exclusive(tmp_path)
    silent, waiting = Member(store, "a"), Member(store, "b")
    silent.poll()
    waiting.poll(lease_ms=200_000)
    for _ in range(13):
        waiting.poll(wait_ms=10_000, lease_ms=200_000)
        await store.pass_time(10_000)
    waiting.got.clear()
    waiting.poll(wait_ms=10_000)
    for queue_id in range(QUEUES):
        await store.put_bodies(b"%d/new" % queue_id, queue_id=queue_id)
        waiting.poll(wait_ms=10_000)
    assert {body for body in waiting.bodies() if body.endswith(b"new")} == {
        b"%d/new" % queue_id for queue_id in range(QUEUES)
    }
    await store.close()


async def test_what_a_member_held_when_it_lost_its_queue_can_be_settled_and_nothing_is_doubled(
    tmp_path: Path,
) -> None:
    store = await exclusive(tmp_path)
    first, second = Member(store, "a"), Member(store, "b")
    first.poll(3)  # of all queues, as the only member
    (held,) = first.got
    records = decode_records(store.store.read_records(held.records))
    second.poll(lease_ms=60_000)  # has two of the queues from now on
    assert not {record.body for record in records} & set(second.bodies())
    refs = [
        LeaseRef(
            topic="t", queue_id=record.queue_id, lease_generation=held.lease_generation,
            queue_offsets=[record.queue_offset],
        )
        for record in records
    ]  # fmt: skip
    reply = store.store.consumption.settle(SettleRequest(group="g", acks=refs))
    assert (reply.acked_count, reply.failures) == (3, [])
    await store.pass_time(1_001)
    first.got.clear()
    first.poll()
    second.poll()
    assert not {record.body for record in records} & set(first.bodies() + second.bodies())
    await store.close()


async def test_new_queues_are_assigned_too(tmp_path: Path) -> None:
    store = await exclusive(tmp_path)
    members = [Member(store, name) for name in "ab"]
    for member in members:
        member.poll()
    store.store.catalog.topic_put(TopicConfig(topic="t", queue_count=8))
    for member in members:
        member.got.clear()
        member.poll()
        member.got.clear()
    for queue_id in range(8):
        await store.put_bodies(b"%d/new" % queue_id, queue_id=queue_id)
    for member in members:
        member.poll()
    assert [member.queues() for member in members] == [{0, 1, 2, 3}, {4, 5, 6, 7}]
    await store.close()


async def test_a_member_without_a_name_is_refused_and_disturbs_nobody(tmp_path: Path) -> None:
    store = await exclusive(tmp_path)
    nameless, member = Member(store, ""), Member(store, "a")
    with pytest.raises(BadRequest, match="member_id is empty"):
        nameless.poll()
    member.poll()
    assert member.queues() == {0, 1, 2, 3}
    await store.close()


async def test_only_so_many_members_may_read_a_topic(tmp_path: Path) -> None:
    store = await exclusive(tmp_path, limits={"member_count_max": 2})
    members = [Member(store, name) for name in "abc"]
    members[0].poll(1)
    members[1].poll(1)
    with pytest.raises(StoreBusy, match="2 members"):
        members[2].poll()
    members[1].poll(1)
    members[0].leave()
    members[2].poll(1)
    assert len(members[2].bodies()) == 1
    await store.close()


async def test_no_queue_of_a_member_starves_while_others_take_turns_with_it(
    tmp_path: Path,
) -> None:
    store = await exclusive(tmp_path)
    members = [Member(store, name) for name in "ab"]
    for member in members:
        member.poll(wait_ms=10_000)
        member.got.clear()
    for number in range(6):
        for queue_id in range(QUEUES):
            await store.put_bodies(b"%d/%d" % (queue_id, number), queue_id=queue_id)
    for _ in range(4):
        for member in members:
            member.poll(1)
    assert [member.queues() for member in members] == [{0, 1}, {2, 3}]
    await store.close()


async def test_one_look_tells_all_that_wait_for_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member may park any number of receives, and each message is looked for by all of them."""
    store = await exclusive(tmp_path)
    members = [Member(store, name) for name in "ab"]
    for member in members:
        member.poll(wait_ms=10_000, lease_ms=60_000)
        member.got.clear()
    members[1].poll(lease_ms=60_000)
    members[1].got.clear()
    for _ in range(50):
        for member in members:
            member.poll(wait_ms=10_000)
    looks = []
    take = MessageLeaser.take

    def counted(*arguments: Any) -> Delivered | None:  # Any: whatever ``take`` takes
        looks.append(1)
        return take(*arguments)

    monkeypatch.setattr(MessageLeaser, "take", counted)
    await store.put_bodies(b"3/new", queue_id=3)
    assert [member.bodies() for member in members] == [[], [b"3/new"]]
    assert len(looks) == 3
    await store.close()


async def test_a_subscription_without_members_is_no_longer_checked(tmp_path: Path) -> None:
    store = await exclusive(tmp_path)
    member = Member(store, "a")
    member.poll()
    memberships = store.store.consumption.delivery._memberships
    await store.pass_time(1_000)
    assert len(memberships._exclusive) == 1
    member.leave()
    await store.pass_time(1_000)
    assert len(memberships._exclusive) == 0
    await store.close()


async def test_who_waits_gets_what_a_silent_member_leaves_at_once(tmp_path: Path) -> None:
    store = await exclusive(tmp_path)
    silent, waiting = Member(store, "a"), Member(store, "b")
    silent.poll(1, lease_ms=200_000)
    waiting.poll(lease_ms=200_000)
    for _ in range(11):
        waiting.poll(wait_ms=10_000)
        await store.pass_time(10_000)
    waiting.got.clear()
    waiting.poll(wait_ms=30_000)
    await store.pass_time(SILENCE_MS_MAX - 110_000)
    assert waiting.queues() == {0, 1}
    await store.close()
