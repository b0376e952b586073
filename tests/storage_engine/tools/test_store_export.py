"""A namespace of this engine's store as a store of RocketMQ: every message, none twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_engine.records.record import decode_record
from storage_engine.tools.transfer.exporting import export_store
from storage_engine.tools.transfer.importing import inspect_store
from storage_engine.tools.transfer.report import ExportReport
from storage_engine.tools.transfer.source import RocketmqStore, SourceRejected
from storage_engine.wire.deliveries import Nack, SettleRequest
from storage_engine.wire.groups import Dispatch, GroupConfig
from tests.storage_engine.doubles import (
    Leased,
    ManualClock,
    OpenStore,
    fingerprint,
    message,
    tiny_config,
)
from tests.storage_engine.independent_reader import read_consumer_offsets
from tests.storage_engine.schedule.delaying import delayed, put_delayed
from tests.storage_engine.tools.test_store_import import (
    LIMITS,
    hashes,
    hurt,
    ignored,
    imported,
    messages_of,
    segments,
)

DUE_MS = ManualClock().now_ms() + 90_500


async def exported(source: Path, target: Path, namespace: str = "acme") -> ExportReport:
    before = hashes(source)
    report = await export_store(
        source, tiny_config(target), namespace, clock=ManualClock(), on_progress=ignored
    )
    assert hashes(source) == before
    return report


def nack(store: OpenStore, leased: Leased, *, is_dead: bool = False) -> None:
    (record,) = leased.records
    given = Nack(
        topic=record.topic,
        queue_id=record.queue_id,
        lease_generation=leased.generation,
        queue_offset=record.queue_offset,
        delay_ms=None if is_dead else 60_000,
        is_dead=is_dead,
        reason="bad",
    )
    store.store.consumption.settle(SettleRequest(group="acme%g", nacks=[given]))


async def filled(path: Path) -> Path:
    """Two queues half read, one message to retry, one dead, one delayed, one of somebody else."""
    async with OpenStore(path) as store:
        store.topic("acme%t", queues=2)
        store.topic("acme%empty")
        store.topic("other%t")
        store.group("acme%g")
        store.group("other%g")
        for number in range(12):
            body = b"%d" % number
            await store.put(message(body, topic="acme%t", queue_id=number % 2, tag="red"))
        await store.put(message(b"not mine", topic="other%t"))
        await put_delayed(store, delayed(b"delayed", 1, deliver_at_ms=DUE_MS, topic="acme%t"))
        first = store.receive(4, topic="acme%t", group="acme%g")
        store.ack(first, group="acme%g")
        failed = store.receive(1, topic="acme%t", group="acme%g")
        nack(store, failed)
        dead = store.receive(1, topic="acme%t", group="acme%g")
        nack(store, dead, is_dead=True)
        await store.settled()
    return path


async def test_a_namespace_is_all_there_and_nothing_else(tmp_path: Path) -> None:
    report = await exported(await filled(tmp_path / "ours"), tmp_path / "theirs")
    assert [(topic.name, topic.messages) for topic in report.topics] == [("empty", 0), ("t", 12)]
    assert report.groups == ["g"]
    assert (report.delayed.messages, report.retries, report.dead_letters) == (2, 0, 1)
    assert report.verified_messages == 12 + 2 + 1
    names = {path.name for path in (tmp_path / "theirs").iterdir()}
    assert names == {"commitlog", "consumequeue", "index", "config", "checkpoint"}
    config = tmp_path / "theirs" / "config"
    assert {path.name for path in config.iterdir()} == {
        "topics.json", "subscriptionGroup.json", "consumerOffset.json"
    }  # fmt: skip
    topics = json.loads((config / "topics.json").read_text())["topicConfigTable"]
    assert set(topics) == {"t", "empty", "%DLQ%g", "rmq_sys_wheel_timer"}
    assert topics["t"]["readQueueNums"] == topics["t"]["writeQueueNums"] == 2
    assert b'"t@g":{0:' in (config / "consumerOffset.json").read_bytes()
    offsets = read_consumer_offsets(tmp_path / "theirs")
    assert sum(offsets["g", "t", queue_id] for queue_id in (0, 1)) == 6


async def test_delayed_messages_and_retries_wait_in_the_timing_wheel(tmp_path: Path) -> None:
    await exported(await filled(tmp_path / "ours"), tmp_path / "theirs")
    found = {}
    with RocketmqStore(tmp_path / "theirs") as store:
        for record in store.records():
            if record.head.topic == b"rmq_sys_wheel_timer":
                read = decode_record(record.view, record.at)
                found[read.body] = read.properties
    plain = found.pop(b"delayed")
    assert (plain["REAL_TOPIC"], plain["REAL_QID"]) == ("t", "0")
    assert plain["TIMER_DELIVER_MS"] == str(DUE_MS)
    assert plain["TIMER_OUT_MS"] == str(DUE_MS - 500)
    ((_, retry),) = found.items()
    assert (retry["REAL_TOPIC"], retry["RETRY_TOPIC"]) == ("%RETRY%g", "t")
    assert "DELAY" not in retry
    assert "__SETTLES" not in retry


async def test_what_was_exported_can_be_imported_again(tmp_path: Path) -> None:
    await exported(await filled(tmp_path / "ours"), tmp_path / "theirs")
    report = await imported(tmp_path / "theirs", tmp_path / "back")
    assert (report.messages, report.timers.messages, report.dead_letters) == (12, 2, 1)
    assert [each for each in report.left_behind if each.is_loss] == []
    async with OpenStore(tmp_path / "ours") as before, OpenStore(tmp_path / "back") as after:
        for queue_id in (0, 1):
            known = messages_of(before, "acme%t", queue_id)
            assert messages_of(after, "acme%t", queue_id) == known
        rest = before.receive(12, topic="acme%t", group="acme%g").bodies
        assert after.receive(12, topic="acme%t", group="acme%g").bodies == rest
        await after.pass_time(120_000)
        bodies = [body for _, body in messages_of(after, "acme%t", 0)]
        assert bodies.count(b"delayed") == 1


async def test_queues_begin_where_they_began(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "ours", limits={"retention_ms": 1_000}) as store:
        store.topic("acme%t")
        for number in range(40):
            await store.put(message(b"%d" % number + bytes(300), topic="acme%t"))
        store.clock.advance(60_000)
        await store.put(message(b"last" + bytes(300), topic="acme%t"))
        await store.store.checkpoint()
        await store.store.retention.run()
        known = messages_of(store, "acme%t", 0)
    assert known[0][0] > 0
    report = await exported(tmp_path / "ours", tmp_path / "theirs")
    assert report.messages == len(known)
    found = inspect_store(tmp_path / "theirs", "acme", LIMITS, on_progress=ignored)
    assert found.messages == len(known)
    await imported(tmp_path / "theirs", tmp_path / "back")
    async with OpenStore(tmp_path / "back") as store:
        assert messages_of(store, "acme%t", 0) == known


async def test_it_says_what_rocketmq_will_not_do(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "ours") as store:
        store.topic("acme%t")
        store.group("acme%g")
        store.store.catalog.group_put(GroupConfig(group="acme%all", dispatch=Dispatch.BROADCAST))
        json_body = {"__MQ_BODY": "json", "empty": ""}
        await store.put(message(b"{}", topic="acme%t", properties=json_body))
        await store.put(message(b"2", topic="acme%t"))
        leased = store.receive(2, topic="acme%t", group="acme%g")
        store.ack(leased, 1, group="acme%g")
    notes = "\n".join((await exported(tmp_path / "ours", tmp_path / "theirs")).notes)
    assert "1 bodies were sent as JSON: their property __MQ_BODY says so" in notes
    assert "1 messages have a property with an empty value" in notes
    assert "1 messages were settled out of order" in notes
    assert "1 groups have broadcast dispatch" in notes


async def test_all_namespaces_keep_their_prefix_which_rocketmq_knows(tmp_path: Path) -> None:
    report = await exported(await filled(tmp_path / "ours"), tmp_path / "theirs", "")
    names = [topic.name for topic in report.topics]
    assert names == ["acme%empty", "acme%t", "other%t"]
    assert report.groups == ["acme%g", "other%g"]


async def test_a_namespace_that_is_not_there_is_refused(tmp_path: Path) -> None:
    source = await filled(tmp_path / "ours")
    with pytest.raises(
        SourceRejected, match="has no topic or group of namespace none; it has acme, oth"
    ):
        await exported(source, tmp_path / "theirs", "none")
    assert not (tmp_path / "theirs").exists()


async def test_a_store_that_an_engine_has_open_is_refused(tmp_path: Path) -> None:
    source = await filled(tmp_path / "ours")
    async with OpenStore(source):
        before = fingerprint(source)
        with pytest.raises(SourceRejected, match="is in use"):
            await exported(source, tmp_path / "theirs")
        assert fingerprint(source) == before


async def test_what_is_due_by_now_stands_where_a_wheel_still_looks(tmp_path: Path) -> None:
    """A broker begins with the last seven days of its wheel."""
    source, clock = await filled(tmp_path / "ours"), ManualClock(DUE_MS + 30 * 86_400_000)
    await export_store(
        source, tiny_config(tmp_path / "theirs"), "acme", clock=clock, on_progress=ignored
    )
    with RocketmqStore(tmp_path / "theirs") as store:
        found = [
            decode_record(record.view, record.at).properties
            for record in store.records()
            if record.head.topic == b"rmq_sys_wheel_timer"
        ]
    assert len(found) == 2
    for properties in found:
        assert 0 < clock.now_ms() - int(properties["TIMER_OUT_MS"]) <= 1_000
    assert str(DUE_MS) in {properties["TIMER_DELIVER_MS"] for properties in found}


async def test_what_was_delivered_or_settled_is_not_exported_again(tmp_path: Path) -> None:
    async with OpenStore(tmp_path / "ours") as store:
        store.topic("acme%t")
        store.group("acme%g")
        await store.put(message(b"retried", topic="acme%t"))
        await put_delayed(store, delayed(b"delayed", 1, delay_ms=500, topic="acme%t"))
        nack(store, store.receive(1, topic="acme%t", group="acme%g"))
        await store.pass_time(60_001)
        received = store.receive(2, topic="acme%t", group="acme%g")
        assert sorted(received.bodies) == [b"delayed", b"retried"]
        store.ack(received, group="acme%g")
        store.topic("acme%gone")
        await store.put(message(b"deleted", topic="acme%gone"))
        store.store.consumption.deletions.topic_delete("acme%gone")
    report = await exported(tmp_path / "ours", tmp_path / "theirs")
    assert [(topic.name, topic.messages) for topic in report.topics] == [("t", 2)]
    assert (report.delayed.messages, report.retries) == (0, 0)
    assert report.verified_messages == 2


async def test_a_damaged_store_is_not_exported(tmp_path: Path) -> None:
    source = await filled(tmp_path / "ours")
    hurt(segments(source)[0], 120)
    with pytest.raises(SourceRejected, match="is no record"):
        await exported(source, tmp_path / "theirs")
