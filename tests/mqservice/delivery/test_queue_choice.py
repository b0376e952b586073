"""Which queues messages without a wish go to: as many to each as in turn, neighbours together."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.delivery.queues import QueueChooser
from mqservice.lib.names import MAIN_SHARD
from mqservice.topics.routes import TopicRoute

FREE = (None, None)


def route(queue_count: int) -> TopicRoute:
    return TopicRoute(
        namespace="shop",
        name="orders",
        shard=MAIN_SHARD,
        engine_name="shop%orders",
        queue_count=queue_count,
        body_bytes_max=1_024,
        durability="sync",
        message_type="normal",
    )


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=20),
    st.integers(1, 17),
    st.integers(0, 99),
)
def test_batches_give_each_queue_what_single_messages_in_turn_give(
    batches: list[int], queue_count: int, seed: int
) -> None:
    single, together = QueueChooser(Random(seed)), QueueChooser(Random(seed))
    where = route(queue_count)
    for count in batches:
        in_turn = [single.choose(where, None, None) for _ in range(count)]
        chosen = together.choose_all(where, [FREE] * count)
        assert Counter(chosen) == Counter(in_turn)
        assert len(list(groupby(chosen))) == min(count, queue_count)  # each queue's in one piece


def test_a_wish_in_a_batch_is_kept_and_takes_no_turn() -> None:
    chooser, where = QueueChooser(Random(1)), route(4)
    start = chooser.choose(where, None, None)
    chosen = chooser.choose_all(where, [FREE, (None, 2), ("customer 7", None), FREE, FREE])
    assert chosen[1] == 2
    assert chosen[2] == chooser.choose(where, "customer 7", None)
    assert [chosen[0], *chosen[3:]] == [(start + step) % 4 for step in (1, 2, 3)]
    assert chooser.choose(where, None, None) == start


@pytest.mark.parametrize("wish", [("customer 7", None), (None, 3)])
def test_a_batch_of_wishes_takes_no_turn(wish: tuple[str | None, int | None]) -> None:
    chooser, where = QueueChooser(Random(1)), route(4)
    start = chooser.choose(where, None, None)
    assert len(set(chooser.choose_all(where, [wish] * 9))) == 1
    assert chooser.choose(where, None, None) == (start + 1) % 4
