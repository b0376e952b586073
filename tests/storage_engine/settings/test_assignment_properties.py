"""What must hold of every assignment, whatever the queues and members."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.settings.assignment import Assignment, QueueRef, Strategy, assign, unassigned
from tests.sizes import sized

pytestmark = pytest.mark.sized

EXAMPLES = settings(max_examples=sized(25, torture=1_000))
BALANCED = [Strategy.AVG, Strategy.AVG_BY_CIRCLE]
EXHAUSTIVE = [*BALANCED, Strategy.CONSISTENT_HASH]
ROOMS = ["hz", "sh", "bj"]

NAMES = st.text("abcdé-@0123456789", min_size=1, max_size=8)
MEMBERS = st.lists(NAMES, min_size=1, max_size=12, unique=True)
QUEUES = st.lists(
    st.builds(
        QueueRef,
        topic=st.just("t"),
        broker=st.sampled_from(["a", "b", "hz@a", "sh@a"]),
        queue_id=st.integers(0, 40),
    ),
    min_size=1,
    max_size=40,
    unique=True,
)
PLACED = st.builds(
    "{}@{}".format, st.sampled_from(ROOMS), st.text("abc123", min_size=1, max_size=4)
)


@pytest.mark.parametrize("strategy", EXHAUSTIVE)
@EXAMPLES
@given(queues=QUEUES, members=MEMBERS)
def test_every_queue_has_exactly_one_member(
    strategy: Strategy, queues: list[QueueRef], members: list[str]
) -> None:
    assignment = assign(strategy, queues, members)

    assert list(assignment) == sorted(members)
    assert sorted(chain.from_iterable(assignment.values())) == sorted(queues)
    assert all(its == sorted(its) for its in assignment.values())
    assert unassigned(queues, assignment) == []


@pytest.mark.parametrize("strategy", BALANCED)
@EXAMPLES
@given(queues=QUEUES, members=MEMBERS)
def test_no_member_has_two_queues_more_than_another(
    strategy: Strategy, queues: list[QueueRef], members: list[str]
) -> None:
    sizes = [len(its) for its in assign(strategy, queues, members).values()]

    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)


@EXAMPLES
@given(
    queues=QUEUES,
    members=MEMBERS,
    rooms=st.sets(st.sampled_from(ROOMS), min_size=1),
    data=st.data(),
)
def test_machine_room_assigns_the_named_rooms_and_no_other(
    queues: list[QueueRef], members: list[str], rooms: set[str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(queues))

    assignment = assign(Strategy.MACHINE_ROOM, shuffled, members, rooms=rooms)

    inside = [queue for queue in queues if queue.broker.split("@")[0] in rooms]
    sizes = [len(its) for its in assignment.values()]
    assert sorted(chain.from_iterable(assignment.values())) == sorted(inside)
    assert unassigned(queues, assignment) == sorted(set(queues) - set(inside))
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("within", EXHAUSTIVE)
@EXAMPLES
@given(
    queues=st.lists(
        st.builds(QueueRef, st.just("t"), PLACED, st.integers(0, 20)),
        min_size=1, max_size=30, unique=True,
    ),
    members=st.lists(PLACED, min_size=1, max_size=8, unique=True),
)  # fmt: skip
def test_nearby_never_crosses_rooms_while_a_room_has_a_member(
    within: Strategy, queues: list[QueueRef], members: list[str]
) -> None:
    assignment = assign(Strategy.MACHINE_ROOM_NEARBY, queues, members, within_room=within)

    staffed = {member.split("@")[0] for member in members}
    assert sorted(chain.from_iterable(assignment.values())) == sorted(queues)
    for member, its in assignment.items():
        for queue in its:
            room = queue.broker.split("@")[0]
            assert room == member.split("@")[0] or room not in staffed


@EXAMPLES
@given(queues=QUEUES, members=MEMBERS, data=st.data())
def test_config_assigns_what_is_listed_and_there(
    queues: list[QueueRef], members: list[str], data: st.DataObject
) -> None:
    owners = data.draw(
        st.dictionaries(st.sampled_from(queues), st.sampled_from([*members, "another"]))
    )
    configured = {name: [q for q, owner in owners.items() if owner == name]
                  for name in [*members, "another"]}  # fmt: skip

    assignment = assign(Strategy.CONFIG, queues, members, configured=configured)

    assert {queue: member for member, its in assignment.items() for queue in its} == {
        queue: owner for queue, owner in owners.items() if owner in members
    }


@pytest.mark.parametrize("strategy", list(Strategy))
@EXAMPLES
@given(data=st.data())
def test_the_order_of_the_input_does_not_matter(strategy: Strategy, data: st.DataObject) -> None:
    queues = data.draw(
        st.lists(
            st.builds(QueueRef, st.just("t"), PLACED, st.integers(0, 9)),
            min_size=1, max_size=12, unique=True,
        )
    )  # fmt: skip
    members = data.draw(st.lists(PLACED, min_size=1, max_size=6, unique=True))
    configured = {members[0]: queues[::2]}

    def result(queues: list[QueueRef], members: list[str]) -> Assignment:
        return assign(strategy, queues, members, configured=configured, rooms=ROOMS)

    expected = result(queues, members)
    again = result(data.draw(st.permutations(queues)), data.draw(st.permutations(members)))

    assert again == expected
    assert list(again) == list(expected)


@EXAMPLES
@given(queues=QUEUES, members=MEMBERS, joining=NAMES)
def test_a_member_that_joins_the_ring_takes_queues_and_moves_no_others(
    queues: list[QueueRef], members: list[str], joining: str
) -> None:
    members = [member for member in members if member != joining] or ["first"]
    before = owners_of(assign(Strategy.CONSISTENT_HASH, queues, members))
    after = owners_of(assign(Strategy.CONSISTENT_HASH, queues, [*members, joining]))

    assert {after[queue] for queue in queues if before[queue] != after[queue]} <= {joining}


def test_a_member_that_joins_many_takes_few_queues() -> None:
    queues = [QueueRef("t", "broker", queue_id) for queue_id in range(1_000)]
    members = [f"m{index:03}" for index in range(20)]
    before = owners_of(assign(Strategy.CONSISTENT_HASH, queues, members))
    after = owners_of(assign(Strategy.CONSISTENT_HASH, queues, [*members, "new"]))

    moved = sum(1 for queue in queues if before[queue] != after[queue])
    assert 0 < moved < 150  # 48 would be its fair share
    assert max(Counter(before.values()).values()) < 150


def owners_of(assignment: Assignment) -> dict[QueueRef, str]:
    return {queue: member for member, its in assignment.items() for queue in its}
