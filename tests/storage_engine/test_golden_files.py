"""Every file of a store as hex, derived by hand from the format page.

Numbers were written down field by field, CRCs computed with ``zlib.crc32`` over the hex that stands
before them, the Java hash with its formula; no line of the engine took part.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from storage_engine.delivery.consumer_offsets import ConsumerOffsets
from storage_engine.disk.files import Files
from storage_engine.log.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from storage_engine.records.record import StoreMessage
from storage_engine.wire.groups import GroupConfig, StartFrom
from storage_engine.wire.topics import Durability, TopicConfig
from tests.storage_engine.doubles import OpenStore

BORN_MS: Final = 1_700_000_000_000  # 0x18bcfe56800
STORED_MS: Final = 1_700_000_001_000  # 0x18bcfe56be8
ID: Final = "01" * 17
SEGMENT_BYTES: Final = 4_096
LONG_TOPIC: Final = "n" * 128

FIRST = StoreMessage(
    topic="t",
    queue_id=1,
    body=b"hello",
    message_id=ID,
    born_timestamp_ms=BORN_MS,
    born_host=("10.0.0.1", 5_000),
    tag="x",
    keys=["k1", "k2"],
    message_group="g",
    properties={"a": "ü"},
    flag=7,
    reconsume_times=2,
)
FIRST_HEX = """
    000000c8                    TOTALSIZE 200 = 91 fixed + 5 body + 1 topic + 103 properties
    daa320a7                    MAGICCODE of version 1
    3610a686                    BODYCRC: CRC-32 of "hello" is 3610a686
    00000001                    QUEUEID
    00000007                    FLAG
    0000000000000000            QUEUEOFFSET
    0000000000000000            PHYSICALOFFSET
    00000000                    SYSFLAG: both hosts are IPv4
    0000018bcfe56800            BORNTIMESTAMP
    0a000001 00001388           BORNHOST 10.0.0.1, port 5000
    0000018bcfe56be8            STORETIMESTAMP
    7f000001 00002a9f           STOREHOST 127.0.0.1, port 10911
    00000002                    RECONSUMETIMES
    0000000000000000            PREPAREDTRANSACTIONOFFSET
    00000005 68656c6c6f         BODYLENGTH, body
    01 74                       TOPICLENGTH, topic
    0067                        PROPERTIESLENGTH 103
    61 01 c3bc 02               a = ü
    4b455953 01 6b31206b32 02   KEYS = k1 k2
    54414753 01 78 02           TAGS = x
    5f5f5348415244494e474b4559 01 67 02                     __SHARDINGKEY = g
    554e49515f4b4559 01                                     UNIQ_KEY =
    3031303130313031303130313031303130313031303130313031303130313031 3031 02
    5f5f435243333223 01                                     __CRC32# =
    39393934373134303030 02     CRC-32 of all 180 bytes before is 003fb497 = 0004174999, reversed
"""

SECOND = StoreMessage(
    topic=LONG_TOPIC,
    queue_id=0,
    body=b"hi",
    message_id=ID,
    born_timestamp_ms=BORN_MS,
    born_host=("2001:db8::1", 80),
    flag=-1,
)
SECOND_HEX = f"""
    0000012a                    TOTALSIZE 298 = 91 + 12 more for IPv6 + 1 for V2 + 2 + 128 + 64
    daa320ab                    MAGICCODE of version 2: the topic has more than 127 bytes
    58932aac                    BODYCRC: CRC-32 of "hi" is d8932aac, without its highest bit
    00000000                    QUEUEID
    ffffffff                    FLAG -1
    0000000000000000            QUEUEOFFSET
    00000000000000c8            PHYSICALOFFSET 200, behind the first
    00000010                    SYSFLAG bit 4: born host is IPv6
    0000018bcfe56800            BORNTIMESTAMP
    20010db8000000000000000000000001 00000050               BORNHOST 2001:db8::1, port 80
    0000018bcfe56be8            STORETIMESTAMP
    7f000001 00002a9f           STOREHOST stays IPv4
    00000000                    RECONSUMETIMES
    0000000000000000            PREPAREDTRANSACTIONOFFSET
    00000002 6869               BODYLENGTH, body
    0080 {"6e" * 128}           TOPICLENGTH of two bytes, topic
    0040                        PROPERTIESLENGTH 64
    554e49515f4b4559 01                                     UNIQ_KEY =
    3031303130313031303130313031303130313031303130313031303130313031 3031 02
    5f5f435243333223 01                                     __CRC32# =
    36343934383535333531 02     CRC-32 of all 278 bytes before is 5b872ab2 = 1535584946, reversed
"""

THIRD = StoreMessage(
    topic="t",
    queue_id=1,
    body=b"z" * 3_700,
    message_id=ID,
    born_timestamp_ms=BORN_MS,
    born_host=("10.0.0.1", 5_000),
    tag="polygenelubricants",
)
BLANK_HEX = """
    00000e0e                    3598 bytes are left of 4096 behind 200 + 298: too few for THIRD
    cbd43194                    MAGICCODE of a BLANK
"""
THIRD_HEX = f"""
    00000f28                    TOTALSIZE 3880 = 91 + 3700 + 1 + 88
    daa320a7 15c9719d           MAGICCODE, BODYCRC: 95c9719d without its highest bit
    00000001 00000000           QUEUEID, FLAG
    0000000000000001            QUEUEOFFSET 1, the second of its queue
    0000000000001000            PHYSICALOFFSET 4096: the next segment
    00000000 0000018bcfe56800   SYSFLAG, BORNTIMESTAMP
    0a000001 00001388           BORNHOST
    0000018bcfe56be8            STORETIMESTAMP
    7f000001 00002a9f           STOREHOST
    00000000 0000000000000000   RECONSUMETIMES, PREPAREDTRANSACTIONOFFSET
    00000e74 {"7a" * 3_700}     BODYLENGTH, body
    01 74 0058                  topic, PROPERTIESLENGTH 88
    54414753 01 706f6c7967656e656c7562726963616e7473 02     TAGS = polygenelubricants
    554e49515f4b4559 01                                     UNIQ_KEY =
    3031303130313031303130313031303130313031303130313031303130313031 3031 02
    5f5f435243333223 01                                     __CRC32# =
    36373735353332343031 02     CRC-32 of all 3860 bytes before is be211640: 1042355776
"""
UNITS_HEX = """
    0000000000000000 000000c8 0000000000000078              at 0, 200 bytes, hash of "x" is 120
    0000000000001000 00000f28 ffffffff80000000              at 4096, 3880 bytes, hash is -2147483648
"""
LONG_TOPIC_UNITS_HEX = "00000000000000c8 0000012a 0000000000000000      at 200, 298 bytes, no tag"

CHECKPOINT_HEX = """
    0000018bcfe56be8            physicMsgTimestamp
    0000018bcfe56be8            logicsMsgTimestamp
    0000000000000000            indexMsgTimestamp
    0000000000001f28            flushed_offset: 4096 + 3880
    0000000000001000            dispatched_offset
    0000000000000002            unit_count
    00000003                    format version
    ecf80ed8                    CRC-32 of the 52 bytes before
    00000000000000c8            indexed_offset
    0000000000000005            index_entry_count
    94f1ee54                    CRC-32 of the 72 bytes before
"""
JOURNAL_HEX = """
    2d698672 01 000000 00000000 00000003 0000000000000000 00000000 744067   name 0 is t@g, 3 bytes
    333fec78 03 000000 00000000 00000000 0000000000000005 00000000          starts queue 0 at 5
    5c14e873 02 000000 00000000 00000000 0000000000000005 00000002          settles 5 and 6
    00ed54c8 02 000000 00000000 00000000 0000000000000009 00000001          settles 9
"""


def unhex(text: str) -> bytes:
    """The hex digits that begin each line; what follows two blanks is a comment."""
    lines = (line.strip().partition("  ")[0] for line in text.splitlines())
    return bytes.fromhex("".join(lines))


async def test_segments_consume_queues_and_config_of_a_store(tmp_path: Path) -> None:
    store = OpenStore(tmp_path, limits={"body_bytes_max": SEGMENT_BYTES}).open()
    topics = [
        TopicConfig(topic="t", queue_count=2, retention_ms=5_000),
        TopicConfig(topic=LONG_TOPIC, queue_count=1, durability=Durability.ASYNC),
    ]
    for topic in topics:
        store.store.catalog.topic_put(topic)
    store.store.catalog.group_put(
        GroupConfig(group="g", start_from=StartFrom.LATEST, lease_ms=30_000, max_reconsume_times=3)
    )
    for message in (FIRST, SECOND, THIRD):
        assert (await store.put(message)).error is None
    await store.close()

    first = unhex(FIRST_HEX) + unhex(SECOND_HEX) + unhex(BLANK_HEX)
    third = unhex(THIRD_HEX)
    queues = tmp_path / "consumequeue"
    assert _contents(tmp_path / "commitlog") == {
        "00000000000000000000": first.ljust(SEGMENT_BYTES, b"\0"),
        "00000000000000004096": third.ljust(SEGMENT_BYTES, b"\0"),
    }
    units = unhex(UNITS_HEX).ljust(80, b"\0")
    assert _contents(queues / "t" / "1") == {"00000000000000000000": units}
    long_units = unhex(LONG_TOPIC_UNITS_HEX).ljust(80, b"\0")
    assert _contents(queues / LONG_TOPIC / "0") == {"00000000000000000000": long_units}
    # Field names and kinds as RocketMQ's TopicConfigSerializeWrapper reads them.
    assert json.loads((tmp_path / "config" / "topics.json").read_text()) == {
        "dataVersion": {"counter": 2, "stateVersion": 0, "timestamp": STORED_MS},
        "topicConfigTable": {
            "t": _topic_row("t", 2, {"mq.durability": "sync", "reserve.time": "5000"}),
            LONG_TOPIC: _topic_row(LONG_TOPIC, 1, {"mq.durability": "async", "reserve.time": "0"}),
        },
    }
    # And as its SubscriptionGroupManager does.
    assert json.loads((tmp_path / "config" / "subscriptionGroup.json").read_text()) == {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": STORED_MS},
        "subscriptionGroupTable": {
            "g": {
                "groupName": "g",
                "consumeEnable": True,
                "consumeFromMinEnable": False,
                "consumeBroadcastEnable": True,
                "consumeMessageOrderly": False,
                "retryQueueNums": 1,
                "retryMaxTimes": 3,
                "brokerId": 0,
                "whichBrokerWhenConsumeSlowly": 1,
                "notifyConsumerIdsChangedEnable": True,
                "groupSysFlag": 0,
                "consumeTimeoutMinute": 15,
                "attributes": {
                    "mq.start_from": "latest",
                    "mq.lease_ms": "30000",
                    "mq.retry": '{"kind":"levels"}',
                    "mq.dispatch": "shared",
                    "mq.strategy": "AVG",
                    "mq.retry_topics": "",
                },
            }
        },
    }


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _topic_row(name: str, queue_count: int, attributes: dict[str, str]) -> dict[str, object]:
    return {
        "topicName": name,
        "readQueueNums": queue_count,
        "writeQueueNums": queue_count,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
        "attributes": attributes,
    }


def test_checkpoint(tmp_path: Path) -> None:
    mark = Checkpoint(
        flushed_offset=4_096 + 3_880,
        dispatched_offset=4_096,
        unit_count=2,
        indexed_offset=200,
        index_entry_count=5,
        store_timestamp_ms=STORED_MS,
    )
    path = tmp_path / "checkpoint"

    write_checkpoint(Files(), path, mark)

    assert path.read_bytes() == unhex(CHECKPOINT_HEX).ljust(4_096, b"\0")
    assert read_checkpoint(path) == mark


def test_journal_and_consumer_offsets(tmp_path: Path) -> None:
    offsets = ConsumerOffsets(Files(), tmp_path)
    offsets.load()
    offsets.open()
    offsets.start_group("g", "t", {0: 5})
    progress = offsets.find("g", "t", 0)
    assert progress is not None
    offsets.settle([(progress, [(5, 2)])])
    offsets.settle([(progress, [(9, 1)])])
    journal = (tmp_path / "offsets.journal").read_bytes()
    offsets.save()
    offsets.close()

    assert journal == unhex(JOURNAL_HEX)
    # topic@group → queue id → next offset, as RocketMQ's ConsumerOffsetManager reads it.
    saved = (tmp_path / "config" / "consumerOffset.json").read_bytes()
    assert saved == b'{"offsetTable":{"t@g":{0:7}}}'
