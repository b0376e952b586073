"""Receives that are asked again: the same messages, while they are leased."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.delivery import receive as attempts
from storage_engine.delivery.receive import RETAINED_MS
from storage_engine.errors import BadRequest
from tests.storage_engine.delivery.requests import Asked, filled
from tests.storage_engine.doubles import OpenStore


async def test_a_repeat_gets_the_same_messages_and_a_lease_that_starts_over(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 6, queues=2) as store:
        first = Asked(store, 3, attempt_id="a")
        await store.pass_time(900)
        again = Asked(store, 3, attempt_id="a")
        assert again.bodies == first.bodies
        assert again.answer.attempts == first.answer.attempts == [1, 1, 1]
        assert again.answer.lease_generation == first.answer.lease_generation
        assert again.answer.lease_until_ms == store.clock.now_ms() + 1_000
        assert again.answer.first_until_ms == first.answer.lease_until_ms
        await store.pass_time(999)
        assert sorted(Asked(store, 6).bodies + first.bodies) == [b"%d" % i for i in range(6)]
        await store.pass_time(1)
        assert sorted(Asked(store, 6).bodies) == sorted(first.bodies)


async def test_what_was_settled_meanwhile_does_not_come_again(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 4) as store:
        first = Asked(store, 3, attempt_id="a")
        first.settle(acks=(b"0",), nacks=(b"1",), delay_ms=60_000)
        again = Asked(store, 3, attempt_id="a")
        assert again.bodies == [b"2"]
        again.settle(acks=(b"2",))
        assert Asked(store, 3, attempt_id="a").bodies == [b"3"]


async def test_another_member_or_another_id_gets_other_messages(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 4) as store:
        Asked(store, 1, attempt_id="a")
        assert Asked(store, 1, attempt_id="a", member_id="other").bodies == [b"1"]
        assert Asked(store, 1, attempt_id="b").bodies == [b"2"]
        assert Asked(store, 1).bodies == [b"3"]
        assert Asked(store, 1, attempt_id="a").bodies == [b"0"]


async def test_after_the_lease_or_five_minutes_it_is_a_receive_like_any_other(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        first = Asked(store, 1, attempt_id="a")
        await store.pass_time(1_000)
        later = Asked(store, 1, attempt_id="a")
        assert later.answer.lease_generation > first.answer.lease_generation
        long = Asked(store, 1, attempt_id="b", lease_ms=RETAINED_MS + 1_000)
        await store.pass_time(RETAINED_MS)
        assert not set(Asked(store, 1, attempt_id="b").bodies) & set(long.bodies)


async def test_a_repeat_takes_the_place_of_one_that_is_waiting(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 0) as store:
        first = Asked(store, 1, wait_ms=5_000, attempt_id="a")
        other = Asked(store, 1, wait_ms=9_000, member_id="other")
        await store.pass_time(4_000)
        second = Asked(store, 1, wait_ms=5_000, attempt_id="a")
        assert first.bodies == []
        assert store.store.consumption.delivery.waiting_receives.count == 2
        await store.put_bodies(b"x")
        assert (second.bodies, other.answers) == ([b"x"], [])
        # The connection of the first is gone long since; that takes nothing from the second.
        assert first.parked is not None
        store.store.consumption.cancel(first.parked, answer=False)
        assert Asked(store, 1, attempt_id="a").bodies == [b"x"]
        await store.pass_time(1_000)
        assert other.bodies == [b"x"]
        assert store.store.consumption.delivery.waiting_receives.count == 0


async def test_a_repeat_that_does_not_wait_ends_the_one_that_does(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 0) as store:
        first = Asked(store, 1, wait_ms=5_000, attempt_id="a")
        assert Asked(store, 1, attempt_id="a").bodies == first.bodies == []
        assert store.store.consumption.delivery.waiting_receives.count == 0


async def test_the_place_of_a_repeat_has_a_wait_of_its_own(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 0) as store:
        Asked(store, 1, wait_ms=1_000, attempt_id="a")
        second = Asked(store, 1, wait_ms=3_000, attempt_id="a")
        await store.pass_time(2_999)
        assert second.answers == []
        await store.pass_time(1)
        assert second.bodies == []


async def test_the_release_of_a_lost_answer_takes_nothing_from_the_repeat(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        first = Asked(store, 2, attempt_id="a")
        again = Asked(store, 2, attempt_id="a")
        # What the web process of the first answer does when it finds the client gone.
        first.settle(nacks=(b"0", b"1"), is_release=True)
        assert Asked(store, 2).bodies == []
        assert again.settle(acks=(b"0", b"1")).acked_count == 2


async def test_a_release_without_a_repeat_makes_the_messages_available_at_once(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        Asked(store, 2, attempt_id="a").settle(nacks=(b"0", b"1"), is_release=True)
        assert Asked(store, 2, attempt_id="a").bodies == [b"0", b"1"]


async def test_after_a_restart_and_a_deletion_nothing_is_remembered(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        Asked(store, 1, attempt_id="a")
        store.store.consumption.deletions.topic_delete("t")
        store.topic()
        await store.put_bodies(b"new")
        assert Asked(store, 1, attempt_id="a").bodies == [b"new"]
    async with OpenStore(tmp_path, clock=store.clock) as store:
        assert Asked(store, 1, attempt_id="a").bodies == [b"new"]


async def test_memory_is_bounded_by_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_MESSAGES_MAX", 4)
    async with filled(OpenStore(tmp_path), 12) as store:
        known = store.store.consumption.receiving._attempts
        for name in "abcdef":
            Asked(store, 2, attempt_id=name)
            assert known.message_count <= 5
        assert Asked(store, 2, attempt_id="f").bodies == [b"10", b"11"]
        assert Asked(store, 2, attempt_id="a").bodies == []
        await store.pass_time(RETAINED_MS)
        Asked(store, 1, attempt_id="z")
        assert known.message_count == 1


async def test_an_id_has_a_length(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        with pytest.raises(BadRequest, match="129 characters"):
            Asked(store, attempt_id="x" * 129)
        assert Asked(store, attempt_id="x" * 128).bodies == [b"0"]
