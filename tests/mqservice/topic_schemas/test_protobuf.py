"""Bodies in Protobuf: what the reader makes of them, and what it does with bodies and descriptor
sets that are none. What Google's library writes is the judge.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from google.protobuf import any_pb2, descriptor_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.definitions import Decoded, Schema, parse
from mqservice.topic_schemas.faults import MessageFault, SchemaFault
from mqservice.topic_schemas.limits import NESTING_MAX
from tests.mqservice.topic_schemas.descriptors import LEGACY, ORDER, message_class, set_of

ORDER_SCHEMA = parse(SchemaKind.PROTOBUF, set_of(ORDER), "")
LEGACY_SCHEMA = parse(SchemaKind.PROTOBUF, set_of(LEGACY), "")
Order: Any = message_class(ORDER, "shop.Order")  # Any: a class made of a descriptor
Legacy: Any = message_class(LEGACY, "Legacy")  # Any: as above
_STATES = {"NEW": 0, "PAID": 3, "LOST": -1}


def decode(body: bytes, schema: Schema = ORDER_SCHEMA) -> Decoded:
    return schema.decode(body)


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def sized(number: int, content: bytes) -> bytes:
    return tag(number, 2) + varint(len(content)) + content


def _ints(bits: int, *, is_signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if is_signed else 0
    return st.integers(low, low + 2**bits - 1)


_S32, _S64 = _ints(32, is_signed=True), _ints(64, is_signed=True)
_U32, _U64 = _ints(32, is_signed=False), _ints(64, is_signed=False)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=10)
_ITEMS = st.fixed_dictionaries({}, optional={"sku": _TEXTS, "count": _U32})
_ORDERS = st.recursive(
    st.fixed_dictionaries(
        {},
        optional={
            "d": st.floats(allow_nan=False), "f": st.floats(width=32, allow_nan=False),
            "i64": _S64, "u64": _U64, "i32": _S32, "x64": _U64, "x32": _U32, "b": st.booleans(),
            "s": _TEXTS, "raw": st.binary(max_size=10), "u32": _U32,
            "state": st.sampled_from(sorted(_STATES)), "sx32": _S32, "sx64": _S64, "z32": _S32,
            "z64": _S64, "items": st.lists(_ITEMS, max_size=3), "packed": st.lists(_S32),
            "loose": st.lists(_S32), "states": st.lists(st.sampled_from(sorted(_STATES))),
            "texts": st.lists(_TEXTS), "counts": st.dictionaries(_TEXTS, _S32),
            "by_id": st.dictionaries(_S64, _ITEMS), "gift": _ITEMS,
        },
    ),
    lambda inner: st.fixed_dictionaries({"before": inner}, optional={"cash": _S64}),
    max_leaves=2,
)  # fmt: skip


@given(_ORDERS)
def test_what_the_library_writes_is_read_as_it_was(value: dict[str, Any]) -> None:
    written = Order(**value)

    found = decode(written.SerializeToString(deterministic=True)).value

    # What was read, put into a message again, is the same message.
    assert isinstance(found, dict)
    assert _message_of(found) == written


def _message_of(found: dict[str, Any]) -> Any:  # Any: a message, see Order
    fields = dict(found)
    if "by_id" in fields:
        fields["by_id"] = {int(key): each for key, each in fields["by_id"].items()}
    if "before" in fields:
        fields["before"] = _message_of(fields["before"])
    return Order(**fields)


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    found = decode(body)
    assert found.fault or isinstance(found.value, dict)


def test_last_values_merged_messages_and_chosen_members_count() -> None:
    body = Order(i32=1, before=Order(i32=1)).SerializeToString()
    body += Order(i32=-2, before=Order(s="x")).SerializeToString()
    assert decode(body).value == {"i32": -2, "before": {"i32": 1, "s": "x"}}
    chosen = Order(card="c").SerializeToString() + Order(cash=7).SerializeToString()
    assert decode(chosen).value == {"cash": 7}
    gift = Order(gift={"sku": "a"}).SerializeToString()
    again = Order(gift={"count": 2}).SerializeToString()
    assert decode(gift + again).value == {"gift": {"sku": "a", "count": 2}}
    assert decode(gift + chosen + again).value == {"gift": {"count": 2}}


def test_repeated_numbers_may_be_packed_or_not() -> None:
    loose = tag(18, 0) + b"\x01" + tag(18, 0) + b"\x02"
    assert decode(loose + sized(18, b"\x03\x04")).value == {"packed": [-1, 1, -2, 2]}
    assert decode(sized(19, struct.pack("<ii", 5, -6))).value == {"loose": [5, -6]}
    assert decode(sized(18, b"")).value == {"packed": []}


def test_maps_with_defaults_and_the_last_of_a_key() -> None:
    body = sized(22, b"") + sized(22, b"\x0a\x01k\x10\x01") + sized(22, b"\x10\x02\x0a\x01k")
    assert decode(body + sized(23, b"\x08\x03")).value == {
        "counts": {"": 0, "k": 2}, "by_id": {"-2": {}},
    }  # fmt: skip


def test_groups() -> None:
    written = Legacy(numbers=[1, -1])
    written.line.add(text="a")
    written.line.add()
    expected = {"line": [{"text": "a"}, {}], "numbers": [1, -1]}
    assert decode(written.SerializeToString(), LEGACY_SCHEMA).value == expected
    fault = decode(tag(1, 3) + sized(2, b"a"), LEGACY_SCHEMA).fault
    assert fault == "/line/0, byte 4: the group 1 does not end"
    assert "ends that did not begin: 2" in decode(tag(1, 3) + tag(2, 4), LEGACY_SCHEMA).fault


def test_unknown_fields_are_shown_by_number() -> None:
    body = b"".join(
        [
            Order(s="x").SerializeToString(),
            tag(100, 0) + varint(2**64 - 1),
            tag(101, 1) + b"\x01" + bytes(7),
            sized(102, b"text") + sized(102, b"\xff"),
            tag(103, 5) + b"\x02\0\0\0",
            tag(104, 3) + tag(1, 0) + b"\x05" + tag(104, 4),
            tag(9, 0) + b"\x07",  # a text that is written as a number is not what is known as 9
        ]
    )
    assert decode(body).value == {
        "s": "x", "100": 2**64 - 1, "101": 1, "102": ["text", b"\xff"], "103": 2,
        "104": {"1": 5}, "9": 7,
    }  # fmt: skip
    assert "shop.Order has none of the fields" in decode(sized(102, b"text")).fault
    assert decode(b"").value == {}


def test_numbers_of_constants_without_a_name_and_text_that_is_none() -> None:
    assert decode(tag(12, 0) + b"\x09").value == {"state": 9}
    assert decode(sized(9, b"\xff")).value == {"s": b"\xff"}


def test_well_known_types_are_shown_readably() -> None:
    order = Order()
    order.at.FromJsonString("2026-11-27T18:45:00.5Z")
    order.took.FromMilliseconds(-1_500)
    order.more.update({"a": [None, 1, "x", {"b": True}]})
    order.limit.value = 2**60
    assert decode(order.SerializeToString()).value == {
        "at": "2026-11-27T18:45:00.500000000Z", "took": "-1.500000000 s",
        "more": {"a": [None, 1.0, "x", {"b": True}]}, "limit": 2**60,
    }  # fmt: skip
    order = Order()
    order.at.seconds = 2**62
    order.limit.SetInParent()
    assert decode(order.SerializeToString()).value == {"at": {"seconds": 2**62}, "limit": 0}


def test_the_message_in_an_any_is_decoded_where_its_type_is_known() -> None:
    order = Order()
    order.any.Pack(Order(s="inner"))
    url = "type.googleapis.com/shop.Order"
    assert decode(order.SerializeToString()).value == {
        "any": {"type_url": url, "value": {"s": "inner"}}
    }
    for type_url, packed in (("x/shop.Other", b"\x4a\x01x"), (url, b"\xff"), (url, b"\0\0")):
        order.any.type_url, order.any.value = type_url, packed
        shown = decode(order.SerializeToString()).value
        assert shown == {"any": {"type_url": type_url, "value": packed}}


def test_an_any_in_an_any_ends_where_values_are_too_deep() -> None:
    packed = any_pb2.Any(type_url="x/shop.Order", value=b"")
    for _ in range(2_000):
        packed = any_pb2.Any(type_url="x/google.protobuf.Any", value=packed.SerializeToString())
    order = Order()
    order.any.MergeFromString(packed.SerializeToString())

    shown = decode(order.SerializeToString()).value

    depth = 0
    while isinstance(shown, dict):
        shown, depth = shown.get("value", shown.get("any")), depth + 1
    assert isinstance(shown, bytes)
    assert 10 < depth <= NESTING_MAX + 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"\xff" * 11, "/, byte 0: a number is longer than 10 bytes"),
        (b"\xff" * 9 + b"\x7f", "/, byte 0: a number has more than 64 bits"),
        (b"\0\0", "/, byte 0: a field's number must not be 0"),
        (b"\x0f", "/, byte 0: there is no wire type 7"),
        (b"\x0c", "/, byte 0: a group ends that did not begin: 1"),
        (sized(27, tag(9, 2) + b"\x05ab"), "/before/s, byte 5: 5 bytes expected, 2 left"),
        (sized(17, b"") + sized(17, b"\x0a\x01"), "/items/1/sku, byte 8: 1 bytes expected, 0 left"),
        (sized(18, b"\x80"), "/packed, byte 4: 1 bytes expected, 0 left"),
        (sized(19, b"abc"), "/loose, byte 3: 4 bytes expected, 3 left"),
        (b"\x49" + b"1234567", "8 bytes expected, 7 left"),
        (sized(18, b"\x01" * 200_000), "/packed, byte 2003: more than 2,000 values"),
        (tag(5, 0) + b"\x01", ""),
        ((tag(5, 0) + b"\x01") * 2_000, "/i32, byte 3999: more than 2,000 values"),
        (tag(100, 3) * 100, f"nested deeper than {NESTING_MAX}"),
    ],
)
def test_bodies_that_do_not_match(body: bytes, fault: str) -> None:
    found = decode(body).fault
    assert fault in found
    assert bool(fault) == bool(found)


def test_messages_in_messages_end() -> None:
    body = b""
    for _ in range(1_000):
        body = sized(27, body)
    assert "nested deeper" in decode(body).fault


def test_frames_of_registries_are_passed_over() -> None:
    body = Order(s="x").SerializeToString()
    for indexes in (b"\0", b"\x02\0", b"\x04\x02\0"):
        assert decode(b"\0\0\0\0\7" + indexes + body).value == {"s": "x"}
    assert "number must not be 0" in decode(b"\0\0\0\0\7\xff").fault


def test_the_message_is_named_or_the_only_one() -> None:
    both = set_of(ORDER, LEGACY)
    assert ORDER_SCHEMA.message == "shop.Order"
    assert parse(SchemaKind.PROTOBUF, both, "shop.Order.Item").message == "shop.Order.Item"
    with pytest.raises(MessageFault, match=r"say which message bodies are; .* shop\.Order, Legacy"):
        parse(SchemaKind.PROTOBUF, both, "")
    with pytest.raises(MessageFault, match=r"has no message 'shop\.Nothing"):
        parse(SchemaKind.PROTOBUF, both, "shop.Nothing")


def _set(*messages: str) -> str:
    return set_of('name: "x.proto" ' + " ".join(messages), has_imports=False)


def _nested(depth: int) -> str:
    """A descriptor set with messages in messages, as bytes: no library parses as many."""
    found = sized(1, b"M")
    for _ in range(depth):
        found = sized(1, b"M") + sized(3, found)
    return base64.b64encode(sized(1, sized(4, found))).decode()


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ("", "there is no message in it"),
        ("no base64", "must be base64"),
        ("é", "must be base64"),
        (base64.b64encode(b"\xff\xff").decode(), "this is not a descriptor set: /, byte 2"),
        (base64.b64encode(b'syntax = "proto3";').decode(), "this is not a descriptor set"),
        (set_of(ORDER, has_imports=False), "google.protobuf.Timestamp is not in the set"),
        (_set('message_type { name: "A" } ' * 2), "two types with the name A"),
        (_set('message_type { name: "%s" }' % ("n" * 10_000)), "at most 255 characters"),
        (_set('message_type { name: "a b" }'), "'a b' is not a name of Protobuf"),
        (_set("message_type { }"), "'' is not a name of Protobuf"),
        (
            _set('message_type { name: "A" field { name: "a" number: 0 type: TYPE_INT32 } }'),
            "A.a: there is no number 0",
        ),
        (
            _set('message_type { name: "A" field { name: "a" number: 1 type: TYPE_INT32 }'
                 ' field { name: "b" number: 1 type: TYPE_INT32 } }'),
            "A: two fields are b or 1",
        ),
        (
            _set('message_type { name: "A" field { name: "a" number: 1 } }'),
            "A.a: the kind of the field is not known",
        ),
        (_nested(1_000), "nested deeper than 64"),
    ],
)  # fmt: skip
def test_descriptor_sets_that_are_refused(definition: str, fault: str) -> None:
    with pytest.raises(SchemaFault) as refused:
        parse(SchemaKind.PROTOBUF, definition, "")
    assert fault in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_a_set_describes_itself() -> None:
    own = descriptor_pb2.FileDescriptorSet()
    descriptor_pb2.DESCRIPTOR.CopyToProto(own.file.add())
    body = own.SerializeToString()
    schema = parse(
        SchemaKind.PROTOBUF, base64.b64encode(body).decode(), "google.protobuf.FileDescriptorSet"
    )
    found: Any = schema.decode(body).value  # Any: a document
    assert found["file"][0]["message_type"][0]["name"] == "FileDescriptorSet"
    assert json_format.ParseDict(found, descriptor_pb2.FileDescriptorSet()) == own
