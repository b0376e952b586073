"""Namespaces that go to another shard: what is refused meanwhile, over restarts too, and what is
left of them afterwards.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from storage_engine.catalog.namespace_holds import MOVED_MS
from storage_engine.disk.adopted_store import discarded_number_of, write_split_number
from storage_engine.disk.files import Files
from storage_engine.errors import BadRequest, NamespaceMoved, SyncFailed
from storage_engine.records.topic_names import dlq_topic_of, retry_topic_of
from storage_engine.server.held_requests import check_not_held
from storage_engine.wire.deliveries import ReceiveRequest, SettleRequest
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.namespaces import (
    NamespaceDropRequest,
    NamespaceHoldRequest,
    NamespaceReleaseRequest,
    StoreDiscardRequest,
)
from storage_engine.wire.scheduled import ScheduledListRequest
from storage_engine.wire.topics import TopicConfig, TopicRef
from tests.storage_engine.doubles import WAIT_S, ManualClock, OpenStore, message
from tests.storage_engine.moves.test_retries import nack
from tests.storage_engine.schedule.delaying import delayed

NAMES = ("acme", "rival")


async def begun(path: Path, clock: ManualClock | None = None) -> OpenStore:
    """Two namespaces, each with a topic, a group and two messages, of which one is in flight."""
    store = OpenStore(path, clock=clock).open()
    for name in NAMES:
        store.topic(f"{name}%t")
        store.group(f"{name}%g")
        await store.put(message(b"a", topic=f"{name}%t"), message(b"b", topic=f"{name}%t"))
        store.receive(1, group=f"{name}%g", topic=f"{name}%t", lease_ms=60_000)
    return store


def hold(store: OpenStore, *names: str, number: int = 1) -> None:
    request = NamespaceHoldRequest(namespaces=list(names), number=number)
    store.store.consumption.moving.hold(request)


def release(store: OpenStore, number: int) -> None:
    store.store.consumption.moving.release(NamespaceReleaseRequest(number=number))


def drop(store: OpenStore, number: int) -> tuple[int, int]:
    reply = store.store.consumption.moving.drop(NamespaceDropRequest(number=number))
    return reply.topic_count, reply.group_count


async def put_codes(store: OpenStore, *topics: str) -> list[int]:
    """Of one frame: 0 for a record that is stored, else the code of its refusal."""
    put = await store.put(*(message(b"x", topic=topic) for topic in topics))
    return [max(-queue_offset, 0) for queue_offset, _ in put.offsets]


def is_refused(store: OpenStore, request: object) -> bool:
    try:
        check_not_held(store.store.catalog.holds, request)
    except NamespaceMoved:
        return True
    return False


def requests_for(name: str) -> Sequence[object]:
    receive = ReceiveRequest(
        group=f"{name}%g", topic=f"{name}%t", member_id="m", messages_max=1, bytes_max=1,
        wait_ms=0, lease_ms=1_000,
    )  # fmt: skip
    listing = ScheduledListRequest(topic=name, is_namespace=True, messages_max=1, bytes_max=1)
    return (
        receive,
        listing,
        SettleRequest(group=f"{name}%g"),
        GroupConfig(group=f"{name}%new"),
        TopicConfig(topic=f"{name}%new", queue_count=1),
        TopicRef(topic=dlq_topic_of(f"{name}%g")),
        TopicRef(topic=retry_topic_of(f"{name}%g")),
    )


async def test_whatever_names_a_held_namespace_is_refused_and_nothing_else(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    hold(store, "acme")
    assert [is_refused(store, each) for each in requests_for("acme")] == [True] * 7
    assert [is_refused(store, each) for each in requests_for("rival")] == [False] * 7
    assert await put_codes(store, "rival%t", "acme%t") == [0, NamespaceMoved.code]
    await store.close()


async def test_a_hold_waits_for_what_the_disk_has_not_yet(tmp_path: Path) -> None:
    """The put is acknowledged after the hold, so a copy that begins then must have it."""
    store = await begun(tmp_path / "s")
    store.files.syncing.clear()
    store.files.sync_gate = threading.Event()
    put = store.start_put([message(b"last", topic="acme%t")])
    request = NamespaceHoldRequest(namespaces=["acme"], number=1)
    moving = store.store.consumption.moving
    held = asyncio.ensure_future(store.store.move(lambda: moving.hold(request)))
    await asyncio.to_thread(store.files.syncing.wait, WAIT_S)
    assert store.store.catalog.holds.namespaces_of(1) == {"acme"}
    assert not held.done()
    store.files.sync_gate.set()
    await asyncio.wait_for(held, WAIT_S)
    log = store.store.parts.commit_log
    assert log.flushed_offset == log.append_offset
    assert (await put).error is None
    await store.close()


async def test_a_hold_says_so_if_the_disk_refuses_what_was_put_before(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    store.files.sync_failures = 1
    put = store.start_put([message(b"last", topic="acme%t")])
    request = NamespaceHoldRequest(namespaces=["acme"], number=1)
    moving = store.store.consumption.moving
    with pytest.raises(SyncFailed):
        await store.store.move(lambda: moving.hold(request))
    release(store, 1)
    assert (await put).error is None  # it was written anew
    await store.close()


async def test_a_delayed_message_for_a_held_namespace_is_refused(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    hold(store, "acme")
    put = await store.put(delayed(b"later", delay_ms=60_000, topic="acme%t"))
    assert put.offsets[0][0] == -NamespaceMoved.code
    await store.close()


async def test_a_waiting_receive_ends_with_nothing(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    store.receive(group="acme%g", topic="acme%t")
    answers, _ = store.park(group="acme%g", topic="acme%t")
    hold(store, "acme")
    assert [answer.bodies for answer in answers] == [[]]
    await store.close()


async def test_changes_that_wait_for_the_disk_come_before_a_hold(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    told: list[object] = []
    store.store.catalog.topic_writes.put(TopicConfig(topic="acme%late", queue_count=1), told.append)
    hold(store, "acme")
    await asyncio.wait_for(asyncio.sleep(0), WAIT_S)
    assert told == [None]
    assert "acme%late" in store.store.catalog.topics
    assert await put_codes(store, "acme%late") == [NamespaceMoved.code]
    await store.close()


async def test_a_hold_lasts_over_a_restart_until_it_is_released(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    hold(store, "acme", number=7)
    await store.close()
    store = OpenStore(tmp_path / "s").open()
    assert store.store.catalog.holds.numbers == {"acme": 7}
    assert await put_codes(store, "acme%t") == [NamespaceMoved.code]
    release(store, 7)
    assert await put_codes(store, "acme%t") == [0]
    await store.close()


async def test_a_hold_that_comes_after_its_release_is_refused(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    release(store, 7)
    with pytest.raises(BadRequest, match="released"):
        hold(store, "acme", number=7)
    assert await put_codes(store, "acme%t") == [0]
    hold(store, "acme", number=8)
    await store.close()


async def test_a_late_release_leaves_the_hold_of_a_later_attempt(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    hold(store, "acme", number=8)
    release(store, 7)
    assert await put_codes(store, "acme%t") == [NamespaceMoved.code]
    await store.close()


async def test_a_drop_deletes_what_its_hold_refuses_and_nothing_else(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    store.receive(1, group="acme%g", topic="acme%t", lease_ms=60_000)
    hold(store, "acme", number=3)
    assert drop(store, 2) == (0, 0)
    assert drop(store, 3) == (1, 1)
    assert drop(store, 3) == (0, 0)
    catalog = store.store.catalog
    assert [name for name in catalog.topics if "acme" in name] == []
    assert list(catalog.groups) == ["rival%g"]
    assert store.receive(group="rival%g", topic="rival%t").bodies == [b"b"]
    await store.close()


async def test_retries_and_dead_letters_go_with_their_group(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    leased = store.receive(1, group="acme%g", topic="acme%t", lease_ms=60_000)
    store.store.consumption.settle(nack(leased, group="acme%g", delay_ms=1_000))
    await store.settled()
    hold(store, "acme")
    drop(store, 1)
    await store.pass_time(5_000)
    assert [name for name in store.store.catalog.topics if "acme" in name] == []
    await store.close()


def discard(store: OpenStore, number: int) -> list[str]:
    """What the store has of ``acme`` afterwards."""
    request = StoreDiscardRequest(namespaces=["acme"], number=number)
    store.store.consumption.moving.discard(request)
    catalog = store.store.catalog
    return sorted(name for name in {*catalog.topics, *catalog.groups} if "acme" in name)


async def test_what_was_copied_is_deleted_once_and_not_adopted_later(tmp_path: Path) -> None:
    store = await begun(tmp_path / "s")
    await store.close()
    write_split_number(Files(), tmp_path / "s", 7)
    store = OpenStore(tmp_path / "s").open()
    assert discard(store, 6) == ["acme%g", "acme%t"], "it came from another split"
    assert discard(store, 7) == []
    assert list(store.store.catalog.groups) == ["rival%g"]
    assert discarded_number_of(tmp_path / "s") == 7
    store.topic("acme%t")  # of a namespace that came since
    assert discard(store, 7) == ["acme%t"]
    await store.close()


async def test_what_moved_is_refused_until_nobody_can_still_believe_in_it(tmp_path: Path) -> None:
    clock = ManualClock()
    store = await begun(tmp_path / "s", clock)
    hold(store, "acme")
    drop(store, 1)
    release(store, 1)  # of a command that was too late
    again = TopicConfig(topic="acme%t", queue_count=1)
    assert is_refused(store, again)
    clock.advance(MOVED_MS + 1)
    assert not is_refused(store, again)
    store.topic("acme%t")
    assert await put_codes(store, "acme%t") == [0]
    await store.close()
