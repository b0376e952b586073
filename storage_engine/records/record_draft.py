"""A stored record as the draft of another one: the same message in another place.

    record bytes ── read_draft ──▶ [RecordDraft] ── topic, queue, properties changed ──▶ encode ──▶
                                                                     record bytes with holes

Taken over bit for bit: body and its CRC, flag, born time and host, and every property that is not
changed, in its order and even if it is no UTF-8. Holes are what they are in a producer's record
(``record.py``): queue offset, physical offset, store time and host, and the digits of the CRC. The
id comes last before the CRC, where look-ups find it quickest. Pure functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.records.record import (
    BODY_LENGTH_AT,
    CRC_HOLE,
    CRC_PROPERTY_BYTES,
    FIXED_BYTES,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    MAGIC_V1,
    MAGIC_V2,
    NAME_VALUE,
    PROPERTIES_BYTES_MAX,
    PROPERTY_CRC,
    PROPERTY_END,
    PROPERTY_MESSAGE_ID,
    STORE_TIMESTAMP_AT,
    SYSFLAG_AT,
    SYSFLAG_BORN_HOST_V6,
    SYSFLAG_STORE_HOST_V6,
    TOPIC_BYTES_MAX,
    TOPIC_BYTES_V1_MAX,
    looks_covered,
    parse_head,
    properties_end,
)

INT_MAX: Final = (1 << 31) - 1  # integers of the format are signed
PAIR_BYTES: Final = 2  # of a property besides its name and value
_NAME_VALUE: Final = NAME_VALUE.encode()
_PAIR_END: Final = PROPERTY_END.encode()
_MESSAGE_ID: Final = PROPERTY_MESSAGE_ID.encode()
_CRC: Final = PROPERTY_CRC.encode()
_BODY_CRC_AT: Final = 8
_FLAG_AT: Final = 16
_PHYSICAL_OFFSET_AT: Final = 28
_BORN_AT: Final = 40
_BORN_HOST_AT: Final = 48
_STORED_BYTES: Final = 8 + HOST_V4_BYTES  # STORETIMESTAMP and STOREHOST
_V6_MORE: Final = HOST_V6_BYTES - HOST_V4_BYTES


@dataclass(slots=True, kw_only=True)
class RecordDraft:
    """What may change, and the bytes that do not.

    ``properties`` has all but the CRC; of a name that is there twice the last value, as in Java's
    map. ``offset_message_id`` is RocketMQ's id of the record that was read: its store host and
    physical offset.
    """

    topic: bytes
    queue_id: int
    reconsume_times: int
    properties: dict[bytes, bytes]
    offset_message_id: str
    body_crc: bytes
    flag: bytes
    sysflag: int
    born: bytes  # BORNTIMESTAMP and BORNHOST
    body: bytes  # BODYLENGTH and body

    @property
    def message_id(self) -> bytes:
        """Under which everybody knows the message: the producer's id, else that of its place."""
        return self.properties.get(_MESSAGE_ID) or self.offset_message_id.encode()

    def set(self, name: bytes, value: bytes) -> None:
        """Give a property that value. Raises ``RecordRefused`` when a separator is in it."""
        if _NAME_VALUE in value or _PAIR_END in value:
            raise RecordRefused(
                f"property {name.decode()} cannot hold the bytes 0x01 or 0x02: {value!r}"
            )
        self.properties[name] = value

    def drop(self, names: frozenset[bytes]) -> None:
        """Take those properties away that are there."""
        for name in names & self.properties.keys():
            del self.properties[name]

    def properties_bytes(self) -> int:
        """Length of the encoded properties, with the CRC."""
        pairs = self.properties.items()
        return sum(len(name) + len(value) + PAIR_BYTES for name, value in pairs) + len(CRC_HOLE)

    def encode(self) -> bytes:
        """The record.

        Raises:
            RecordRefused: the topic or the properties are longer than the layout can hold.
        """
        topic = self.topic
        if not 1 <= len(topic) <= TOPIC_BYTES_MAX:
            raise RecordRefused(
                f"the topic has {len(topic)} bytes, it must have 1 to {TOPIC_BYTES_MAX}"
            )
        is_v1 = len(topic) <= TOPIC_BYTES_V1_MAX
        topic_length = len(topic).to_bytes(1 if is_v1 else 2)
        properties = self._encode_properties()
        record_bytes = (
            (FIXED_BYTES - 3 - 4 - 8 - HOST_V4_BYTES)
            + len(self.born)
            + len(self.body)
            + len(topic_length)
            + len(topic)
            + 2
            + len(properties)
        )
        record = b"".join(
            (
                record_bytes.to_bytes(4),
                (MAGIC_V1 if is_v1 else MAGIC_V2).to_bytes(4),
                self.body_crc,
                self.queue_id.to_bytes(4),
                self.flag,
                bytes(SYSFLAG_AT - _FLAG_AT - 4),
                self.sysflag.to_bytes(4),
                self.born,
                bytes(_STORED_BYTES),
                min(self.reconsume_times, INT_MAX).to_bytes(4),
                bytes(8),
                self.body,
                topic_length,
                topic,
                len(properties).to_bytes(2),
                properties,
            )
        )
        assert len(record) == record_bytes
        return record

    def _encode_properties(self) -> bytes:
        pairs = [pair for pair in self.properties.items() if pair[0] != _MESSAGE_ID]
        if _MESSAGE_ID in self.properties:
            pairs.append((_MESSAGE_ID, self.properties[_MESSAGE_ID]))
        parts = [b"%b\x01%b\x02" % pair for pair in pairs]
        properties = b"".join((*parts, CRC_HOLE))
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise RecordRefused(
                f"properties take {len(properties)} bytes, at most {PROPERTIES_BYTES_MAX} fit"
            )
        return properties


def read_draft(buffer: bytes | memoryview, at: int = 0) -> RecordDraft:
    """A draft of the record at ``buffer[at]``, which was verified when it was read from the log.

    The store host's width is not taken over: the engine that appends writes its own.

    Raises:
        StoreCorrupt: the lengths contradict each other, or the CRC property is hurt.
    """
    head = parse_head(buffer, at)
    view = memoryview(buffer)[at : at + head.record_bytes]
    sysflag = int.from_bytes(view[SYSFLAG_AT : SYSFLAG_AT + 4])
    born_end = _BORN_HOST_AT + HOST_V4_BYTES
    born_end += _V6_MORE if sysflag & SYSFLAG_BORN_HOST_V6 else 0
    store_host_at = born_end + 8
    reconsume_at = store_host_at + HOST_V4_BYTES
    reconsume_at += _V6_MORE if sysflag & SYSFLAG_STORE_HOST_V6 else 0
    body_at = reconsume_at + 4 + 8
    body_end = body_at + 4 + int.from_bytes(view[body_at : body_at + 4])
    properties = bytes(view[head.properties_at :])
    end = properties_end(properties, 0, len(properties))
    if end == len(properties) and looks_covered(properties[-CRC_PROPERTY_BYTES:]):
        raise StoreCorrupt("the properties of the record do not end with its CRC")
    pairs: dict[bytes, bytes] = {}
    for pair in properties[:end].split(_PAIR_END):
        name, _, value = pair.partition(_NAME_VALUE)
        # RocketMQ hands the CRC of another record on, among the properties of this one.
        if name and name != _CRC:
            pairs[name] = value
    place = bytes(view[store_host_at:reconsume_at])
    place += view[_PHYSICAL_OFFSET_AT : _PHYSICAL_OFFSET_AT + 8]
    return RecordDraft(
        topic=head.topic,
        queue_id=head.queue_id,
        reconsume_times=int.from_bytes(view[reconsume_at : reconsume_at + 4]),
        properties=pairs,
        offset_message_id=place.hex().upper(),
        body_crc=bytes(view[_BODY_CRC_AT : _BODY_CRC_AT + 4]),
        flag=bytes(view[_FLAG_AT : _FLAG_AT + 4]),
        sysflag=sysflag & ~SYSFLAG_STORE_HOST_V6,
        born=bytes(view[_BORN_AT:born_end]),
        body=bytes(view[body_at:body_end]),
    )


assert STORE_TIMESTAMP_AT == _BORN_HOST_AT + HOST_V4_BYTES
assert BODY_LENGTH_AT == STORE_TIMESTAMP_AT + _STORED_BYTES + 4 + 8
