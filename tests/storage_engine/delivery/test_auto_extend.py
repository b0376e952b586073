"""Leases that last while their member is heard of."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.config import HOUR_MS
from storage_engine.delivery import receive as auto_extend
from storage_engine.errors import BadRequest
from storage_engine.wire.deliveries import SettleRequest
from tests.storage_engine.delivery.requests import Asked, filled
from tests.storage_engine.doubles import OpenStore


def heartbeat(store: OpenStore, member_id: str = "m", group: str = "g") -> None:
    store.store.consumption.settle(SettleRequest(group=group, member_id=member_id))


async def test_leases_last_while_the_member_settles_and_end_a_lease_after_it_stops(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 6) as store:
        asked = Asked(store, auto_extend_ms=60_000)
        for body in asked.bodies[:4]:
            await store.pass_time(900)
            assert Asked(store, member_id="other").bodies == []
            assert asked.settle(acks=(body,), member_id="m").acked_count == 1
        await store.pass_time(999)
        assert Asked(store, member_id="other").bodies == []
        await store.pass_time(1)
        assert Asked(store, member_id="other").bodies == asked.bodies[4:]


async def test_who_is_silent_loses_them_as_if_nothing_had_been_asked_for(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        Asked(store, auto_extend_ms=60_000)
        await store.pass_time(999)
        assert Asked(store, member_id="other").bodies == []
        await store.pass_time(1)
        assert Asked(store, member_id="other").bodies == [b"0", b"1"]


async def test_only_its_own_calls_in_its_own_group_count(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        store.group("h")
        Asked(store, auto_extend_ms=60_000)
        await store.pass_time(500)
        heartbeat(store, "other")
        heartbeat(store, "m", group="h")
        await store.pass_time(500)
        assert Asked(store, member_id="other").bodies == [b"0", b"1"]


async def test_the_span_is_the_end_whoever_is_heard_of(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        Asked(store, auto_extend_ms=2_500)
        for _ in range(4):
            await store.pass_time(600)
            heartbeat(store)
        await store.pass_time(99)
        assert Asked(store, member_id="other").bodies == []
        await store.pass_time(1)
        assert Asked(store, member_id="other").bodies == [b"0"]


async def test_a_waiting_receive_keeps_the_member_there_until_its_connection_is_gone(
    tmp_path: Path,
) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        Asked(store, auto_extend_ms=60_000)
        waits = Asked(store, wait_ms=20_000, lease_ms=1_000)
        for _ in range(10):
            await store.pass_time(1_000)
        assert Asked(store, member_id="other").bodies == []
        assert waits.parked is not None
        store.store.consumption.cancel(waits.parked, answer=False)
        await store.pass_time(1_000)
        assert Asked(store, member_id="other").bodies == [b"0"]


async def test_an_answered_receive_counts_from_its_answer(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        Asked(store, auto_extend_ms=60_000)
        waits = Asked(store, wait_ms=1_500)
        await store.pass_time(1_000)
        await store.pass_time(500)
        assert waits.bodies == []
        await store.pass_time(500)
        await store.pass_time(499)
        assert Asked(store, member_id="other").bodies == []
        await store.pass_time(1)
        assert Asked(store, member_id="other").bodies == [b"0"]


async def test_receives_without_the_option_hold_other_leases_no_longer(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 2) as store:
        Asked(store, 1, auto_extend_ms=60_000)
        Asked(store, 1)
        await store.pass_time(900)
        heartbeat(store)
        await store.pass_time(100)
        assert Asked(store, member_id="other").bodies == [b"1"]


async def test_a_repeated_receive_keeps_what_the_first_one_asked_for(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        Asked(store, auto_extend_ms=60_000, attempt_id="a")
        again = Asked(store, auto_extend_ms=60_000, attempt_id="a")
        for _ in range(5):
            await store.pass_time(900)
            heartbeat(store)
        assert Asked(store, member_id="other").bodies == []
        assert again.settle(acks=(b"0",)).acked_count == 1


async def test_members_are_forgotten_after_their_span_and_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_extend, "_MEMBERS_MAX", 3)
    async with filled(OpenStore(tmp_path), 8) as store:
        known = store.store.consumption.receiving._auto_extends
        for name in "abcde":
            Asked(store, 1, member_id=name, auto_extend_ms=2_000)
            assert len(known) <= 3
        await store.pass_time(2_001)
        Asked(store, 1, member_id="z", auto_extend_ms=2_000)
        assert len(known) == 1


async def test_the_span_has_a_maximum(tmp_path: Path) -> None:
    async with filled(OpenStore(tmp_path), 1) as store:
        with pytest.raises(BadRequest, match="auto_extend_ms"):
            Asked(store, auto_extend_ms=3 * HOUR_MS + 1)
