"""Bodies in Avro: what the reader makes of them, and what it does with bodies and schemas that are
none. What fastavro writes is the judge.
"""

from __future__ import annotations

import io
import json
import math
from datetime import date
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.definitions import Decoded, parse
from mqservice.topic_schemas.faults import SchemaFault
from mqservice.topic_schemas.limits import DECODED_BYTES_MAX, NESTING_MAX, VALUES_MAX

LIST = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}


def decode(schema: object, body: bytes) -> Decoded:
    return parse(SchemaKind.AVRO, json.dumps(schema), "").decode(body)


def encoded(schema: Any, value: object) -> bytes:  # Any: as fastavro has it
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*types: object) -> dict[str, object]:
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate(types)]
    return {"type": "record", "name": "R", "namespace": "test", "fields": fields}


_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
_LEAVES: st.SearchStrategy[tuple[object, st.SearchStrategy[object]]] = st.sampled_from(
    [
        ("null", st.none()),
        ("boolean", st.booleans()),
        ("int", _INTS),
        ("long", _LONGS),
        ("float", st.floats(width=32, allow_nan=False)),
        ("double", st.floats(allow_nan=False)),
        ("string", _TEXTS),
        ("bytes", st.binary(max_size=20)),
    ]
)
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda t: ({"type": "array", "items": t[0]}, st.lists(t[1], max_size=4))),
        inner.map(
            lambda t: ({"type": "map", "values": t[0]}, st.dictionaries(_TEXTS, t[1], max_size=4))
        ),
    ),
    max_leaves=4,
)


@given(st.data(), st.lists(_TYPES, max_size=5))
def test_what_fastavro_writes_is_read_as_it_was(
    data: st.DataObject, types: list[tuple[object, st.SearchStrategy[object]]]
) -> None:
    schema = record("int", *(kind for kind, _ in types))
    value: dict[str, object] = {"f0": 1}  # so that it does not begin as a frame does
    value |= {f"f{at}": data.draw(values) for at, (_, values) in enumerate(types, 1)}
    body = encoded(schema, value)

    found = decode(schema, body)

    # The same bytes again: a float of 32 bits is shown shorter than it was drawn.
    assert found.fault == ""
    assert encoded(schema, found.value) == body


def test_named_types_unions_and_blocks() -> None:
    schema = record(
        {"type": "enum", "name": "Color", "symbols": ["RED", "GREEN"]},
        ["null", "Color", "test.Color2", "string"],
    )
    schema["fields"].insert(  # type: ignore[attr-defined] # a list in a document
        0, {"name": "a", "type": {"type": "enum", "name": "Color2", "symbols": ["X"]}}
    )
    assert decode(schema, b"\0\2\2\0") == Decoded(value={"a": "X", "f0": "GREEN", "f1": "RED"})
    fixed = {"type": "fixed", "name": "Four", "size": 4}
    assert decode(record(fixed, "Four"), b"abcd1234").value == {"f0": b"abcd", "f1": b"1234"}
    numbers = {"type": "array", "items": "int"}
    # Two blocks, the first one with its size in bytes.
    assert decode(numbers, b"\x03\x04\x02\x04\x02\x06\x00") == Decoded(value=[1, 2, 3])
    tree = {"next": {"next": {"next": None}}}
    assert decode(LIST, encoded(LIST, tree)) == Decoded(value=tree)


def test_big_numbers_are_exact_and_floats_are_short() -> None:
    schema = record("long", "float", "double", "double")
    body = encoded(schema, {"f0": 2**63 - 1, "f1": 0.1, "f2": math.inf, "f3": math.nan})
    found = decode(schema, body).value
    assert isinstance(found, dict)
    assert (found["f0"], found["f1"], found["f2"]) == (9223372036854775807, 0.1, math.inf)
    assert math.isnan(found["f3"])


@pytest.mark.parametrize(
    ("schema", "value", "shown"),
    [
        ({"type": "int", "logicalType": "date"}, date(2026, 11, 27), "2026-11-27"),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, 2**31 - 1),
        ({"type": "int", "logicalType": "time-millis"}, 61_001, "00:01:01.001"),
        ({"type": "long", "logicalType": "time-micros"}, 86_399_999_999, "23:59:59.999999"),
        ({"type": "long", "logicalType": "time-micros"}, -1, -1),
        ({"type": "long", "logicalType": "timestamp-millis"}, -1, "1969-12-31T23:59:59.999Z"),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1, "1970-01-01T00:00:00.000001Z"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, "1970-01-01T00:00:00.000000001Z"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 2**63 - 1, 2**63 - 1),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 0, "1970-01-01T00:00:00.000"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2},
            Decimal("-1234567890123456789012345678901234567.05"),
            "-1234567890123456789012345678901234567.05",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3}, Decimal(7), "7"),
        ({"type": "string", "logicalType": "uuid"}, "no-uuid", "no-uuid"),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            bytes(range(16)),
            "00010203-0405-0607-0809-0a0b0c0d0e0f",
        ),
        (
            {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"},
            b"\1\0\0\0\2\0\0\0\3\0\0\0",
            "1 months 2 days 3 ms",
        ),
        ({"type": "long", "logicalType": "date"}, 3, 3),
        ({"type": "bytes", "logicalType": "decimal", "scale": 10**9}, b"\1", b"\1"),
    ],
)
def test_logical_types_are_shown_readably(schema: object, value: object, shown: object) -> None:
    plain = schema
    if not isinstance(value, (date, Decimal)):
        assert isinstance(schema, dict)
        plain = {name: each for name, each in schema.items() if name != "logicalType"}
    assert decode(schema, encoded(plain, value)) == Decoded(value=shown)


def test_a_decimal_of_more_digits_than_python_writes_is_bytes() -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert decode(schema, encoded("bytes", b"\1" * 5_000)).value == b"\1" * 5_000


@pytest.mark.parametrize(
    ("schema", "body", "fault"),
    [
        ("boolean", b"\2", "/, byte 0: a boolean must be 0 or 1, found 2"),
        ("int", b"\x80\x80\x80\x80\x10", "/, byte 0: an int must have at most 32 bits"),
        ("long", b"\xff" * 11, "/, byte 0: a number is longer than 10 bytes"),
        ("long", b"\xff" * 9 + b"\x7f", "/, byte 0: a number has more than 64 bits"),
        ("double", b"1234567", "/, byte 0: 8 bytes expected, 7 left"),
        ("string", b"\x04\xff\xff", "/, byte 1: a string must be UTF-8"),
        ("string", b"\x03", "/, byte 1: a length must not be negative, found -2"),
        ("bytes", b"\xfe" + b"\xff" * 8 + b"\x01", "bytes expected, 0 left"),
        (["null", "int"], b"\4", "/, byte 0: index 2 of 2 branches"),
        (["null", "int"], b"\1", "/, byte 0: index -1 of 2 branches"),
        ("null", b"\0", "/, byte 0: the value ends here, 1 bytes follow"),
        (record("int", {"type": "array", "items": "boolean"}), b"\2\4\1\7", "/f1/1, byte 3:"),
        ({"type": "map", "values": "int"}, b"\2\2k", "/k, byte 3: 1 bytes expected, 0 left"),
        # As many nulls as a count of 64 bits can say, none of which takes a byte.
        ({"type": "array", "items": "null"}, b"\xfe" + b"\xff" * 8 + b"\x01\0", "more than 2,000"),
        (LIST, b"\2" * 1_000 + b"\0", f"nested deeper than {NESTING_MAX}"),
        ("bytes", b"\0" * (DECODED_BYTES_MAX + 1), "it is larger than 1 MiB"),
    ],
)
def test_bodies_that_do_not_match(schema: object, body: bytes, fault: str) -> None:
    found = decode(schema, body)
    assert found.value is None
    assert fault in found.fault


def test_as_many_values_as_are_shown_and_no_more() -> None:
    schema = {"type": "array", "items": "int"}
    assert decode(schema, encoded(schema, [1] * (VALUES_MAX - 1))).fault == ""
    assert "more than" in decode(schema, encoded(schema, [1] * VALUES_MAX)).fault


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    every = record(LIST, {"type": "map", "values": ["null", "string"]}, "float", "double")
    found = decode(every, body)
    assert found.fault or found.value is not None


def test_frames_of_registries_are_passed_over() -> None:
    schema = record("string")
    body = encoded(schema, {"f0": "order"})
    for frame in (b"", b"\0\0\0\0\7", b"\xc3\x01" + b"12345678"):
        assert decode(schema, frame + body) == Decoded(value={"f0": "order"})
    assert decode("int", b"\0") == Decoded(value=0)
    numbers = record("int", {"type": "array", "items": "float"})
    assert decode(numbers, b"\0\2" + b"\0" * 5).value == {"f0": 0, "f1": [0.0]}
    # Of a frame around something else the fault is in what is framed.
    assert decode(schema, b"\0\0\0\0\7\x20").fault.startswith("/f0, byte 6")


@pytest.mark.parametrize(
    ("definition", "fault"),
    [
        ("", "not valid JSON"),
        ("[" * 10_000, "not valid JSON"),
        ('{"type":' * 10_000 + '"int"' + "}" * 10_000, ""),
        ("7", "/: a type must be a name, an object or an array"),
        ('"Order"', "/: there is no type Order before this"),
        ("{}", "/: type is missing"),
        ("[]", "/: a union must have at least one type"),
        ('["null", ["int"]]', "/: a union must not contain a union"),
        ('{"type": "array"}', "/items: a type must be"),
        ('{"type": "record", "name": "R"}', "/: the fields of a record must be an array"),
        ('{"type": "record", "name": "R", "fields": [1]}', "/fields/0: a field must be an object"),
        ('{"type": "record", "fields": []}', "/: name must be a string"),
        ('{"type": "record", "name": "9", "fields": []}', "must not begin with a digit"),
        ('{"type": "record", "name": "a b", "fields": []}', "a name must be letters"),
        ('{"type": "fixed", "name": "%s", "size": 1}' % ("n" * 10_000), "at most 255 characters"),
        ('{"type": "fixed", "name": "F", "size": -1}', "must be between 0 and 1,048,576"),
        ('{"type": "fixed", "name": "F", "size": 1e400}', ""),
        ('{"type": "fixed", "name": "int", "size": 1}', "two types with the name int"),
        ('{"type": "enum", "name": "E", "symbols": []}', "/: an enum must have symbols"),
        ('{"type": "enum", "name": "E", "symbols": ["A", "A"]}', "must be different"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}',
            "the record R always contains itself",
        ),
        (
            '{"type": "record", "name": "A", "fields": [{"name": "b", "type": {"type": "record",'
            ' "name": "B", "fields": [{"name": "a", "type": "A"}]}}]}',
            "always contains itself",
        ),
    ],
)
def test_schemas_that_are_refused(definition: str, fault: str) -> None:
    with pytest.raises(SchemaFault) as refused:
        parse(SchemaKind.AVRO, definition, "")
    assert fault in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_a_record_may_contain_itself_where_it_can_end() -> None:
    kinds: list[object] = [["null", "test.R"], {"type": "array", "items": "R"}]
    kinds.append({"type": "map", "values": "R"})
    assert decode(record(*kinds), b"\0\0\0").value == {"f0": None, "f1": [], "f2": {}}


def test_thousands_of_types_that_name_one_another() -> None:
    def each(index: int) -> dict[str, object]:
        inner = f"R{index - 1}" if index else "int"
        return {"type": "record", "name": f"R{index}", "fields": [{"name": "f", "type": inner}]}

    schema = [each(index) for index in range(3_000)]
    assert "nested deeper" in decode(schema, b"\xee\x2e" + b"\0").fault
