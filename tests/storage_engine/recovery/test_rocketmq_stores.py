"""Stores that RocketMQ has written with its defaults: all of it is there, and nothing is cut."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from storage_engine.errors import RecordUnsupported, StoreCorrupt
from storage_engine.log.checkpoint import is_of_rocketmq
from storage_engine.records.key_hash import key_hash
from storage_engine.records.record import decode_record, verify_record
from storage_engine.records.record_run import decode_records
from storage_engine.records.schedule_topic import SCHEDULE_TOPIC
from storage_engine.tools.verify.report import Kind, Report
from storage_engine.tools.verify.verification import Verification
from storage_engine.wire.reads import LookUpRequest, PullRequest
from tests.storage_engine.doubles import OpenStore, fingerprint, message
from tests.storage_engine.independent_reader import read_consumer_offsets
from tests.storage_engine.rocketmq_store import (
    PREPARED,
    ROLLED_BACK,
    STORED_MS,
    RocketmqStore,
    rocketmq_record,
)

INDEX_SLOTS = 5
RUN_FILES = ("epoch", "lock", "abort", "checkpoint")


def bodies_of(store: OpenStore, topic: str, queue_id: int) -> list[bytes]:
    request = PullRequest(
        topic=topic, queue_id=queue_id, queue_offset=0, messages_max=1_000, bytes_max=1 << 20
    )
    _, found = store.store.pull(request)
    return [record.body for record in decode_records(store.store.read_records(found))]


def written(path: Path, *, segment_bytes: int = 4_096, is_clean: bool = True) -> RocketmqStore:
    store = RocketmqStore(segment_bytes=segment_bytes, queue_file_units=4)
    for number in range(30):
        store.add(b"body %d " % number + bytes(number * 31 % 400), queue_id=number % 2)
    store.offsets = {"t@g": {0: 10, 1: 5}}
    store.write(path, is_clean=is_clean)
    return store


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped in order", "killed"])
async def test_a_store_without_crc_properties_is_served_whole(
    tmp_path: Path, is_clean: bool
) -> None:
    theirs = written(tmp_path / "s", is_clean=is_clean)
    before = fingerprint(tmp_path / "s" / "commitlog")
    queues = fingerprint(tmp_path / "s" / "consumequeue")
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies(0) == theirs.bodies[::2]
        assert store.pull_bodies(1) == theirs.bodies[1::2]
        assert (store.consumer_offset(0), store.consumer_offset(1)) == (10, 5)
        assert store.receive().bodies == [*theirs.bodies[20::2], *theirs.bodies[11::2]]
        head, content = store.store.queries.look_up(
            LookUpRequest(topic="t", key="k7", messages_max=5, bytes_max=1 << 20)
        )
        assert [record.body for record in decode_records(content)] == [theirs.bodies[7]]
        assert head.cursor == ""
        assert not (tmp_path / "s" / "config" / "quarantine.json").exists()
    assert fingerprint(tmp_path / "s" / "commitlog") == before
    after = fingerprint(tmp_path / "s" / "consumequeue")
    assert {name: after[name] for name in queues} == queues
    verification = Verification(tmp_path / "s", index_slots=5)
    list(verification.run())
    assert [finding.kind for finding in verification.report.findings] == []


async def test_messages_of_ours_behind_theirs_stand_in_one_log(tmp_path: Path) -> None:
    theirs = written(tmp_path / "s")
    async with OpenStore(tmp_path / "s") as store:
        await store.put_bodies(b"ours", queue_id=1)
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies(1) == [*theirs.bodies[1::2], b"ours"]


async def test_what_only_rocketmq_knows_of_its_tables_stays(tmp_path: Path) -> None:
    written(tmp_path / "s")
    config = tmp_path / "s" / "config"
    async with OpenStore(tmp_path / "s") as store:
        store.topic("new")
        store.topic("t", queues=3)
        store.group("g")
        store.ack(store.receive(1))
        await store.store.checkpoint()
    topics = json.loads((config / "topics.json").read_text())["topicConfigTable"]
    assert (topics["t"]["topicSysFlag"], topics["t"]["writeQueueNums"]) == (2, 3)
    assert topics["t"]["attributes"]["+unknown.attribute"] == "kept"
    groups = json.loads((config / "subscriptionGroup.json").read_text())
    assert groups["forbiddenTable"] == {}
    assert groups["subscriptionGroupTable"]["g"]["groupRetryPolicy"] == {"type": "CUSTOMIZED"}
    offsets = (config / "consumerOffset.json").read_text()
    assert '"t@g":{0:11,1:5,2:0}' in offsets
    assert '"counter":7' in offsets
    assert read_consumer_offsets(tmp_path / "s")["g", "t", 0] == 11


async def test_a_topic_that_rocketmq_knows_nothing_more_of_may_have_null_for_attributes(
    tmp_path: Path,
) -> None:
    written(tmp_path / "s")
    path = tmp_path / "s" / "config" / "topics.json"
    path.write_text(path.read_text().replace('{"+unknown.attribute":"kept"}', "null"))
    async with OpenStore(tmp_path / "s") as store:
        assert len(store.pull_bodies(0)) == 15


async def test_records_of_transactions_that_nobody_may_see_are_in_no_queue(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"before")
    theirs.add(b"prepared", sysflag=PREPARED)
    theirs.add(b"rolled back", sysflag=ROLLED_BACK)
    theirs.add(b"committed", sysflag=8)
    theirs.write(tmp_path / "s")
    async with OpenStore(tmp_path / "s") as store:
        assert store.pull_bodies() == [b"before", b"committed"]
    verification = Verification(tmp_path / "s", index_slots=5)
    list(verification.run())
    assert verification.report.findings == []


async def test_what_rocketmq_has_scheduled_is_due_when_rocketmq_would_deliver_it(
    tmp_path: Path,
) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"now", topic="t")
    for delay, level in ((b"5s", 2), (b"2h", 18)):
        properties = f"REAL_TOPIC\x01t\x02DELAY\x01{level}\x02REAL_QID\x010"
        theirs.add(delay, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties)
    theirs.write(tmp_path / "s")
    async with OpenStore(tmp_path / "s") as store:
        queue = store.store.catalog.get_queues(SCHEDULE_TOPIC)[1]
        assert queue.unit(0)[2] == STORED_MS + 5_000
        assert store.pull_bodies() == [b"now"]
        await store.pass_time(STORED_MS + 5_000 - store.clock.now_ms())
        assert store.pull_bodies() == [b"now", b"5s"]


@pytest.mark.parametrize("sysflag", [0, 16, 32, 48])
@pytest.mark.parametrize("topic", ["t", "n" * 200])
@pytest.mark.parametrize(
    "properties", ["", "a\x01b", "UNIQ_KEY\x01x\x02KEYS\x01k l\x02TAGS\x01red"]
)
def test_every_kind_of_record_without_a_crc_is_whole(
    sysflag: int, topic: str, properties: str
) -> None:
    record = rocketmq_record(body=b"b", topic=topic, properties=properties, sysflag=sysflag)
    assert verify_record(record).record_bytes == len(record)
    read = decode_record(record)
    assert decode_records(record) == [read]
    assert (read.topic, read.body) == (topic, b"b")
    assert read.tag == ("red" if "TAGS" in properties else None)
    assert read.properties == ({"a": "b"} if properties.startswith("a") else {})


def test_a_compressed_body_is_read_as_it_was_sent() -> None:
    body = bytes(10_000)
    record = rocketmq_record(body=zlib.compress(body), sysflag=1)
    assert decode_record(record).body == decode_records(record)[0].body == body
    bomb = rocketmq_record(body=zlib.compress(bytes(5 << 20)), sysflag=1)
    assert len(decode_record(bomb).body) < 10_000
    lz4 = rocketmq_record(body=b"lz4", sysflag=1 | 1 << 8)
    assert decode_record(lz4).body == b"lz4"


def test_every_damage_to_a_body_without_a_crc_property_is_noticed() -> None:
    record = rocketmq_record(body=b"some body")
    for at in range(88, 97):
        for bit in range(8):
            hurt = bytearray(record)
            hurt[at] ^= 1 << bit
            with pytest.raises(StoreCorrupt):
                verify_record(bytes(hurt))
    for length in range(len(record)):
        with pytest.raises(StoreCorrupt):
            verify_record(record[:length] + bytes(len(record) - length))


@pytest.mark.parametrize("topic", [".", "..", "a/b", "a\0b"])
def test_a_topic_that_is_no_directory_is_no_record(topic: str) -> None:
    with pytest.raises(StoreCorrupt, match="topic"):
        verify_record(rocketmq_record(body=b"b", topic=topic))


async def test_an_inner_batch_is_refused_and_kept(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4)
    theirs.add(b"before")
    theirs.add(b"batch", sysflag=1 << 7)
    theirs.write(tmp_path / "s")
    before = fingerprint(tmp_path / "s")
    with pytest.raises(RecordUnsupported, match="inner batch"):
        OpenStore(tmp_path / "s").open()
    assert fingerprint(tmp_path / "s") == before


async def test_a_log_whose_first_files_rocketmq_has_deleted_begins_later(tmp_path: Path) -> None:
    theirs = RocketmqStore(queue_file_units=4, base_offset=3 * 4_096)
    theirs.units["t", 0] = [struct.pack(">qiq", 100 * n, 100, 0) for n in range(6)]
    theirs.add(b"left")
    theirs.write(tmp_path / "s")
    async with OpenStore(tmp_path / "s") as store:
        (queue,) = store.store.catalog.get_queues("t")
        assert (queue.min_offset, queue.max_offset) == (6, 7)
        assert store.pull_bodies(queue_offset=6) == [b"left"]


async def test_our_store_with_records_that_rocketmq_has_added_has_all_of_them(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    async with OpenStore(path) as store:
        store.topic()
        store.group()
        await store.put_bodies(b"a", b"b", b"c")
        store.ack(store.receive(2))
        end = store.store.stats(0).append_offset
    segment = path / "commitlog" / f"{0:020d}"
    content = bytearray(segment.read_bytes())
    added = b""
    for number in range(3):
        added += rocketmq_record(
            body=b"added %d" % number, queue_offset=3 + number, physical_offset=end + len(added)
        )
    content[end : end + len(added)] = added
    segment.write_bytes(content)
    times = struct.pack(">qqqqq", STORED_MS + 1, STORED_MS, STORED_MS, 0, -1)
    checkpoint = path / "checkpoint"
    checkpoint.write_bytes(times + checkpoint.read_bytes()[len(times) :])
    (path / "config" / "consumerOffset.json").write_text(
        '{"dataVersion":{"counter":1},"offsetTable":{"t@g":{0:4}}}'
    )
    async with OpenStore(path) as store:
        assert store.pull_bodies() == [b"a", b"b", b"c", b"added 0", b"added 1", b"added 2"]
        assert store.consumer_offset() == 4
        assert store.receive().bodies == [b"added 1", b"added 2"]


async def test_records_that_rocketmq_added_before_it_was_killed_are_kept(tmp_path: Path) -> None:
    """It had not written its checkpoint, so ours is still there and says nothing of them."""
    path = tmp_path / "s"
    async with OpenStore(path) as store:
        store.topic()
        await store.put_bodies(b"a")
        end = store.store.stats(0).append_offset
    segment = path / "commitlog" / f"{0:020d}"
    content = bytearray(segment.read_bytes())
    added = rocketmq_record(body=b"added", queue_offset=1, physical_offset=end)
    content[end : end + len(added) + 4] = added + b"torn"
    segment.write_bytes(content)
    (path / "abort").write_text("4711")
    before = fingerprint(path)
    with pytest.raises(StoreCorrupt, match="repair"):
        OpenStore(path).open()
    assert fingerprint(path) == before
    content[end + len(added) :] = bytes(len(content) - end - len(added))
    segment.write_bytes(content)
    async with OpenStore(path) as store:
        assert store.pull_bodies() == [b"a", b"added"]


# What broker 5.4.0 keeps beside the files that this engine knows.
ROCKETMQ_FILES = (
    "abort.bak",
    "compaction/position-checkpoint",
    "compaction/position-checkpoint.bak",
    "config/timercheck",
    "config/timermetrics",
    "config/timermetrics.bak",
    "config/topics.json.bak",
    "config/transactionMetrics",
    "rocksdbstore/CURRENT",
    "rocksdbstore/MANIFEST-000005",
    "timerlog/00000000000000000000",
    "timerwheel",
)


def verified(path: Path) -> Report:
    verification = Verification(path, index_slots=INDEX_SLOTS)
    list(verification.run())
    return verification.report


def test_verify_names_what_only_rocketmq_uses_and_finds_nothing(tmp_path: Path) -> None:
    written(tmp_path / "s")
    for name in ROCKETMQ_FILES:
        path = tmp_path / "s" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"theirs")
    report = verified(tmp_path / "s")
    assert report.findings == []
    assert report.counts["RocketMQ's own"].file_count == len(ROCKETMQ_FILES) - 1
    (named,) = [note for note in report.notes if "belong to RocketMQ" in note]
    assert named.endswith(
        "abort.bak, compaction/, config/timercheck, config/timermetrics, "
        "config/transactionMetrics, rocksdbstore/, timerlog/, timerwheel"
    )
    assert any("a RocketMQ broker was the last to run" in note for note in report.notes)
    (tmp_path / "s" / "timerwheels").write_bytes(b"?")
    assert [found.path for found in verified(tmp_path / "s").findings] == ["timerwheels"]


async def closed(path: Path) -> Path:
    """A store of ours that has stopped in order."""
    async with OpenStore(path, limits={"index_slots": INDEX_SLOTS}) as store:
        store.topic()
        await store.put(message(b"a", tag="red"), message(b"b", tag="blue"), message(b"c"))
    return path


@pytest.mark.parametrize("times", [(STORED_MS + 1, STORED_MS, 0), (STORED_MS, STORED_MS, 7)])
async def test_verify_knows_a_checkpoint_that_rocketmq_wrote_over_ours(
    tmp_path: Path, times: tuple[int, int, int]
) -> None:
    path = await closed(tmp_path / "s") / "checkpoint"
    content = path.read_bytes()
    path.write_bytes(struct.pack(">qqqqq", *times, 0, -1) + content[40:])
    report = verified(tmp_path / "s")
    assert report.findings == []
    assert any("a RocketMQ broker was the last to run" in note for note in report.notes)


async def test_verify_knows_by_the_offsets_that_rocketmq_ran_when_its_times_are_the_same(
    tmp_path: Path,
) -> None:
    path = await closed(tmp_path / "s") / "checkpoint"
    content = path.read_bytes()
    path.write_bytes(struct.pack(">qq", STORED_MS, STORED_MS) + content[16:])
    assert [found.kind for found in verified(tmp_path / "s").findings] == [Kind.CHECKPOINT_DAMAGED]
    offsets = tmp_path / "s" / "config" / "consumerOffset.json"
    offsets.write_text('{"dataVersion":{"counter":1},"offsetTable":{"t@g":{0:1}}}')
    assert verified(tmp_path / "s").findings == []
    offsets.write_text('{"dataVersion":{"counter":1},"engine":1,"offsetTable":{"t@g":{0:1}}}')
    assert [found.kind for found in verified(tmp_path / "s").findings] == [Kind.CHECKPOINT_DAMAGED]


@pytest.mark.parametrize("at", [0, 16, 24, 39, 40, 48, 53, 56, 71, 72, 75])
async def test_a_damaged_checkpoint_of_ours_is_not_taken_for_one_of_rocketmq(
    tmp_path: Path, at: int
) -> None:
    path = await closed(tmp_path / "s") / "checkpoint"
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)
    assert not is_of_rocketmq(path)
    assert Kind.CHECKPOINT_DAMAGED in {found.kind for found in verified(tmp_path / "s").findings}


async def test_verify_compares_the_index_that_rocketmq_leaves_with_its_entries_of_tags(
    tmp_path: Path,
) -> None:
    """Since 5.4 it has an entry for each tag behind those of the keys."""
    path = await closed(tmp_path / "s")
    (file,) = (path / "index").iterdir()
    entries_at = 40 + INDEX_SLOTS * 4
    content = file.read_bytes()
    begin_ms, end_ms, first, last, _, number = struct.unpack_from(">qqqqii", content)
    keys = [struct.unpack_from(">iqii", content, entries_at + n * 20) for n in range(1, number)]
    assert len(keys) == 3
    theirs = [keys[0]]
    theirs.append((key_hash(b"t", b"T#red"), *keys[0][1:]))
    theirs.append(keys[1])
    theirs.append((key_hash(b"t", b"T#blue"), *keys[1][1:]))
    theirs.append(keys[2])

    def rewrite(entries: list[tuple[int, int, int, int]]) -> None:
        slots = [0] * INDEX_SLOTS
        table = bytearray(content[:entries_at] + bytes(len(content) - entries_at))
        for number, (hash_, place, seconds, _) in enumerate(entries, 1):
            slot = hash_ % INDEX_SLOTS
            entry = (hash_, place, seconds, slots[slot])
            struct.pack_into(">iqii", table, entries_at + number * 20, *entry)
            slots[slot] = number
        used = sum(map(bool, slots))
        struct.pack_into(">qqqqii", table, 0, begin_ms, end_ms, first, last, used, len(entries) + 1)
        struct.pack_into(f">{INDEX_SLOTS}i", table, 40, *slots)
        file.write_bytes(table)

    rewrite(theirs)
    checkpoint = path / "checkpoint"
    times = struct.pack(">qqqqq", STORED_MS + 1, STORED_MS, 0, 0, -1)
    checkpoint.write_bytes(times + checkpoint.read_bytes()[40:])
    report = verified(path)
    assert report.findings == []
    assert report.counts["index files"].item_count == 5
    rewrite([*theirs[:3], (key_hash(b"t", b"T#red"), *keys[1][1:]), keys[2]])
    assert {found.kind for found in verified(path).findings} == {Kind.INDEX_ENTRY_WRONG}
    rewrite(theirs[1:])
    assert Kind.INDEX_ENTRY_MISSING in {found.kind for found in verified(path).findings}
