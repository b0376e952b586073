"""One delivery ends at the group's consume timeout, whatever extends are asked for."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any  # fields of a struct, as its constructor takes them

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.config import HOUR_MS, SECOND_MS
from storage_engine.errors import BadRequest
from storage_engine.records.record_run import decode_records
from storage_engine.records.retry_record import find_dead_letter
from storage_engine.wire.deliveries import Extend, SettleReply, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from storage_engine.wire.reads import PullRequest
from tests.storage_engine.doubles import Leased, OpenStore

TIMEOUT_MS = 30 * SECOND_MS


def with_timeout(store: OpenStore, timeout_ms: int = TIMEOUT_MS, **fields: Any) -> None:
    store.topic()
    config = GroupConfig(group="g", consume_timeout_ms=timeout_ms, **fields)
    store.store.catalog.group_put(config)


def extend(store: OpenStore, leased: Leased, lease_ms: int) -> SettleReply:
    extends = [
        Extend(
            topic=record.topic,
            queue_id=record.queue_id,
            lease_generation=leased.generation,
            queue_offset=record.queue_offset,
            lease_ms=lease_ms,
        )
        for record in leased.records
    ]
    return store.store.consumption.settle(SettleRequest(group="g", extends=extends))


async def test_extends_answer_the_end_that_they_get(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store)
        await store.put_bodies(b"a")
        leased = store.receive(lease_ms=20 * SECOND_MS)
        began_ms = store.clock.now_ms()
        await store.pass_time(15 * SECOND_MS)
        (until_ms,) = extend(store, leased, 10 * SECOND_MS).extended_until_ms
        assert until_ms == began_ms + 25 * SECOND_MS
        for _ in range(3):
            (until_ms,) = extend(store, leased, HOUR_MS).extended_until_ms
            assert until_ms == began_ms + TIMEOUT_MS


async def test_a_delivery_ends_at_the_timeout_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store)
        await store.put_bodies(b"a")
        leased = store.receive(lease_ms=20 * SECOND_MS)
        for _ in range(3):
            await store.pass_time(9_999)
            assert extend(store, leased, 20 * SECOND_MS).failures == []
        assert store.receive().bodies == []
        await store.pass_time(3)
        again = store.receive(lease_ms=20 * SECOND_MS)
        assert (again.bodies, again.attempts) == ([b"a"], [2])
        assert len(extend(store, leased, SECOND_MS).failures) == 1
        (until_ms,) = extend(store, again, HOUR_MS).extended_until_ms
        assert until_ms == store.clock.now_ms() + TIMEOUT_MS


async def test_a_lease_longer_than_the_timeout_is_cut(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store)
        await store.put_bodies(b"a")
        store.receive(lease_ms=HOUR_MS)
        await store.pass_time(TIMEOUT_MS - 1)
        assert store.receive().bodies == []
        await store.pass_time(1)
        assert store.receive().bodies == [b"a"]


async def test_dead_letters_say_which_end_it_was(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store, max_reconsume_times=0)
        await store.put_bodies(b"a", b"b")
        extend(store, store.receive(1, lease_ms=20 * SECOND_MS), HOUR_MS)
        store.receive(1, lease_ms=20 * SECOND_MS)
        await store.pass_time(HOUR_MS)  # the engine looks late
        request = PullRequest(
            topic="%DLQ%g", queue_id=0, queue_offset=0, messages_max=9, bytes_max=1 << 20
        )
        _, found = store.store.pull(request)
        letters = map(find_dead_letter, decode_records(store.store.read_records(found)))
        reasons = sorted([letter.reason for letter in letters if letter is not None])
        assert reasons == ["consume timeout", "lease ended"]


async def test_an_ordered_group_has_a_timeout_too(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store, dispatch=Dispatch.EXCLUSIVE, is_ordered=True)
        await store.put_bodies(b"a", b"b")
        leased = store.receive(1, lease_ms=20 * SECOND_MS)
        extend(store, leased, HOUR_MS)
        await store.pass_time(TIMEOUT_MS)
        assert store.receive().bodies == []  # the queue is suspended
        await store.pass_time(SECOND_MS)
        assert store.receive().bodies == [b"a", b"b"]


async def test_wall_clocks_that_jump_move_no_timeout(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store)
        await store.put_bodies(b"a")
        leased = store.receive(lease_ms=20 * SECOND_MS)
        for jump_ms in (-HOUR_MS, 2 * HOUR_MS):
            store.clock.wall_ms += jump_ms
            (until_ms,) = extend(store, leased, HOUR_MS).extended_until_ms
            assert until_ms == store.clock.now_ms() + TIMEOUT_MS


@pytest.mark.parametrize("timeout_ms", [0, -1, 9_999, 12 * HOUR_MS + 1])
async def test_timeouts_out_of_range_are_refused(tmp_path: Path, timeout_ms: int) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(
            BadRequest, match=f"consume_timeout_ms is {timeout_ms}, it must be 10000 to 43200000"
        ):
            with_timeout(store, timeout_ms)
        assert store.store.catalog.groups == {}


@pytest.mark.parametrize("lease_ms", [60_000, 12 * HOUR_MS])
@pytest.mark.parametrize("timeout_ms", [10 * SECOND_MS, 3 * HOUR_MS, 12 * HOUR_MS])
async def test_the_timeout_survives_a_restart(
    tmp_path: Path, lease_ms: int, timeout_ms: int
) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store, timeout_ms, lease_ms=lease_ms)
    async with OpenStore(tmp_path) as store:
        assert store.store.catalog.groups["g"].consume_timeout_ms == timeout_ms


@pytest.mark.parametrize(("lease_ms", "kept_ms"), [(60_000, 3 * HOUR_MS), (43_200_000, 43_200_000)])
async def test_groups_of_a_store_from_before_keep_their_leases(
    tmp_path: Path, lease_ms: int, kept_ms: int
) -> None:
    async with OpenStore(tmp_path) as store:
        with_timeout(store, 20_000, lease_ms=lease_ms)
    path = tmp_path / "config" / "subscriptionGroup.json"
    content = path.read_text()
    assert ',"mq.consume_timeout_ms":"20000"' in content
    path.write_text(content.replace(',"mq.consume_timeout_ms":"20000"', ""))
    async with OpenStore(tmp_path) as store:
        assert store.store.catalog.groups["g"].consume_timeout_ms == kept_ms


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(1, 12_000), st.integers(1, 60_000)), max_size=12),
    lease_ms=st.integers(1_000, 60_000),
)
def test_no_extends_hold_a_message_beyond_the_timeout(
    steps: list[tuple[int, int]], lease_ms: int
) -> None:
    with tempfile.TemporaryDirectory(prefix="timeout") as directory:
        asyncio.run(extended_again_and_again(Path(directory), steps, lease_ms))


async def extended_again_and_again(
    directory: Path, steps: list[tuple[int, int]], lease_ms: int
) -> None:
    async with OpenStore(directory) as store:
        with_timeout(store)
        await store.put_bodies(b"a")
        leased = store.receive(lease_ms=lease_ms)
        began_ms = store.clock.monotonic_ms()
        end_ms = began_ms + min(lease_ms, TIMEOUT_MS)
        for pause_ms, wanted_ms in steps:
            await store.pass_time(pause_ms)
            now_ms = store.clock.monotonic_ms()
            reply = extend(store, leased, wanted_ms)
            if now_ms >= end_ms:
                assert len(reply.failures) == 1
                break
            assert reply.failures == []
            end_ms = min(now_ms + max(wanted_ms, SECOND_MS), began_ms + TIMEOUT_MS)
            (until_ms,) = reply.extended_until_ms
            assert until_ms - store.clock.now_ms() == end_ms - now_ms
        await store.pass_time(max(began_ms + TIMEOUT_MS - store.clock.monotonic_ms(), 0))
        assert store.receive().bodies == [b"a"]
