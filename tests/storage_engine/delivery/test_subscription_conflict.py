"""One group, one topic, one filter: who may change it, and who is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.delivery.members import SILENCE_MS_MAX, Readers
from storage_engine.errors import SubscriptionConflict
from storage_engine.wire.deliveries import Extend, SettleRequest, SubscribeRequest
from storage_engine.wire.frames import decode_error, encode_error
from tests.storage_engine.doubles import OpenStore, message


async def opened(store_dir: Path) -> OpenStore:
    store = OpenStore(store_dir).open()
    store.topic()
    store.group()
    return store


async def test_another_filter_is_refused_while_a_member_waits(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    answers, parked = store.park(member_id="one", tags="a")

    for _ in range(2):
        with pytest.raises(SubscriptionConflict, match="with the tag filter a;"):
            store.receive(member_id="two", tags="b")
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two")  # no filter is another one, too
    assert store.receive(member_id="two", tags=" a ").bodies == []  # the same, spelled otherwise

    await store.put(message(b"x", tag="a"))
    assert [answer.bodies for answer in answers] == [[b"x"]]
    assert parked is not None
    await store.close()


async def test_a_member_is_there_for_two_minutes_after_its_last_receive(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.receive(member_id="one", tags="a")
    store.clock.advance(SILENCE_MS_MAX - 1)
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two", sql="a > 5")
    store.clock.advance(1)
    store.receive(member_id="two", sql="a > 5")
    with pytest.raises(SubscriptionConflict, match="the sql92 filter a > 5;"):
        store.receive(member_id="one", tags="a")
    await store.close()


async def test_a_conflict_says_when_the_others_are_gone(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.receive(member_id="one", tags="a")
    store.clock.advance(50_000)
    with pytest.raises(SubscriptionConflict) as caught:
        store.receive(member_id="two", tags="b")
    assert caught.value.retry_after_ms == SILENCE_MS_MAX - 50_000
    sent = decode_error(SubscriptionConflict.code, encode_error(caught.value))
    assert sent.retry_after_ms == SILENCE_MS_MAX - 50_000
    store.clock.advance(caught.value.retry_after_ms)
    store.receive(member_id="two", tags="b")
    await store.close()


async def test_a_conflict_with_held_messages_lasts_as_long_as_their_lease(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"))
    store.receive(member_id="one", tags="a", lease_ms=3 * SILENCE_MS_MAX)
    with pytest.raises(SubscriptionConflict) as caught:
        store.receive(member_id="two", tags="b")
    assert caught.value.retry_after_ms == 3 * SILENCE_MS_MAX
    await store.close()


async def test_a_receive_without_a_name_keeps_nobody_from_another_filter(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"), message(b"y", tag="b"))

    assert store.receive(member_id="one", tags="a", is_unnamed=True).bodies == [b"x"]
    assert store.receive(member_id="two", tags="b", is_unnamed=True).bodies == []
    store.receive(member_id="named", tags="c")
    with pytest.raises(SubscriptionConflict):  # a named one does
        store.receive(member_id="three", tags="d", is_unnamed=True)
    await store.close()


async def test_a_receive_without_a_name_keeps_its_filter_while_it_waits(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    answers, _ = store.park(member_id="one", tags="a", wait_ms=9_000, is_unnamed=True)
    with pytest.raises(SubscriptionConflict) as caught:
        store.receive(member_id="two", tags="b", is_unnamed=True)
    assert caught.value.retry_after_ms == 9_000
    assert answers == []
    store.clock.advance(9_000)
    store.store.consumption.tick()
    store.receive(member_id="two", tags="b", is_unnamed=True)
    await store.close()


async def test_a_waiting_member_is_there_however_long_ago_it_was_heard_of(tmp_path: Path) -> None:
    store = OpenStore(tmp_path, limits={"poll_wait_ms_max": 10 * SILENCE_MS_MAX}).open()
    store.topic()
    store.group()
    store.park(member_id="one", tags="a", wait_ms=10 * SILENCE_MS_MAX)
    store.clock.advance(2 * SILENCE_MS_MAX)
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two", tags="b")
    await store.close()


async def test_held_messages_keep_a_member_there_until_they_are_settled(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"))
    held = store.receive(member_id="one", tags="a", lease_ms=10 * SILENCE_MS_MAX)
    store.clock.advance(2 * SILENCE_MS_MAX)
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two", tags="b")
    store.ack(held)
    assert store.receive(member_id="two", tags="b").bodies == []
    await store.close()


async def test_a_lone_member_changes_its_filter_and_its_own_waits_end(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"))
    store.receive(member_id="one", tags="a", lease_ms=60_000)
    answers, _ = store.park(member_id="one", tags="a")

    changed, _ = store.park(member_id="one", tags="b")

    assert [answer.bodies for answer in answers] == [[]]
    await store.put(message(b"old", tag="a"))
    await store.put(message(b"new", tag="b"))
    assert [answer.bodies for answer in changed] == [[b"new"]]
    await store.close()


async def test_a_member_that_left_is_there_no_more(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    consumption = store.store.consumption
    announced = SubscribeRequest(group="g", topic="t", member_id="one", filter="a")
    consumption.subscribe(announced)
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two", tags="b")
    consumption.delivery.leave("g", "t", "one")
    consumption.delivery.leave("g", "none", "one")
    store.receive(member_id="two", tags="b")
    with pytest.raises(SubscriptionConflict):
        consumption.subscribe(announced)
    await store.close()


async def test_a_message_on_its_way_to_the_retries_belongs_to_nobody(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"))
    store.receive(member_id="one", tags="a", lease_ms=1_000)
    store.clock.advance(SILENCE_MS_MAX)
    store.store.consumption.delivery.tick()  # the lease has ended, its message moves later
    store.receive(member_id="two", tags="b")
    await store.close()


async def test_other_groups_and_topics_have_filters_of_their_own(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    store.group("h")
    await store.put(message(b"x", tag="a"))
    assert store.receive(member_id="one", tags="a").bodies == [b"x"]
    assert store.receive(member_id="two", group="h", tags="b").bodies == []
    await store.close()


def test_members_are_forgotten_with_time_and_beyond_a_number() -> None:
    readers = Readers()
    for number in range(5_000):
        readers.reader_seen(f"m{number}", number)
    assert len(readers._seen_ms) == 1_000
    readers.reader_seen("m4999", SILENCE_MS_MAX + 4_998)
    assert readers.other_readers_ms("m4999", SILENCE_MS_MAX + 4_998) == 0
    assert readers.other_readers_ms("other", SILENCE_MS_MAX + 4_998) == SILENCE_MS_MAX
    readers.leave("m4999")
    assert readers.other_readers_ms("other", SILENCE_MS_MAX + 4_998) == 0


async def test_who_holds_messages_for_longer_is_still_known_as_their_member(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.put(message(b"x", tag="a"))
    leased = store.receive(member_id="one", tags="a")
    extend = Extend(
        topic="t", queue_id=0, lease_generation=leased.generation, queue_offset=0,
        lease_ms=SILENCE_MS_MAX + 10_000,
    )  # fmt: skip
    store.store.consumption.settle(SettleRequest(group="g", extends=[extend]))
    store.clock.advance(SILENCE_MS_MAX)
    with pytest.raises(SubscriptionConflict):
        store.receive(member_id="two", tags="b")
    assert store.receive(member_id="one", tags="b").bodies == []  # its own may change
    await store.close()
