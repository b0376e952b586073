"""Whatever stands in a reply, columns say what decoding each record says, or nothing at all."""

from __future__ import annotations

import contextlib
import struct
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.errors import StoreCorrupt
from storage_engine.records.record import Record, StoreMessage, encode_record
from storage_engine.records.record_columns import RECORDS_MIN, RecordColumns, columns_of
from storage_engine.records.record_run import decode_records

COUNT_MAX = RECORDS_MIN + 4
# What looks like a part of the layout, among all else.
PIECES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "__CRC32#", "__SHARDINGKEY", "ä", "\x00"])
TEXTS = st.one_of(PIECES, st.text(st.characters(exclude_characters="\x01\x02", codec="utf-8")))
NAMES = TEXTS.filter(bool)
BODIES = st.one_of(
    st.binary(max_size=40), st.sampled_from([b"", b"UNIQ_KEY\x01x\x02", b"\x02" * 22, b"[1,\n2]"])
)
HOSTS = st.sampled_from([("10.0.0.1", 7), ("10.0.0.2", 8), ("::1", 9)])


@dataclass(frozen=True)
class Kind:
    """What is common to messages of one producer."""

    topic: str
    tag: str | None = None
    keys: list[str] = field(default_factory=list)
    message_group: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


KINDS = st.builds(
    Kind,
    topic=st.one_of(TEXTS.filter(lambda each: len(each.encode()) < 128), st.just("n" * 128)),
    tag=st.none() | TEXTS,
    keys=st.lists(st.sampled_from(["k", "l"]), max_size=1),
    message_group=st.none() | TEXTS,
    properties=st.dictionaries(NAMES, TEXTS, max_size=3),
)
PLAIN = st.builds(Kind, topic=st.just("acme%orders"), tag=st.none() | TEXTS)
IDS = st.one_of(st.text("abä", min_size=2, max_size=2), TEXTS)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[bytes], int]:
    """Records of one kind or of two, and where they stand."""
    kinds = draw(st.lists(st.one_of(PLAIN, KINDS), min_size=1, max_size=2))
    kinds = draw(st.sampled_from([kinds, kinds[:1]]))
    one_id, one_host = draw(IDS), draw(HOSTS)
    is_alike = draw(st.booleans())
    records = []
    for number in range(draw(st.integers(0, COUNT_MAX))):
        kind = draw(st.sampled_from(kinds))
        message = StoreMessage(
            topic=kind.topic,
            queue_id=draw(st.integers(0, 2**32 - 1)) if number else 0,
            body=draw(BODIES),
            message_id=f"{one_id}{number % 10}" if is_alike else draw(IDS),
            born_timestamp_ms=1,
            born_host=("10.0.0.1", number) if is_alike else draw(st.just(one_host) | HOSTS),
            tag=kind.tag,
            keys=kind.keys,
            message_group=kind.message_group,
            properties=kind.properties,
        )
        try:
            record = bytearray(encode_record(message))
        except Exception:
            continue  # names that the layout has no place for
        record[20:28] = struct.pack(">q", number)
        if not record[39]:
            record[56:64] = struct.pack(">q", 1_700_000_000_000 + number)
        records.append(bytes(record))
    return records, draw(st.integers(0, 5))


def by_columns(columns: RecordColumns) -> list[tuple[object, ...]]:
    rows = zip(
        columns.queue_ids,
        columns.queue_offsets,
        columns.store_timestamps_ms,
        columns.message_ids,
        columns.body_sizes,
        columns.bodies,
        strict=True,
    )
    common: tuple[object, ...] = (columns.topic, columns.tag, columns.properties, [], None)
    return [(*row, *common) for row in rows]


def by_record(records: list[Record]) -> list[tuple[object, ...]]:
    return [
        (
            each.queue_id, each.queue_offset, each.store_timestamp_ms, each.message_id,
            len(each.body), each.body, each.topic, each.tag, each.properties, each.keys,
            each.message_group,
        )
        for each in records
    ]  # fmt: skip


@given(runs())
def test_whatever_was_sent(run: tuple[list[bytes], int]) -> None:
    records, at = run
    content = bytes(at) + b"".join(records)
    decoded = decode_records(content, at)
    assert len(decoded) == len(records)
    columns = columns_of(content, at, len(records))
    if columns is not None:
        assert by_columns(columns) == by_record(decoded)


@given(runs(), st.data())
def test_whatever_becomes_of_it(run: tuple[list[bytes], int], data: st.DataObject) -> None:
    """A reply that was cut or changed ends both, or both say the same of it."""
    records, at = run
    content = bytearray(bytes(at) + b"".join(records))
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(at, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3)) if len(content) > at else 0):
        content[data.draw(st.integers(at, len(content) - 1))] = data.draw(st.integers(0, 255))
    columns = None
    with contextlib.suppress(StoreCorrupt, IndexError, struct.error, UnicodeDecodeError):
        columns = columns_of(bytes(content), at, len(records))
    with contextlib.suppress(StoreCorrupt, IndexError, struct.error, UnicodeDecodeError):
        decoded = decode_records(bytes(content), at)
        if columns is not None and len(decoded) == len(records):
            assert by_columns(columns) == by_record(decoded)


def alike(count: int) -> bytearray:
    return bytearray().join(
        encode_record(
            StoreMessage(
                topic="acme%orders",
                queue_id=0,
                body=b"b",
                message_id=f"m{number:03}",
                born_timestamp_ms=1,
                born_host=("10.0.0.1", 1),
            )
        )
        for number in range(count)
    )


@pytest.mark.parametrize("at", [0, 3, RECORDS_MIN])
def test_a_record_that_claims_no_bytes_ends_it(at: int) -> None:
    content = alike(RECORDS_MIN + 1)
    at *= len(content) // (RECORDS_MIN + 1)
    content[at : at + 4] = bytes(4)
    for wrong in (bytes(content), bytes(content[: at + 40])):
        with pytest.raises((StoreCorrupt, struct.error)):
            decode_records(wrong)
        assert columns_of(wrong, 0, RECORDS_MIN + 1) is None


@pytest.mark.parametrize("count", [RECORDS_MIN, RECORDS_MIN + 2])
def test_another_number_than_said_has_no_columns(count: int) -> None:
    content = bytes(alike(RECORDS_MIN + 1))
    assert columns_of(content, 0, RECORDS_MIN + 1) is not None
    assert columns_of(content, 0, count) is None
