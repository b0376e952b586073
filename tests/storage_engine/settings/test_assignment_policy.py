"""Assignment by what a group's policy says: named consumers, and machine rooms."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import BadRequest
from storage_engine.server.store_calls import store_calls
from storage_engine.settings.assignment import Strategy
from storage_engine.settings.assignment_policy import AssignmentPolicy, queue_ids_of
from storage_engine.wire.deliveries import ReceiveRequest
from storage_engine.wire.groups import Dispatch, GroupConfig, GroupRef
from storage_engine.wire.members import GroupMembers, TopicMembers
from storage_engine.wire.operations import Op
from tests.storage_engine.doubles import OpenStore

TWO_ROOMS = {"east": (0, 1, 2), "west": (3, 4)}


def test_config_gives_each_consumer_what_is_named_for_it() -> None:
    policy = AssignmentPolicy(consumers={"a": (0, 3), "b": (1, 99), "absent": (2,)})
    assert queue_ids_of(Strategy.CONFIG, policy, 5, {"b": "", "a": "", "c": ""}) == {
        "a": [0, 3], "b": [1], "c": [],
    }  # fmt: skip


def test_machine_room_reads_the_queues_of_its_rooms_only() -> None:
    policy = AssignmentPolicy(rooms=TWO_ROOMS, read=("east",))
    assert queue_ids_of(Strategy.MACHINE_ROOM, policy, 7, {"a": "", "b": "west"}) == {
        "a": [0, 2], "b": [1],
    }  # fmt: skip


def test_nearby_gives_queues_to_their_own_room_and_those_without_members_to_all() -> None:
    policy = AssignmentPolicy(rooms=TWO_ROOMS)

    def nearby(zones: dict[str, str]) -> dict[str, list[int]]:
        return queue_ids_of(Strategy.MACHINE_ROOM_NEARBY, policy, 7, zones)

    assert nearby({"a": "east", "b": "west", "c": "west"}) == {
        "a": [0, 1, 2, 5], "b": [3, 6], "c": [4],
    }  # fmt: skip
    assert nearby({"a": "east"}) == {"a": [0, 1, 2, 5, 6, 3, 4]}
    # Members and queues that name no room are in one together.
    assert nearby({"a": "", "b": "moon"}) == {"a": [5, 6, 0, 1, 3], "b": [2, 4]}


def test_within_a_room_another_strategy_decides() -> None:
    policy = AssignmentPolicy(rooms={"east": (0, 1, 2, 3)}, within_room=Strategy.AVG_BY_CIRCLE)
    zones = {"a": "east", "b": "east"}
    assert queue_ids_of(Strategy.MACHINE_ROOM_NEARBY, policy, 4, zones) == {
        "a": [0, 2], "b": [1, 3],
    }  # fmt: skip


@given(
    queue_count=st.integers(1, 16),
    rooms=st.lists(st.sampled_from(["", "east", "west", "moon"]), min_size=16, max_size=16),
    zones=st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from(["", "east"])),
    within=st.sampled_from([Strategy.AVG, Strategy.AVG_BY_CIRCLE, Strategy.CONSISTENT_HASH]),
)
def test_nearby_leaves_no_queue_to_nobody_and_gives_none_to_two(
    queue_count: int, rooms: list[str], zones: dict[str, str], within: Strategy
) -> None:
    named = {room: tuple(at for at, its in enumerate(rooms) if its == room) for room in rooms}
    named.pop("", None)
    policy = AssignmentPolicy(rooms=named, within_room=within)
    policy.check(Strategy.AVG, 16)
    assigned = queue_ids_of(Strategy.MACHINE_ROOM_NEARBY, policy, queue_count, zones)
    everything = sorted(queue_id for its in assigned.values() for queue_id in its)
    assert everything == (list(range(queue_count)) if zones else [])


@pytest.mark.parametrize(
    ("strategy", "policy", "reason"),
    [
        (Strategy.CONFIG, AssignmentPolicy(), "the queues of each consumer"),
        (Strategy.MACHINE_ROOM, AssignmentPolicy(rooms=TWO_ROOMS), "rooms whose queues are read"),
        (Strategy.MACHINE_ROOM_NEARBY, AssignmentPolicy(), "the queues of each room"),
        (Strategy.AVG, AssignmentPolicy(rooms=TWO_ROOMS, read=("moon",)), "'moon'"),
        (Strategy.AVG, AssignmentPolicy(rooms={"a": (0,), "b": (0,)}), "listed twice"),
        (Strategy.AVG, AssignmentPolicy(consumers={"a": (0, 0)}), "listed twice"),
        (Strategy.AVG, AssignmentPolicy(consumers={"a": (-1,)}), "queue -1"),
        (Strategy.AVG, AssignmentPolicy(consumers={"a": (64,)}), "queue 64"),
        (Strategy.AVG, AssignmentPolicy(rooms={"a b": (0,)}), "'a b'"),
        (Strategy.AVG, AssignmentPolicy(rooms={"*": (0,)}), "not a valid name"),
        (Strategy.AVG, AssignmentPolicy(within_room=Strategy.CONFIG), "CONFIG"),
        (
            Strategy.AVG,
            AssignmentPolicy(rooms={str(n): () for n in range(1_025)}),
            "rooms has 1025 names",
        ),
    ],
)  # fmt: skip
def test_a_policy_that_cannot_be_meant_is_refused(
    strategy: Strategy, policy: AssignmentPolicy, reason: str
) -> None:
    with pytest.raises(BadRequest, match=reason):
        policy.check(strategy, 64)


class Zoned:
    """An exclusive group on four queues of ``t``."""

    def __init__(self, store: OpenStore, strategy: Strategy, policy: AssignmentPolicy) -> None:
        self.store = store.store
        store.topic(queues=4)
        self.store.catalog.group_put(
            GroupConfig(
                group="g", dispatch=Dispatch.EXCLUSIVE, strategy=strategy, assignment=policy
            )
        )

    def poll(self, member_id: str, zone: str = "") -> None:
        request = ReceiveRequest(
            group="g", topic="t", member_id=member_id, messages_max=1, bytes_max=1_000,
            wait_ms=0, lease_ms=60_000, zone=zone,
        )  # fmt: skip
        self.store.consumption.receive(request, lambda delivered: None)

    def members(self) -> TopicMembers:
        reply = store_calls(self.store)[Op.GROUP_MEMBERS](GroupRef(group="g"))
        assert isinstance(reply, GroupMembers)
        [topic] = reply.topics
        return topic

    def queues(self) -> dict[str, tuple[int, ...]]:
        return {member.member_id: member.queue_ids for member in self.members().members}


async def test_a_member_that_moves_to_another_room_gets_other_queues(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        policy = AssignmentPolicy(rooms={"east": (0, 1), "west": (2, 3)})
        group = Zoned(store, Strategy.MACHINE_ROOM_NEARBY, policy)
        group.poll("a", "east")
        group.poll("b", "east")
        assert group.queues() == {"a": (0, 2), "b": (1, 3)}
        before = group.members().generation
        group.poll("b", "west")
        assert group.queues() == {"a": (0, 1), "b": (2, 3)}
        assert group.members().generation == before + 1
        assert [member.zone for member in group.members().members] == ["east", "west"]


async def test_who_reads_what_and_what_nobody_reads_is_reported(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        policy = AssignmentPolicy(consumers={"a": (0,), "b": (1, 2)})
        group = Zoned(store, Strategy.CONFIG, policy)
        await store.put_bodies(b"x")
        group.poll("a")
        await store.pass_time(700)
        group.poll("c")
        found = group.members()
        assert [(one.member_id, one.silent_ms, one.inflight_count) for one in found.members] == [
            ("c", 0, 0), ("a", 700, 1),
        ]  # fmt: skip
        assert (found.unassigned, found.is_complete) == ((1, 2, 3), True)
        group.poll("b")
        assert group.members().unassigned == (3,)


async def test_the_policy_is_there_after_a_restart(tmp_path: Path) -> None:
    policy = AssignmentPolicy(
        consumers={"a": (0,)}, rooms=TWO_ROOMS, read=("east",), within_room=Strategy.AVG_BY_CIRCLE
    )
    async with OpenStore(tmp_path) as store:
        Zoned(store, Strategy.CONFIG, policy)
        store.group("plain")
    async with OpenStore(tmp_path) as store:
        groups = store.store.catalog.groups
        assert (groups["g"].strategy, groups["g"].assignment) == (Strategy.CONFIG, policy)
        assert groups["plain"].assignment == AssignmentPolicy()


async def test_the_engine_refuses_a_group_whose_policy_lacks_what_the_strategy_needs(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(BadRequest, match="needs the queues of each consumer"):
            store.store.catalog.group_put(GroupConfig(group="g", strategy=Strategy.CONFIG))
