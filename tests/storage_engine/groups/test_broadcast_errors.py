"""What a broadcast group and its clients may be: ids, settings, who reads what."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_engine.errors import BadRequest
from storage_engine.wire.deliveries import SubscribeRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from tests.storage_engine.doubles import OpenStore
from tests.storage_engine.groups.listeners import Listener, broadcast, clients, filled
from tests.storage_engine.stopping import kill


async def test_who_reads_must_fit_the_group(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        store.group("plain")
        with pytest.raises(BadRequest, match=r"^the group does not have broadcast dispatch"):
            Listener(store, "a", group="plain").receive()
        with pytest.raises(BadRequest, match=r"^the group has broadcast dispatch, so client"):
            Listener(store, "").receive()
        with pytest.raises(BadRequest, match=r"^the group has broadcast dispatch, so client"):
            store.store.consumption.subscribe(SubscribeRequest(group="g", topic="t", member_id="m"))
        with pytest.raises(BadRequest, match="does not have broadcast dispatch"):
            store.store.consumption.group_stats("plain", "a")
        with pytest.raises(BadRequest, match=r"^the group has no client a"):
            store.store.consumption.group_stats("g", "a")
        assert clients(store) == []
        assert clients(store, "plain") == []


@pytest.mark.parametrize(
    "client_id", ["a b", "ü", "a/b", "a%b", "a\n", "\0", "a" * 129, "a,b", "a|b", "{}", "👋"]
)
async def test_ids_of_odd_characters_are_refused(tmp_path: Path, client_id: str) -> None:
    async with OpenStore(tmp_path) as store:
        await filled(store)
        with pytest.raises(BadRequest, match="a client id"):
            Listener(store, client_id).receive()
        assert clients(store) == []


@pytest.mark.parametrize("client_id", ["a", "@", "g@g@g", "::1", "host:1#2", "-", "..", "x" * 128])
async def test_ids_of_the_allowed_ones_are_kept_apart(tmp_path: Path, client_id: str) -> None:
    store = OpenStore(tmp_path).open()
    await filled(store)
    Listener(store, client_id).take(1)
    Listener(store, "b").take(2)
    kill(store.store)
    async with OpenStore(tmp_path) as store:
        await store.store.checkpoint()
    async with OpenStore(tmp_path) as store:
        assert Listener(store, client_id).offsets() == [1]
        assert Listener(store, "b").offsets() == [2]


async def test_settings_that_make_no_sense_together_are_refused(tmp_path: Path) -> None:
    async with OpenStore(tmp_path) as store:
        with pytest.raises(BadRequest, match="ordered"):
            store.store.catalog.group_put(
                GroupConfig(group="g", dispatch=Dispatch.BROADCAST, is_ordered=True)
            )


async def test_dispatch_changes_to_or_from_broadcast_until_something_is_read(
    tmp_path: Path,
) -> None:
    async with OpenStore(tmp_path) as store:
        store.topic()
        broadcast(store)
        store.group()
        broadcast(store)
        Listener(store, "a").receive()
        with pytest.raises(
            BadRequest, match=r"^the group was read with broadcast dispatch; to change to"
        ):
            store.group()
        store.group("plain")
        store.receive(group="plain")
        with pytest.raises(BadRequest, match=r"^the group was read with shared dispatch"):
            broadcast(store, "plain")
        store.store.catalog.group_put(GroupConfig(group="plain", dispatch=Dispatch.EXCLUSIVE))
