"""How many retries of a group wait is told exactly, whatever else waits in the schedule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from storage_engine.schedule import scheduled_retries
from storage_engine.wire.deliveries import SettleRequest
from tests.storage_engine.delaying import delayed, put_delayed
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.resetting import filled, nack_of, stats
from tests.storage_engine.stopping import kill

OTHERS = 1_500
DELAY_MS = 60_000


async def nacked(store: OpenStore, count: int, group: str = "g") -> None:
    """The group gives back so many messages, for later."""
    leased = store.receive(count, group=group)
    assert len(leased.records) == count
    for record in leased.records:
        nack = nack_of(leased, record, DELAY_MS)
        store.store.consumption.settle(SettleRequest(group=group, nacks=[nack.nacks[0]]))
    await store.settled()


def waiting(store: OpenStore, group: str = "g") -> int | None:
    """As progress and a reset tell it."""
    (retry,) = [each for each in stats(store, group) if each.retry_of]
    return retry.scheduled_count


async def test_other_peoples_messages_do_not_make_a_count_unknown(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        others = [delayed(b"x", n, delay_ms=2 * DELAY_MS) for n in range(OTHERS)]
        for at in range(0, OTHERS, 100):
            await put_delayed(store, *others[at : at + 100])
        await nacked(store, 3)
        assert waiting(store) == 3
        await store.pass_time(DELAY_MS)
        assert waiting(store) == 0


async def test_a_count_is_known_again_soon_after_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_SLICE", 4)
    store = await filled(OpenStore(tmp_path / "s").open(), 3)
    await put_delayed(store, *(delayed(b"x", n, delay_ms=2 * DELAY_MS) for n in range(20)))
    await nacked(store, 3)
    kill(store.store)
    async with OpenStore(tmp_path / "s") as again:
        assert again.receive(1).bodies == []
        assert waiting(again) is None
        while waiting(again) is None:
            await asyncio.sleep(0)
        assert waiting(again) == 3


async def test_too_many_retries_of_a_group_leave_others_alone_and_are_counted_again_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_GROUP_MAX", 3)
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 8)
        store.group("h")
        await nacked(store, 4)
        await nacked(store, 2, "h")
        assert (waiting(store), waiting(store, "h")) == (None, 2)
        await store.pass_time(DELAY_MS)
        await nacked(store, 1)
        assert (waiting(store), waiting(store, "h")) == (1, 0)


async def test_all_places_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_retries, "_PLACES_MAX", 3)
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 8)
        store.group("h")
        await nacked(store, 2)
        await nacked(store, 2, "h")
        assert (waiting(store), waiting(store, "h")) == (2, None)


async def test_retries_of_a_topic_that_was_deleted_are_not_counted(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "s") as store:
        await filled(store, 3)
        await nacked(store, 2)
        assert waiting(store) == 2
        store.store.consumption.deletions.topic_delete("t")
        store.topic()
        assert store.receive(1).bodies == []
        assert [each.scheduled_count for each in stats(store) if each.retry_of] in ([], [0])
