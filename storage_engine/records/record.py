"""One message as bytes of the commit log, in RocketMQ's layout; pure functions.

    offset  width  field                       filled by   notes
         0      4  TOTALSIZE                   producer    the whole record
         4      4  MAGICCODE                   producer    V2 when the topic has more than 127 bytes
         8      4  BODYCRC                     producer    CRC-32 of the body & 0x7FFFFFFF
        12      4  QUEUEID                     producer
        16      4  FLAG                        producer
        20      8  QUEUEOFFSET                 engine
        28      8  PHYSICALOFFSET              engine
        36      4  SYSFLAG                     producer    bit 4: born host v6; bit 5: store host v6
        40      8  BORNTIMESTAMP               producer    ms
        48      8  BORNHOST                    producer    address and port; 20 bytes when IPv6
        56      8  STORETIMESTAMP              engine      ms, never decreasing along the log
        64      8  STOREHOST                   engine      20 bytes when IPv6
        72      4  RECONSUMETIMES              producer
        76      8  PREPAREDTRANSACTIONOFFSET   producer
        84    4+n  BODYLENGTH, body            producer
              1+n  TOPICLENGTH, topic          producer    2+n in V2
              2+n  PROPERTIESLENGTH, properties            ``name 0x01 value 0x02`` each, <= 32,767

The last property that this engine writes is always ``__CRC32#``: ten decimal digits, least
significant first, of the CRC-32 of everything before that property (& 0x7FFFFFFF), so header, topic
and properties are covered as well as the body. RocketMQ leaves it out unless it is told otherwise
(``enabledAppendPropCRC``), may leave out the separator behind the last property, and compresses
bodies (SYSFLAG bit 0): such records are read as well, see ``verify_uncovered``. Layout from
RocketMQ 5.3 ``MessageExtEncoder``, ``MessageDecoder.createCrc32``.

A producer's record has holes (zeros) where the engine writes; ``commit_log`` fills them while it
appends. All integers are big-endian.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from operator import eq
from typing import Final

import msgspec
from isal.isal_zlib import crc32

from storage_engine.errors import RecordRefused, RecordUnsupported, StoreCorrupt

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
BLANK = struct.Struct(">II")

FIXED_BYTES: Final = 91
TOPIC_BYTES_V1_MAX: Final = 127
TOPIC_BYTES_MAX: Final = 255
PROPERTIES_BYTES_MAX: Final = 32_767
CRC_MASK: Final = 0x7FFF_FFFF

SYSFLAG_COMPRESSED: Final = 1
SYSFLAG_COMPRESSOR: Final = 7 << 8  # 0 and 3: zlib; 1: LZ4; 2: Zstandard
SYSFLAG_BORN_HOST_V6: Final = 1 << 4
SYSFLAG_STORE_HOST_V6: Final = 1 << 5
SYSFLAG_TRANSACTION: Final = 3 << 2
SYSFLAG_INNER_BATCH: Final = 1 << 7
# Records of a transaction that no consumer may see; RocketMQ gives them no unit of a consume queue.
TRANSACTIONS_UNSEEN: Final = frozenset({1 << 2, 3 << 2})  # prepared, rolled back
HOST_V4_BYTES: Final = 8
HOST_V6_BYTES: Final = 20

_BODY_CRC_AT: Final = 8
QUEUE_OFFSET_AT: Final = 20
SYSFLAG_AT: Final = 36
STORE_TIMESTAMP_AT: Final = 56
BODY_LENGTH_AT: Final = 84

# size, magic, queue id, sysflag: what the engine looks at before it takes a record.
PEEK = struct.Struct(">II4xi20xi")
OFFSETS = struct.Struct(">qq")
STORED_BY = struct.Struct(">q8s")
LENGTH_4 = struct.Struct(">I")
LENGTH_2 = struct.Struct(">H")
assert PEEK.size == SYSFLAG_AT + 4

HEAD_V4 = struct.Struct(">IIIiiqqiq8sq8siqI")
_HEAD_BORN_V6 = struct.Struct(">IIIiiqqiq20sq8siqI")
_HEADS: Final[dict[tuple[bool, bool], struct.Struct]] = {
    (False, False): HEAD_V4,
    (True, False): _HEAD_BORN_V6,
    (False, True): struct.Struct(">IIIiiqqiq8sq20siqI"),
    (True, True): struct.Struct(">IIIiiqqiq20sq20siqI"),
}
assert HEAD_V4.size == BODY_LENGTH_AT + 4
assert HEAD_V4.size + 1 + 2 == FIXED_BYTES

NAME_VALUE: Final = "\x01"
PROPERTY_END: Final = "\x02"
KEY_SEPARATOR: Final = " "
PROPERTY_TAG: Final = "TAGS"
PROPERTY_KEYS: Final = "KEYS"
PROPERTY_MESSAGE_ID: Final = "UNIQ_KEY"
PROPERTY_MESSAGE_GROUP: Final = "__SHARDINGKEY"
PROPERTY_CRC: Final = "__CRC32#"
CRC_PROPERTY_HEAD: Final = PROPERTY_CRC.encode() + NAME_VALUE.encode()
_CRC_HEAD_BYTES: Final = len(CRC_PROPERTY_HEAD)
CRC_DIGITS: Final = 10
CRC_PROPERTY_BYTES: Final = len(CRC_PROPERTY_HEAD) + CRC_DIGITS + 1
CRC_HOLE: Final = CRC_PROPERTY_HEAD + b"0" * CRC_DIGITS + PROPERTY_END.encode()
assert len(CRC_HOLE) == CRC_PROPERTY_BYTES == 20
_BODY_BYTES_MAX: Final = 4 * 1024 * 1024  # of a body once it is decompressed; RocketMQ's limit
_ZLIB: Final = frozenset({0, 3 << 8})
# A topic is a directory of consume queues; RocketMQ's own names are letters, digits and %|_-.
_NO_TOPICS: Final = frozenset({b".", b".."})
_QUEUES_MAX: Final = 65_536  # of one topic; more are a flipped bit


class StoreMessage(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A message on its way in. ``topic`` is the full engine name; ``born_host`` is (address,
    port).
    """

    topic: str
    queue_id: int
    body: bytes
    message_id: str
    born_timestamp_ms: int
    born_host: tuple[str, int]
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    flag: int = 0
    reconsume_times: int = 0


class Record(msgspec.Struct, frozen=True, gc=False):
    """A message as it stands in the log. ``properties`` are the producer's own; system ones are
    fields.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    born_timestamp_ms: int
    store_timestamp_ms: int
    reconsume_times: int
    body: bytes
    tag: str | None
    keys: list[str]
    message_group: str | None
    message_id: str
    properties: dict[str, str]


class RecordHead(msgspec.Struct, frozen=True, gc=False):
    """Where the parts of a record are, for readers that do not want the body. Positions are
    relative.
    """

    record_bytes: int
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    topic: bytes
    properties_at: int
    properties_bytes: int


def encode_record(message: StoreMessage) -> bytes:
    """The record of a message, with zeros where the engine will write.

    Raises:
        RecordRefused: the topic or the properties are longer than the layout can hold, or a
        property
            contains one of the two separators.
    """
    topic = message.topic.encode()
    properties = encode_properties(message)
    topic_bytes = len(topic)
    if topic_bytes <= TOPIC_BYTES_V1_MAX:
        magic = MAGIC_V1
        topic_length = topic_bytes.to_bytes(1)
    else:
        if topic_bytes > TOPIC_BYTES_MAX:
            raise RecordRefused(f"the topic has {topic_bytes} bytes, at most {TOPIC_BYTES_MAX} fit")
        magic = MAGIC_V2
        topic_length = topic_bytes.to_bytes(2)
    if len(properties) > PROPERTIES_BYTES_MAX:
        raise RecordRefused(
            f"properties take {len(properties)} bytes, at most {PROPERTIES_BYTES_MAX} fit"
        )
    born_host = host_bytes(message.born_host)
    body = message.body
    if len(born_host) == HOST_V4_BYTES:
        head, sysflag = HEAD_V4, 0
    else:
        head, sysflag = _HEAD_BORN_V6, SYSFLAG_BORN_HOST_V6
    record_bytes = head.size + len(body) + len(topic_length) + topic_bytes + 2 + len(properties)
    return b"".join(
        (
            head.pack(
                record_bytes,
                magic,
                crc32(body) & CRC_MASK,
                message.queue_id,
                message.flag,
                0,
                0,
                sysflag,
                message.born_timestamp_ms,
                born_host,
                0,
                b"",
                message.reconsume_times,
                0,
                len(body),
            ),
            body,
            topic_length,
            topic,
            len(properties).to_bytes(2),
            properties,
        )
    )


# Of a record without properties but its id: what stands between body and id, by its topic.
_middles: dict[str, bytes] = {}
_TOPICS_MAX: Final = 10_000
_ID_CHARS: Final = 34  # as ``new_message_id`` makes them
_ID_HEAD: Final = (PROPERTY_MESSAGE_ID + NAME_VALUE).encode()
_AFTER_ID: Final = PROPERTY_END.encode() + CRC_HOLE
_PLAIN_PROPERTIES_BYTES: Final = len(_ID_HEAD) + _ID_CHARS + len(_AFTER_ID)


def encode_plain(
    *,
    topic: str,
    queue_id: int,
    body: bytes,
    message_id: str,
    born_timestamp_ms: int,
    born_host: tuple[str, int],
) -> bytes:
    """``encode_record`` of a ``StoreMessage`` with these fields and no others, three times as fast:
    nothing of it has to be looked for among tags, keys and properties.

    ``message_id`` is one of ``new_message_id``.
    """
    assert len(message_id) == _ID_CHARS
    middle = _middles.get(topic) or _make_middle(topic)
    host = host_bytes(born_host)
    if not middle or len(host) != HOST_V4_BYTES:
        message = StoreMessage(
            topic=topic,
            queue_id=queue_id,
            body=body,
            message_id=message_id,
            born_timestamp_ms=born_timestamp_ms,
            born_host=born_host,
        )
        return encode_record(message)
    body_bytes = len(body)
    return b"".join(
        (
            HEAD_V4.pack(
                HEAD_V4.size + body_bytes + len(middle) + _ID_CHARS + len(_AFTER_ID),
                MAGIC_V1,
                crc32(body) & CRC_MASK,
                queue_id,
                0,
                0,
                0,
                0,
                born_timestamp_ms,
                host,
                0,
                b"",
                0,
                0,
                body_bytes,
            ),
            body,
            middle,
            message_id.encode(),
            _AFTER_ID,
        )
    )


def _make_middle(topic: str) -> bytes:
    """What stands between the body and the id; empty for a topic of the other layout."""
    name = topic.encode()
    if len(name) > TOPIC_BYTES_V1_MAX:
        return b""
    if len(_middles) >= _TOPICS_MAX:
        _middles.clear()
    middle = len(name).to_bytes(1) + name + _PLAIN_PROPERTIES_BYTES.to_bytes(2) + _ID_HEAD
    _middles[topic] = middle
    return middle


def encode_properties(message: StoreMessage | Record) -> bytes:
    """All properties as they stand in a record, the system's own included. Raises
    ``RecordRefused``.
    """
    own = message.properties
    parts = [f"{name}\x01{value}\x02" for name, value in own.items()] if own else []
    if "" in own:
        raise RecordRefused("a property has an empty name")
    if message.keys:
        if message.keys != KEY_SEPARATOR.join(message.keys).split(KEY_SEPARATOR):
            raise RecordRefused(f"a key contains a space, which separates keys: {message.keys}")
        parts.append(f"KEYS\x01{KEY_SEPARATOR.join(message.keys)}\x02")
    if message.tag is not None:
        parts.append(f"TAGS\x01{message.tag}\x02")
    if message.message_group is not None:
        parts.append(f"__SHARDINGKEY\x01{message.message_group}\x02")
    parts.append(f"UNIQ_KEY\x01{message.message_id}\x02")
    text = "".join(parts)
    if text.count(NAME_VALUE) != len(parts) or text.count(PROPERTY_END) != len(parts):
        raise RecordRefused("a property name or value contains the bytes 0x01 or 0x02")
    return text.encode() + CRC_HOLE


_hosts: dict[tuple[str, int], bytes] = {}
_HOSTS_MAX: Final = 10_000


def host_bytes(host: tuple[str, int]) -> bytes:
    """Address and port as BORNHOST holds them: 8 bytes for IPv4, 20 for IPv6.

    Cached, since a connection sends many messages; an address that is none becomes 0.0.0.0.
    """
    known = _hosts.get(host)
    if known is not None:
        return known
    try:
        packed = ipaddress.ip_address(host[0]).packed
    except ValueError:
        packed = bytes(4)
    encoded = packed + struct.pack(">I", host[1] & 0xFFFF_FFFF)
    if len(_hosts) >= _HOSTS_MAX:
        _hosts.clear()
    _hosts[host] = encoded
    return encoded


def decode_record(buffer: bytes | memoryview, at: int = 0) -> Record:
    """The message that starts at ``buffer[at]``. Trusts the bytes: check them with
    ``verify_record``.
    """
    sysflag = int.from_bytes(buffer[at + SYSFLAG_AT : at + SYSFLAG_AT + 4])
    if sysflag & (SYSFLAG_BORN_HOST_V6 | SYSFLAG_STORE_HOST_V6):
        head = _HEADS[bool(sysflag & SYSFLAG_BORN_HOST_V6), bool(sysflag & SYSFLAG_STORE_HOST_V6)]
    else:
        head = HEAD_V4
    (
        _,
        magic,
        _,
        queue_id,
        _,
        queue_offset,
        physical_offset,
        _,
        born_timestamp_ms,
        _,
        store_timestamp_ms,
        _,
        reconsume_times,
        _,
        body_bytes,
    ) = head.unpack_from(buffer, at)
    body_at = at + head.size
    topic_at = body_at + body_bytes
    body = bytes(buffer[body_at:topic_at])
    if magic == MAGIC_V1:
        topic_end = topic_at + 1 + buffer[topic_at]
        topic = str(buffer[topic_at + 1 : topic_end], "utf-8")
    else:
        topic_end = topic_at + 2 + LENGTH_2.unpack_from(buffer, topic_at)[0]
        topic = str(buffer[topic_at + 2 : topic_end], "utf-8")
    properties_bytes = (buffer[topic_end] << 8) | buffer[topic_end + 1]
    properties_at = topic_end + 2
    end = properties_end(buffer, properties_at, properties_at + properties_bytes)
    text = str(buffer[properties_at:end], "utf-8", "replace")
    if sysflag & SYSFLAG_COMPRESSED:
        body = _decompressed(body, sysflag)
    return Record(
        topic,
        queue_id,
        queue_offset,
        physical_offset,
        born_timestamp_ms,
        store_timestamp_ms,
        reconsume_times,
        body,
        *split_properties(text),
    )


def properties_end(buffer: bytes | memoryview, properties_at: int, end: int) -> int:
    """Where the properties of a record end that nobody sets: before its CRC, where it has one.

    ``end`` is the end of the record.
    """
    crc_at = end - CRC_PROPERTY_BYTES
    if crc_at >= properties_at and buffer[crc_at : crc_at + _CRC_HEAD_BYTES] == CRC_PROPERTY_HEAD:
        return crc_at
    return end


def _decompressed(body: bytes, sysflag: int) -> bytes:
    """A body that a RocketMQ client has compressed; as it is when this engine cannot."""
    if sysflag & SYSFLAG_COMPRESSOR not in _ZLIB:
        return body
    inflater = zlib.decompressobj()
    try:
        content = inflater.decompress(body, _BODY_BYTES_MAX)
    except zlib.error:
        return body
    return content if inflater.eof else body


def split_properties(
    text: str,
) -> tuple[str | None, list[str], str | None, str, dict[str, str]]:
    """Tag, keys, message group, id, and the producer's own, of an encoded property list."""
    tag = group = None
    keys: list[str] = []
    message_id = ""
    properties: dict[str, str] = {}
    for pair in text.split(PROPERTY_END):
        name, _, value = pair.partition(NAME_VALUE)
        if name == PROPERTY_MESSAGE_ID:
            message_id = value
        elif name == PROPERTY_TAG:
            tag = value
        elif name == PROPERTY_KEYS:
            keys = value.split(KEY_SEPARATOR)
        elif name == PROPERTY_MESSAGE_GROUP:
            group = value
        elif name:
            properties[name] = value
    return tag, keys, group, message_id, properties


def parse_head(buffer: bytes | memoryview, at: int = 0) -> RecordHead:
    """Lengths and positions of a record, each checked against the next.

    Raises:
        StoreCorrupt: the lengths contradict each other or run past the end of ``buffer``.
    """
    room = len(buffer) - at
    if room < FIXED_BYTES:
        raise StoreCorrupt(f"{room} bytes are too few for a record")
    record_bytes, magic, queue_id, sysflag = PEEK.unpack_from(buffer, at)
    if magic not in (MAGIC_V1, MAGIC_V2):
        raise StoreCorrupt(f"magic code is {magic:#x}")
    if not FIXED_BYTES <= record_bytes <= room:
        raise StoreCorrupt(f"the record says it has {record_bytes} bytes, but only {room} are left")
    head = _HEADS[bool(sysflag & SYSFLAG_BORN_HOST_V6), bool(sysflag & SYSFLAG_STORE_HOST_V6)]
    if head.size > record_bytes:
        raise StoreCorrupt(
            f"the record says it has {record_bytes} bytes, but its header alone has {head.size}"
        )
    fields = head.unpack_from(buffer, at)
    topic_at = head.size + fields[14]
    width = 1 if magic == MAGIC_V1 else 2
    if topic_at + width + 2 > record_bytes:
        raise StoreCorrupt(
            f"a body of {fields[14]} bytes does not fit into a record of {record_bytes} bytes"
        )
    topic_bytes = int.from_bytes(buffer[at + topic_at : at + topic_at + width])
    properties_at = topic_at + width + topic_bytes + 2
    if properties_at > record_bytes:
        raise StoreCorrupt(
            f"a topic of {topic_bytes} bytes does not fit into a record of {record_bytes} bytes"
        )
    properties_bytes = int.from_bytes(buffer[at + properties_at - 2 : at + properties_at])
    if properties_at + properties_bytes != record_bytes:
        raise StoreCorrupt(
            f"the parts of the record take {properties_at + properties_bytes} bytes, "
            f"but the record says it has {record_bytes}"
        )
    return RecordHead(
        record_bytes,
        queue_id,
        fields[5],
        fields[6],
        fields[10],
        bytes(buffer[at + topic_at + width : at + properties_at - 2]),
        properties_at,
        properties_bytes,
    )


def verify_record(buffer: bytes | memoryview, at: int = 0) -> RecordHead:
    """``parse_head``, and the CRC that covers the whole record; of a record of RocketMQ's that has
    none, what ``verify_uncovered`` says.

    Raises:
        StoreCorrupt: anything about the record is not as it was written.
    """
    head = parse_head(buffer, at)
    end = at + head.record_bytes
    stored = bytes(buffer[max(end - CRC_PROPERTY_BYTES, at) : end])
    if not looks_covered(stored):
        verify_uncovered(buffer, at, head)
        return head
    computed = record_crc(buffer, at, head.record_bytes)
    if stored != CRC_PROPERTY_HEAD + crc_digits(computed) + b"\x02":
        raise StoreCorrupt(f"the record's CRC is {computed}, but the record says {stored!r}")
    return head


def looks_covered(end: bytes) -> bool:
    """Whether a record that ends so was written with a CRC property.

    Half of the property's fixed bytes are enough, so that a record of ours whose property was hurt
    is not taken for one that never had any.
    """
    alike = sum(map(eq, end[:_CRC_HEAD_BYTES], CRC_PROPERTY_HEAD)) + end.endswith(b"\x02")
    return len(end) == CRC_PROPERTY_BYTES and alike > _CRC_HEAD_BYTES // 2


def verify_uncovered(buffer: bytes | memoryview, at: int, head: RecordHead) -> None:
    """Check a record without a CRC property, as RocketMQ writes it by default.

    Nothing covers its head, so everything is looked at: lengths (``parse_head`` did), the CRC of
    the body, and texts that are texts. A page that never reached the disk leaves zeros in one of
    them.

    Raises:
        StoreCorrupt: RocketMQ did not write it so.
        RecordUnsupported: it did, and this engine cannot read it.
    """
    view = memoryview(buffer)
    record = view[at : at + head.record_bytes]
    topic = head.topic
    sysflag = LENGTH_4.unpack_from(record, SYSFLAG_AT)[0]
    properties = bytes(record[head.properties_at :])
    width = 1 if LENGTH_4.unpack_from(record, 4)[0] == MAGIC_V1 else 2
    body_end = head.properties_at - 2 - len(topic) - width
    head_bytes = _HEADS[bool(sysflag & SYSFLAG_BORN_HOST_V6), bool(sysflag & SYSFLAG_STORE_HOST_V6)]
    computed = crc32(record[head_bytes.size : body_end]) & CRC_MASK
    stored = LENGTH_4.unpack_from(record, _BODY_CRC_AT)[0]
    if computed != stored:
        raise StoreCorrupt(f"the body's CRC is {computed}, but the record says {stored}")
    if not topic or topic in _NO_TOPICS or b"/" in topic:
        raise StoreCorrupt(f"the topic is {topic[:TOPIC_BYTES_MAX]!r}")
    try:
        is_text = "\0" not in topic.decode() and "\0" not in properties.decode()
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        raise StoreCorrupt("the topic or the properties are not text")
    if not 0 <= head.queue_id < _QUEUES_MAX or head.queue_offset < 0:
        raise StoreCorrupt(
            f"the queue id is {head.queue_id} and the queue offset {head.queue_offset}"
        )
    if sysflag & SYSFLAG_INNER_BATCH:
        raise RecordUnsupported(
            f"the record at {head.physical_offset} of topic {topic.decode()} is an inner batch "
            "(RocketMQ's queue.type=BatchCQ), which this engine cannot read"
        )


def record_crc(buffer: bytes | memoryview, at: int, record_bytes: int) -> int:
    """CRC-32 of everything before the CRC property, as ``__CRC32#`` holds it."""
    return crc32(memoryview(buffer)[at : at + record_bytes - CRC_PROPERTY_BYTES]) & CRC_MASK


def crc_digits(crc: int) -> bytes:
    """Ten decimal digits, least significant first, as RocketMQ writes them."""
    return (b"%010d" % crc)[::-1]
