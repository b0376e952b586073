"""Many mixed records, read back record for record by a reader that shares no code."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

from storage_engine.records.record import StoreMessage
from storage_engine.tools.verify.verification import Verification
from tests.sizes import sized
from tests.storage_engine.doubles import fingerprint
from tests.storage_engine.independent_reader import (
    IndexFile,
    StoredRecord,
    Unit,
    java_hash_code,
    key_hash,
    read_log,
    read_queues,
)
from tests.storage_engine.mixed_store import INDEX_SLOTS, TOPICS, SentMessage, fill

RECORD_COUNT: Final = sized(30_000, torture=100_000)
pytestmark = pytest.mark.sized
Filled = tuple[Path, list[SentMessage], list[StoredRecord]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The store's directory, what was sent, and what the independent reader finds in the log."""
    store_dir = tmp_path_factory.mktemp("large") / "store"
    sent = asyncio.run(fill(store_dir, RECORD_COUNT))
    return store_dir, sent, list(read_log(store_dir))


def properties_of(message: StoreMessage) -> dict[str, str]:
    """What RocketMQ's property list has to say about a message."""
    expected = dict(message.properties)
    if message.keys:
        expected["KEYS"] = " ".join(message.keys)
    if message.tag is not None:
        expected["TAGS"] = message.tag
    if message.message_group is not None:
        expected["__SHARDINGKEY"] = message.message_group
    expected["UNIQ_KEY"] = message.message_id
    return expected


def test_every_record_of_the_log_is_what_was_sent(filled: Filled) -> None:
    _, sent, found = filled
    assert len(found) == len(sent) == RECORD_COUNT
    stamp = 0
    for record, expected in zip(found, sent, strict=True):
        message = expected.message
        is_v6 = ":" in message.born_host[0]
        assert record == StoredRecord(
            physical_offset=expected.physical_offset,
            record_bytes=record.record_bytes,
            version=2 if len(message.topic) > 127 else 1,
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=expected.queue_offset,
            sysflag=16 if is_v6 else 0,
            born_timestamp_ms=message.born_timestamp_ms,
            born_host=message.born_host,
            store_timestamp_ms=record.store_timestamp_ms,
            store_host=("127.0.0.1", 10_911),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=0,
            body_bytes=expected.body_bytes,
            body_sha256=expected.body_sha256,
            topic=message.topic,
            properties=properties_of(message),
        )
        assert record.store_timestamp_ms >= stamp
        stamp = record.store_timestamp_ms


def test_every_consume_queue_leads_to_its_records_in_order(filled: Filled) -> None:
    store_dir, _, found = filled
    expected: dict[tuple[str, int], list[Unit]] = defaultdict(list)
    for record in found:
        units = expected[record.topic, record.queue_id]
        assert record.queue_offset == len(units)
        tag_code = java_hash_code(record.properties.get("TAGS", ""))
        units.append(Unit(record.physical_offset, record.record_bytes, tag_code))
    assert len(expected) == sum(topic.queue_count for topic in TOPICS)
    assert read_queues(store_dir) == expected


def test_every_key_leads_to_its_records(filled: Filled) -> None:
    store_dir, _, found = filled
    files = [IndexFile(path, INDEX_SLOTS) for path in sorted((store_dir / "index").iterdir())]
    assert len(files) > 1
    expected: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record in found:
        keys = [record.properties["UNIQ_KEY"], *record.properties.get("KEYS", "").split()]
        for key in keys:
            expected[record.topic, key].append(record.physical_offset)
    for (topic, key), physical_offsets in expected.items():
        hash_ = key_hash(topic, key)
        entries = [offset for file in files for offset in reversed(file.find(hash_))]
        wanted = set(physical_offsets)  # a hash may have other keys' records too
        assert [offset for offset in entries if offset in wanted] == physical_offsets


def test_verify_finds_nothing_and_changes_nothing(filled: Filled) -> None:
    store_dir = filled[0]
    before = fingerprint(store_dir)
    verification = Verification(store_dir)
    assert len(list(verification.run())) > 10
    report = verification.report
    assert report.findings == []
    counted = {kind: count.item_count for kind, count in report.counts.items()}
    assert counted["commit log"] == counted["consume queues"] == RECORD_COUNT
    assert counted["index files"] > RECORD_COUNT
    assert fingerprint(store_dir) == before
