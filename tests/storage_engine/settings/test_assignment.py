"""Who reads which queue: tables derived by hand, and what is refused."""

from __future__ import annotations

import hashlib

import pytest

from storage_engine.errors import BadRequest
from storage_engine.settings.assignment import (
    Assignment,
    QueueRef,
    Strategy,
    assign,
    room_of_name,
    unassigned,
)


def queues_of(count: int, broker: str = "broker", topic: str = "t") -> list[QueueRef]:
    return [QueueRef(topic, broker, queue_id) for queue_id in range(count)]


def members_of(count: int) -> list[str]:
    return [f"m{index:03}" for index in range(count)]


def ids(assignment: Assignment) -> list[list[int]]:
    return [[queue.queue_id for queue in queues] for queues in assignment.values()]


@pytest.mark.parametrize(
    ("queue_count", "member_count", "expected"),
    [
        (1, 1, [[0]]),
        (4, 1, [[0, 1, 2, 3]]),
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 2], [3, 4]]),
        (5, 3, [[0, 1], [2, 3], [4]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (3, 3, [[0], [1], [2]]),
        (2, 4, [[0], [1], [], []]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
    ],
)
def test_avg_gives_blocks_and_the_first_members_one_more(
    queue_count: int, member_count: int, expected: list[list[int]]
) -> None:
    assignment = assign(Strategy.AVG, queues_of(queue_count), members_of(member_count))

    assert list(assignment) == members_of(member_count)
    assert ids(assignment) == expected


@pytest.mark.parametrize(
    ("queue_count", "member_count", "expected"),
    [
        (1, 1, [[0]]),
        (4, 2, [[0, 2], [1, 3]]),
        (5, 2, [[0, 2, 4], [1, 3]]),
        (8, 3, [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (2, 4, [[0], [1], [], []]),
    ],
)
def test_circle_deals_queues_out_in_turn(
    queue_count: int, member_count: int, expected: list[list[int]]
) -> None:
    assignment = assign(Strategy.AVG_BY_CIRCLE, queues_of(queue_count), members_of(member_count))

    assert ids(assignment) == expected


@pytest.mark.parametrize(
    ("queue_count", "member_count", "expected"),
    [
        (4, 2, [[0, 1], [2, 3]]),
        (5, 2, [[0, 1, 4], [2, 3]]),  # AVG would give 0, 1, 2
        (8, 3, [[0, 1, 6], [2, 3, 7], [4, 5]]),
        (2, 4, [[0], [1], [], []]),
    ],
)
def test_machine_room_gives_what_is_left_over_behind_the_blocks(
    queue_count: int, member_count: int, expected: list[list[int]]
) -> None:
    queues = queues_of(queue_count, "hz@a")

    assignment = assign(
        Strategy.MACHINE_ROOM, queues, members_of(member_count), rooms={"hz", "elsewhere"}
    )

    assert ids(assignment) == expected


def test_machine_room_leaves_queues_of_other_rooms_to_nobody_and_tells_them() -> None:
    here = queues_of(3, "hz@a") + queues_of(2, "sh@a")
    elsewhere = queues_of(2, "bj@a") + queues_of(1, "plain") + queues_of(1, "hz@a@b")
    queues = elsewhere + here

    assignment = assign(Strategy.MACHINE_ROOM, queues, ["b", "a"], rooms=["sh", "hz"])

    assert assignment == {
        "a": [QueueRef("t", "hz@a", 0), QueueRef("t", "hz@a", 1), QueueRef("t", "sh@a", 1)],
        "b": [QueueRef("t", "hz@a", 2), QueueRef("t", "sh@a", 0)],
    }
    assert unassigned(queues, assignment) == sorted(elsewhere)


def test_nearby_keeps_queues_in_their_room_and_shares_those_of_an_empty_one() -> None:
    queues = queues_of(3, "hz@a") + queues_of(2, "sh@a") + queues_of(3, "bj@a")

    assignment = assign(Strategy.MACHINE_ROOM_NEARBY, queues, ["sh@1", "hz@2", "hz@1"])

    assert {
        member: [(queue.broker, queue.queue_id) for queue in its]
        for member, its in assignment.items()
    } == {
        "hz@1": [("hz@a", 0), ("hz@a", 1), ("bj@a", 0)],
        "hz@2": [("hz@a", 2), ("bj@a", 1)],
        "sh@1": [("sh@a", 0), ("sh@a", 1), ("bj@a", 2)],
    }


def test_nearby_asks_the_given_function_and_the_given_strategy() -> None:
    rooms = {"broker-1": "hz", "10.0.0.1@1": "hz", "10.0.0.2@1": "hz", "10.0.0.3@1": "sh"}

    assignment = assign(
        Strategy.MACHINE_ROOM_NEARBY,
        queues_of(4, "broker-1"),
        ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"],
        room_of=rooms.get,
        within_room=Strategy.AVG_BY_CIRCLE,
    )

    assert ids(assignment) == [[0, 2], [1, 3], []]


def test_nearby_refuses_a_name_without_a_room() -> None:
    with pytest.raises(BadRequest, match="machine room of broker 'broker' is not known"):
        assign(Strategy.MACHINE_ROOM_NEARBY, queues_of(1), ["hz@1"])
    with pytest.raises(BadRequest, match="machine room of member 'plain' is not known"):
        assign(Strategy.MACHINE_ROOM_NEARBY, queues_of(1, "hz@a"), ["plain"])


@pytest.mark.parametrize(
    "within", [Strategy.CONFIG, Strategy.MACHINE_ROOM, Strategy.MACHINE_ROOM_NEARBY]
)
def test_nearby_refuses_a_strategy_that_may_leave_queues_to_nobody(within: Strategy) -> None:
    with pytest.raises(BadRequest, match=f"cannot be assigned by {within}, only by AVG"):
        assign(Strategy.MACHINE_ROOM_NEARBY, queues_of(1, "hz@a"), ["hz@1"], within_room=within)


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("hz@broker-a", "hz"),
        ("broker-a", None),
        ("@a", None),
        ("hz@", None),
        ("hz@a@b", None),
        ("", None),
    ],
)
def test_a_room_stands_before_the_only_at_sign(name: str, room: str | None) -> None:
    assert room_of_name(name) == room


def test_config_gives_each_member_what_is_listed_and_nothing_else() -> None:
    queues = queues_of(5)
    configured = {
        "a": [queues[3], queues[0], QueueRef("t", "broker", 99)],
        "gone": [queues[1]],
    }

    assignment = assign(Strategy.CONFIG, queues, ["b", "a"], configured=configured)

    assert assignment == {"a": [queues[0], queues[3]], "b": []}
    assert unassigned(queues, assignment) == [queues[1], queues[2], queues[4]]


@pytest.mark.parametrize("other", ["a", "b"])
def test_config_refuses_a_queue_that_is_listed_twice(other: str) -> None:
    queues = queues_of(2)
    configured = (
        {"a": [queues[0], queues[1]], "b": [queues[0]]}
        if other == "b"
        else {"a": [queues[0], queues[0]]}
    )

    with pytest.raises(BadRequest, match=rf"queueId=0\] is configured twice, .* for '{other}'"):
        assign(Strategy.CONFIG, queues, ["a", "b"], configured=configured)


def test_consistent_hash_places_queues_as_rocketmq_does() -> None:
    """The ring by its definition: the first point at or behind the queue's, else the first."""
    members, queues = ["10.0.0.1@7", "10.0.0.2@7", "é"], queues_of(64, "broker-a", "orders")
    points = sorted(
        (int(hashlib.md5(f"{member}-{number}".encode()).hexdigest()[:8], 16), member)
        for member in members
        for number in range(10)
    )
    expected: Assignment = {member: [] for member in members}
    wrapped = 0
    for queue in queues:
        text = f"MessageQueue [topic=orders, brokerName=broker-a, queueId={queue.queue_id}]"
        place = int(hashlib.md5(text.encode()).hexdigest()[:8], 16)
        behind = [member for point, member in points if point >= place]
        expected[behind[0] if behind else points[0][1]].append(queue)
        wrapped += not behind

    assert assign(Strategy.CONSISTENT_HASH, queues, members) == expected
    assert wrapped > 0
    assert all(expected.values())


def test_consistent_hash_follows_a_ring_made_by_hand() -> None:
    """Points and places by md5sum, first eight digits:

    438bcee3 queue 1, 4fbcab88 queue 0 → 55739e90 b-5;  5a764cfc queue 3 → 5d577971 a-4;
    d1cc572c queue 2 → d6b2c3cc b-9;  e52b7886 queue 4 → e570c68b b-6;
    f186261d queue 5 → f474ce9d b-2
    """
    assignment = assign(Strategy.CONSISTENT_HASH, queues_of(6), ["a", "b"])

    assert ids(assignment) == [[3], [0, 1, 2, 4, 5]]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("queues", "members", "words"),
    [
        ([], ["hz@a"], "there are no queues"),
        (queues_of(1, "hz@a"), [], "there are no members"),
        (queues_of(1, "hz@a") * 2, ["hz@a"], "queue QueueRef.* is given twice"),
        (queues_of(1, "hz@a"), ["hz@a", "hz@b", "hz@a"], "member 'hz@a' is given twice"),
        (queues_of(1, "hz@a"), ["hz@a", ""], "empty id"),
    ],
)
def test_empty_and_repeated_inputs_are_refused(
    strategy: Strategy, queues: list[QueueRef], members: list[str], words: str
) -> None:
    with pytest.raises(BadRequest, match=words):
        assign(strategy, queues, members, configured={}, rooms={"hz"})


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (Strategy.CONFIG, "CONFIG needs the queues"),
        (Strategy.MACHINE_ROOM, "MACHINE_ROOM needs the names"),
    ],
)
def test_a_strategy_without_what_it_needs_is_refused(strategy: Strategy, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        assign(strategy, queues_of(1), ["a"])
