"""A store as RocketMQ's ``DefaultMessageStore`` leaves it with its defaults, made byte by byte.

    records, groups ──▶ [RocketmqStore.write] ──▶ commitlog, consumequeue, config, checkpoint, lock

Records have no ``__CRC32#`` property and no separator behind their last property, JSON has integer
keys without quotes, and the checkpoint has five numbers and no CRC of ours.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from storage_engine.records.tag_hash import java_hash

MAGIC: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
BLANK_MAGIC: Final = 0xCBD43194
STORED_MS: Final = 1_700_000_000_000
BROKER: Final = bytes((10, 9, 8, 7)) + (10_911).to_bytes(4)
PREPARED: Final = 4
ROLLED_BACK: Final = 12


def rocketmq_record(
    *,
    body: bytes,
    topic: str = "t",
    queue_id: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    properties: str = "UNIQ_KEY\x01AC1100011234\x02WAIT\x01true",
    sysflag: int = 0,
    stored_ms: int = STORED_MS,
) -> bytes:
    """One record, as ``MessageExtEncoder`` writes it without ``enabledAppendPropCRC``."""
    name, encoded = topic.encode(), properties.encode()
    is_v1 = len(name) <= 127
    born = BROKER if not sysflag & 16 else bytes(range(16)) + (1).to_bytes(4)
    store = BROKER if not sysflag & 32 else bytes(range(16)) + (2).to_bytes(4)
    rest = b"".join(
        (
            struct.pack(">I", MAGIC if is_v1 else MAGIC_V2),
            struct.pack(">I", zlib.crc32(body) & 0x7FFF_FFFF),
            struct.pack(">iiqqi", queue_id, 0, queue_offset, physical_offset, sysflag),
            struct.pack(">q", stored_ms - 5),
            born,
            struct.pack(">q", stored_ms),
            store,
            struct.pack(">iq", 0, 0),
            struct.pack(">I", len(body)),
            body,
            len(name).to_bytes(1 if is_v1 else 2),
            name,
            len(encoded).to_bytes(2),
            encoded,
        )
    )
    return (len(rest) + 4).to_bytes(4) + rest


@dataclass
class RocketmqStore:
    """Messages are added one after the other; ``write`` makes the files."""

    segment_bytes: int = 4_096
    queue_file_units: int = 300_000
    base_offset: int = 0
    stored_ms: int = STORED_MS
    segments: list[bytearray] = field(default_factory=list)
    units: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    offsets: dict[str, dict[int, int]] = field(default_factory=dict)  # topic@group → queue → offset
    bodies: list[bytes] = field(default_factory=list)

    def add(
        self,
        body: bytes,
        *,
        topic: str = "t",
        queue_id: int = 0,
        properties: str | None = None,
        sysflag: int = 0,
    ) -> int:
        """Append a message; its physical offset."""
        units = self.units.setdefault((topic, queue_id), [])
        if properties is None:
            properties = f"UNIQ_KEY\x01{len(self.bodies):032X}\x02KEYS\x01k{len(self.bodies)}"
            properties += "\x02TAGS\x01red"
        arguments = {
            "body": body, "topic": topic, "queue_id": queue_id, "queue_offset": len(units),
            "properties": properties, "sysflag": sysflag, "stored_ms": self.stored_ms,
        }  # fmt: skip
        size = len(rocketmq_record(**arguments))  # type: ignore[arg-type]  # of several types
        if not self.segments:
            self.segments.append(bytearray())
        if len(self.segments[-1]) + size + 8 > self.segment_bytes:
            segment = self.segments[-1]
            segment += struct.pack(">II", self.segment_bytes - len(segment), BLANK_MAGIC)
            segment += bytes(self.segment_bytes - len(segment))
            self.segments.append(bytearray())
        place = self.end_offset
        record = rocketmq_record(**arguments, physical_offset=place)  # type: ignore[arg-type]  # same
        self.segments[-1] += record
        self.bodies.append(body)
        if sysflag & 12 not in (PREPARED, ROLLED_BACK):
            tag = java_hash("red") if "TAGS\x01red" in properties else 0
            units.append(struct.pack(">qiq", place, size, tag))
        return place

    @property
    def end_offset(self) -> int:
        """Where the next record goes, unless it needs another segment."""
        full = max(len(self.segments) - 1, 0) * self.segment_bytes
        return self.base_offset + full + (len(self.segments[-1]) if self.segments else 0)

    def write(self, path: Path, *, is_clean: bool = True) -> Path:
        """Make the files; without ``is_clean`` as a kill leaves them. Returns ``path``."""
        (path / "config").mkdir(parents=True)
        (path / "commitlog").mkdir()
        for index, segment in enumerate(self.segments):
            base = self.base_offset + index * self.segment_bytes
            content = bytes(segment).ljust(self.segment_bytes, b"\0")
            (path / "commitlog" / f"{base:020d}").write_bytes(content)
        for (topic, queue_id), units in self.units.items():
            directory = path / "consumequeue" / topic / str(queue_id)
            directory.mkdir(parents=True)
            size = self.queue_file_units * 20
            for first in range(0, max(len(units), 1), self.queue_file_units):
                content = b"".join(units[first : first + self.queue_file_units])
                (directory / f"{first * 20:020d}").write_bytes(content.ljust(size, b"\0"))
        self._write_config(path / "config")
        times = struct.pack(">qqqqq", STORED_MS, STORED_MS, STORED_MS, 0, -1)
        (path / "checkpoint").write_bytes(times.ljust(4_096, b"\0"))
        (path / "lock").write_bytes(b"lock")
        if not is_clean:
            (path / "abort").write_bytes(b"4711")
        return path

    def _write_config(self, path: Path) -> None:
        topics: dict[str, int] = {"TBW102": 8, "SELF_TEST_TOPIC": 1}
        for topic, queue_id in self.units:
            topics[topic] = max(topics.get(topic, 0), queue_id + 1)
        rows = ",\n".join(
            f'"{topic}":{{"attributes":{{"+unknown.attribute":"kept"}},"order":false,"perm":6,'
            f'"readQueueNums":{count},"topicFilterType":"SINGLE_TAG","topicName":"{topic}",'
            f'"topicSysFlag":2,"writeQueueNums":{count}}}'
            for topic, count in topics.items()
        )
        version = '"dataVersion":{"counter":7,"stateVersion":0,"timestamp":1700000000000}'
        (path / "topics.json").write_text(f'{{{version},"topicConfigTable":{{{rows}}}}}')
        groups = {name.partition("@")[2] for name in self.offsets} | {"CID_RMQ_SYS_TRANS"}
        rows = ",\n".join(
            f'"{group}":{{"attributes":{{}},"brokerId":0,"consumeBroadcastEnable":true,'
            f'"consumeEnable":true,"consumeFromMinEnable":true,"consumeMessageOrderly":false,'
            f'"consumeTimeoutMinute":15,"groupName":"{group}","groupRetryPolicy":'
            f'{{"type":"CUSTOMIZED"}},"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,'
            f'"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}}'
            for group in sorted(groups)
        )
        (path / "subscriptionGroup.json").write_text(
            f'{{{version},"forbiddenTable":{{}},"subscriptionGroupTable":{{{rows}}}}}'
        )
        table = ",\n\t\t".join(
            f'"{name}":{{{",".join(f"{queue}:{offset}" for queue, offset in offsets.items())}}}'
            for name, offsets in self.offsets.items()
        )
        (path / "consumerOffset.json").write_text(
            f'{{\n\t{version},\n\t"offsetTable":{{{table}\n\t}}\n}}'
        )
        (path / "delayOffset.json").write_text(
            '{\n\t"dataVersion":{"counter":1,"stateVersion":0,"timestamp":1},'
            '\n\t"offsetTable":{1:0,2:0\n\t}\n}'
        )
