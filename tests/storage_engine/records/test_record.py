"""The record's bytes, derived by hand from the format's table, and every way to damage them."""

from __future__ import annotations

import ipaddress
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.errors import RecordRefused, StoreCorrupt
from storage_engine.records.record import (
    CRC_PROPERTY_BYTES,
    StoreMessage,
    crc_digits,
    decode_record,
    encode_record,
    host_bytes,
    parse_head,
    record_crc,
    verify_record,
)
from storage_engine.records.record_run import decode_records
from storage_engine.records.tag_hash import java_hash, tag_hash_of
from tests.storage_engine.records.any_message import any_message

ID = "01" + "0A" * 16


def build(
    *,
    body: bytes = b"hello",
    topic: str = "t",
    tag: str | None = None,
    keys: list[str] | None = None,
    group: str | None = None,
    properties: dict[str, str] | None = None,
    host: tuple[str, int] = ("10.1.2.3", 0x1234),
    message_id: str = ID,
) -> StoreMessage:
    return StoreMessage(
        topic=topic,
        queue_id=3,
        body=body,
        message_id=message_id,
        born_timestamp_ms=0x0102030405,
        born_host=host,
        tag=tag,
        keys=keys or [],
        message_group=group,
        properties=properties or {},
        flag=7,
        reconsume_times=2,
    )


def sealed(record: bytes) -> bytes:
    """The record with its CRC digits filled in, as the engine leaves it."""
    crc = zlib.crc32(record[:-20]) & 0x7FFF_FFFF
    return record[:-11] + f"{crc:010d}"[::-1].encode() + b"\x02"


def hexed(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def test_golden_bytes_of_a_v1_record_with_an_ipv4_host() -> None:
    properties = (
        b"a\x01b\x02KEYS\x01k1 k2\x02TAGS\x01tag\x02__SHARDINGKEY\x01grp\x02UNIQ_KEY\x01"
        + ID.encode()
        + b"\x02__CRC32#\x010000000000\x02"
    )
    expected = (
        hexed(
            f"{91 + 5 + 1 + len(properties):08x}",  # TOTALSIZE: fixed part, body, topic, properties
            "daa320a7",  # MAGICCODE, V1
            "3610a686",  # BODYCRC of "hello"
            "00000003",  # QUEUEID
            "00000007",  # FLAG
            "0000000000000000",  # QUEUEOFFSET, the engine's
            "0000000000000000",  # PHYSICALOFFSET, the engine's
            "00000000",  # SYSFLAG
            "0000000102030405",  # BORNTIMESTAMP
            "0a01020300001234",  # BORNHOST
            "0000000000000000",  # STORETIMESTAMP, the engine's
            "0000000000000000",  # STOREHOST, the engine's
            "00000002",  # RECONSUMETIMES
            "0000000000000000",  # PREPAREDTRANSACTIONOFFSET
            "00000005",  # BODYLENGTH
        )
        + b"hello"
        + b"\x01t"
        + len(properties).to_bytes(2)
        + properties
    )
    message = build(tag="tag", keys=["k1", "k2"], group="grp", properties={"a": "b"})
    assert encode_record(message) == expected


def test_golden_bytes_of_a_v2_record_with_an_ipv6_host() -> None:
    topic = "n" * 128
    record = encode_record(build(topic=topic, host=("2001:db8::1", 80), body=b""))
    properties = b"UNIQ_KEY\x01" + ID.encode() + b"\x02__CRC32#\x010000000000\x02"
    expected = (
        hexed(
            f"{91 + 12 + 1 + 128 + len(properties):08x}",
            "daa320ab",  # V2
            "00000000",  # CRC of nothing
            "0000000300000007",
            "00" * 16,
            "00000010",  # bit 4: born host is IPv6
            "0000000102030405",
            "20010db800000000000000000000000100000050",
            "00" * 16,
            "00000002",
            "00" * 8,
            "00000000",
        )
        + b"\x00\x80"
        + topic.encode()
        + len(properties).to_bytes(2)
        + properties
    )
    assert record == expected


@pytest.mark.parametrize(("length", "magic"), [(127, 0xDAA320A7), (128, 0xDAA320AB)])
def test_the_topics_bytes_not_its_characters_choose_the_version(length: int, magic: int) -> None:
    record = encode_record(build(topic="t" * length))
    assert int.from_bytes(record[4:8]) == magic
    umlauts = encode_record(build(topic="ü" * 64))
    assert int.from_bytes(umlauts[4:8]) == 0xDAA320AB


def test_body_crc_loses_its_highest_bit() -> None:
    body = next(b"%d" % i for i in range(100) if zlib.crc32(b"%d" % i) >= 1 << 31)
    assert int.from_bytes(encode_record(build(body=body))[8:12]) == zlib.crc32(body) - (1 << 31)


@pytest.mark.parametrize(
    ("crc", "digits"),
    [
        (0, b"0000000000"),
        (1, b"1000000000"),
        (1_234_567_890, b"0987654321"),
        (0x7FFF_FFFF, b"7463847412"),
        (40, b"0400000000"),
    ],
)
def test_crc_digits_are_least_significant_first(crc: int, digits: bytes) -> None:
    assert crc_digits(crc) == digits


def test_the_crc_property_comes_last_and_covers_all_before_it() -> None:
    record = sealed(encode_record(build(tag="x")))
    assert record[-20:-11] == b"__CRC32#\x01"
    assert record_crc(record, 0, len(record)) == zlib.crc32(record[:-20]) & 0x7FFF_FFFF
    assert verify_record(record).record_bytes == len(record)


def test_verify_reads_in_the_middle_of_a_buffer() -> None:
    record = sealed(encode_record(build()))
    buffer = memoryview(b"before" + record + b"behind")
    assert verify_record(buffer, 6) == verify_record(record)


@pytest.mark.parametrize(
    "message",
    [
        build(topic="t" * 256),
        build(properties={"a": "x" * 32_767}),
        build(properties={"a\x01": "b"}),
        build(properties={"a": "b\x02c"}),
        build(properties={"a": "b", "c\x02d\x01e": "f"}),
        build(tag="a\x02TAGS\x01b"),
        build(keys=["a", "b\x01"]),
        build(group="g\x02"),
        build(message_id="i\x02"),
    ],
)
def test_what_the_layout_cannot_hold_is_refused(message: StoreMessage) -> None:
    with pytest.raises(RecordRefused):
        encode_record(message)


def test_properties_that_fill_the_limit_exactly_are_taken() -> None:
    rest = len(b"a\x01\x02UNIQ_KEY\x01\x02") + len(ID) + CRC_PROPERTY_BYTES
    message = build(properties={"a": "x" * (32_767 - rest)})
    assert decode_record(encode_record(message)).properties == message.properties
    with pytest.raises(RecordRefused):
        encode_record(build(properties={"a": "x" * (32_768 - rest)}))


@pytest.mark.parametrize(
    "message",
    [
        build(keys=["two words"]),
        build(properties={"": "no name"}),
    ],
)
def test_what_would_not_come_back_as_it_was_is_refused(message: StoreMessage) -> None:
    with pytest.raises(RecordRefused):
        encode_record(message)


def test_hosts_are_address_and_port() -> None:
    assert host_bytes(("127.0.0.1", 10_911)) == bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))
    assert host_bytes(("::1", 1)) == bytes(15) + b"\x01" + b"\0\0\0\x01"
    assert host_bytes(("not an address", 1)) == bytes(7) + b"\x01"
    assert len(host_bytes(("fe80::1%eth0", 1))) == 20


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("Aa", 2_112),
        ("BB", 2_112),
        ("tag", 114_586),
        ("polygenelubricants", -(1 << 31)),
        ("TagA", 2_598_919),
        ("ä", 228),
        ("😀", 1_772_899),  # 31 * 0xD83D + 0xDE00, the two halves of the pair
        ("aaaaaaaaaaaaaaaaaaaa", 1_542_361_408),
    ],
)
def test_java_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text())
def test_java_hash_follows_its_definition(text: str) -> None:
    units = text.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[at : at + 2])
    assert java_hash(text) == (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        (b"", 0),
        (b"TAGS\x01Aa\x02", 2_112),
        (b"x\x01y\x02TAGS\x01Aa\x02z\x01\x02", 2_112),
        (b"xTAGS\x01Aa\x02", 0),
        (b"TAGS\x01\x02", 0),
        (b"x\x01TAGS\x02", 0),
        ("TAGS\x01😀\x02".encode(), 1_772_899),
    ],
)
def test_the_tag_hash_is_found_among_the_properties(properties: bytes, value: int) -> None:
    assert tag_hash_of(properties) == value


RESERVED = {"KEYS", "TAGS", "UNIQ_KEY", "__SHARDINGKEY", "__CRC32#"}
MESSAGES = any_message(RESERVED)


@given(MESSAGES)
def test_a_record_comes_back_as_it_was(message: StoreMessage) -> None:
    encoded = encode_record(message)
    record = decode_record(encoded)
    for field in ("topic", "queue_id", "body", "message_id", "born_timestamp_ms", "tag", "keys",
                  "message_group", "properties", "reconsume_times"):  # fmt: skip
        assert getattr(record, field) == getattr(message, field)
    head = verify_record(sealed(encoded))
    assert head.record_bytes == len(encoded)
    assert head.topic == message.topic.encode()
    is_v6 = ipaddress.ip_address(message.born_host[0]).version == 6
    assert int.from_bytes(encoded[36:40]) == (16 if is_v6 else 0)


@given(st.lists(MESSAGES, max_size=4))
def test_records_back_to_back_are_distinguished(messages: list[StoreMessage]) -> None:
    encoded = [encode_record(message) for message in messages]
    one_by_one = [decode_record(each) for each in encoded]
    assert decode_records(b"head" + b"".join(encoded), 4) == one_by_one
    assert [record.body for record in one_by_one] == [message.body for message in messages]


def with_properties(properties: bytes) -> bytes:
    """A record with these properties, whatever a producer would write."""
    encoded = encode_record(build(message_id=""))
    own = b"UNIQ_KEY\x01\x02"
    at = encoded.rindex(own)
    length = int.from_bytes(encoded[at - 2 : at]) - len(own) + len(properties)
    content = encoded[4 : at - 2] + length.to_bytes(2) + properties + encoded[at + len(own) :]
    return (len(content) + 4).to_bytes(4) + content


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"UNIQ_KEY\x01a\x02k\x01v\x02", b"UNIQ_KEY\x01abcde\x02"),
        (b"UNIQ_KEY\x01abcde\x02", b"UNIQ_KEY\x01a\x02k\x01v\x02"),
        (b"x\x01y\x02UNIQ_KEY\x01a\x02", b"x\x01z\x02UNIQ_KEY\x01a\x02"),
        (b"TAGS\x01a\x02UNIQ_KEY\x01a\x02", b"TAGS\x01a\x02UNIQ_KEY\x01b\x02"),
        (b"TAGS\x01a\x02UNIQ_KEY\x01a\x02", b"KEYS\x01a\x02UNIQ_KEY\x01b\x02"),
        (b"x\x01a\x02UNIQ_KEY\x01a\x02", b"x\x01a\x02UNIQ_KEY\x01b\x01\x02"),
        (b"xUNIQ_KEY\x01abc\x02", b"xUNIQ_KEY\x01abd\x02"),
        (b"", b"UNIQ_KEY\x01\x02"),
        (b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02", b"UNIQ_KEY\x01a\x02UNIQ_KEY\x01c\x02"),
        (b"UNIQ_KEY\x01\xff\x02", b"UNIQ_KEY\x01\xfe\x02"),
    ],
)
def test_properties_are_those_of_their_own_record(first: bytes, second: bytes) -> None:
    encoded = [with_properties(each) for each in (first, second, first, second)]
    records = decode_records(b"".join(encoded))
    assert records == [decode_record(each) for each in encoded]


def test_messages_share_no_properties() -> None:
    first, second = decode_records(with_properties(b"x\x01y\x02UNIQ_KEY\x01a\x02") * 2)
    first.properties["x"] = "z"
    first.keys.append("k")
    assert (second.properties, second.keys) == ({"x": "y"}, [])


@pytest.mark.parametrize("message", [build(), build(topic="n" * 128, host=("::1", 1), tag="x")])
def test_every_truncation_is_refused(message: StoreMessage) -> None:
    record = sealed(encode_record(message))
    for length in range(len(record)):
        with pytest.raises(StoreCorrupt):
            parse_head(record[:length])
        with pytest.raises(StoreCorrupt):
            verify_record(record[:length] + bytes(len(record) - length))


@pytest.mark.parametrize(
    "message", [build(body=b"x" * 40), build(topic="n" * 128, host=("::1", 1), tag="x", body=b"y")]
)
def test_every_flipped_bit_is_refused(message: StoreMessage) -> None:
    record = sealed(encode_record(message))
    for bit in range(len(record) * 8):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(StoreCorrupt):
            verify_record(bytes(damaged) + bytes(400))


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_garbage_is_refused_and_nothing_else_happens(garbage: bytes) -> None:
    with pytest.raises(StoreCorrupt):
        verify_record(b"\x00\x00\x01\x00\xda\xa3\x20\xa7" + garbage)
