"""What a group's configuration does in the engine: retries within bounds, and pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.settings.retry_policy import (
    ExponentialDelays,
    LevelDelays,
    ListDelays,
    RetryPolicy,
)
from storage_engine.wire.groups import GroupConfig
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.retention.deleting import begun, killed, nack


def put(store: OpenStore, **settings: object) -> None:
    store.store.catalog.group_put(GroupConfig(group="g", **settings))  # type: ignore[arg-type]  # any of its settings


@pytest.mark.parametrize(
    "policy",
    [
        ListDelays(delays_ms=()),
        ListDelays(delays_ms=(1_000, 0)),
        ExponentialDelays(start_ms=0),
        ExponentialDelays(factor=0.5),
        ExponentialDelays(start_ms=2_000, cap_ms=1_000),
    ],
)
async def test_a_bad_policy_is_refused_and_nothing_is_changed(
    tmp_path: Path, policy: RetryPolicy
) -> None:
    store = await begun(tmp_path / "s")
    with pytest.raises(BadRequest):
        put(store, retry=policy)
    with pytest.raises(BadRequest):
        store.store.catalog.group_put(GroupConfig(group="new", retry=policy))
    assert [group.retry for group in store.store.catalog.group_list()] == [LevelDelays()]
    await store.close()


async def test_fewer_than_no_retries_are_refused(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    with pytest.raises(BadRequest):
        put(store, max_reconsume_times=-2)
    put(store, max_reconsume_times=-1)
    await store.close()


@pytest.mark.parametrize("is_paused", [False, True])
async def test_the_configuration_survives_a_kill(tmp_path: Path, is_paused: bool) -> None:
    store = await begun(tmp_path / "s")
    config = GroupConfig(
        group="g", max_reconsume_times=-1, retry=ListDelays(delays_ms=(1, 2)), is_paused=is_paused
    )
    store.store.catalog.group_put(config)
    store = killed(store)
    assert store.store.catalog.groups["g"] == config
    await store.close()


async def test_a_paused_group_gets_nothing_and_waits_until_it_continues(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    put(store, is_paused=True)
    assert store.receive().bodies == []
    waiting, _ = store.park()
    await store.put_bodies(b"b")
    await store.pass_time(1_000)
    assert waiting == []
    put(store, is_paused=False)
    assert waiting[0].bodies == [b"a"]
    assert store.receive().bodies == [b"b"]
    await store.close()


async def test_who_waits_when_the_group_is_paused_gets_nothing_either(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    waiting, _ = store.park(wait_ms=1_000)
    put(store, is_paused=True)
    await store.put_bodies(b"a")
    assert waiting == []
    await store.pass_time(1_000)
    assert waiting[0].bodies == []
    await store.close()


async def test_leases_of_a_paused_group_can_be_settled(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a", b"b")
    first, second = store.receive(1), store.receive(1)
    put(store, is_paused=True)
    assert store.ack(first).acked_count == 1
    await nack(store, second, 0)
    assert store.receive().bodies == []
    put(store, is_paused=False)
    assert store.receive().bodies == [b"b"]
    await store.close()


async def test_other_groups_continue(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    store.group("other")
    put(store, is_paused=True)
    assert store.receive(group="other").bodies == [b"a"]
    await store.close()


async def test_a_pause_survives_a_kill(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s", b"a")
    store.ack(store.receive())
    await store.put_bodies(b"b")
    put(store, is_paused=True)
    store = killed(store)
    assert store.receive().bodies == []
    put(store, is_paused=False)
    assert store.receive().bodies == [b"b"]
    await store.close()
