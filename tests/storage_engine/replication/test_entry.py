"""Entries of the replicated log: what was encoded comes back, and nothing else is taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from storage_engine.errors import StoreCorrupt
from storage_engine.replication.entry import (
    Kind,
    ReplicatedEntry,
    Section,
    beginning_anew,
    decode,
    encode,
)

_U63 = some.integers(0, (1 << 63) - 1)
_NAMES = some.sampled_from(
    ["checkpoint", "offsets.journal", "config/topics.json", "config/epoch", "dedup/00000001"]
)
_FILES = some.one_of(
    some.builds(
        Section,
        some.sampled_from([Kind.APPENDED, Kind.FILE]),
        _U63,
        some.binary(max_size=50),
        _NAMES,
    ),
    some.builds(Section, some.just(Kind.GONE), some.just(0), some.just(b""), _NAMES),
)


@some.composite
def entries(draw: some.DrawFn) -> ReplicatedEntry:
    """Any that a shipper may make."""
    log_start = draw(some.integers(0, 1 << 60))
    position = log_start + draw(some.integers(0, 1 << 40))
    sections = draw(some.lists(_FILES, max_size=4))
    for content in draw(some.lists(some.binary(max_size=100), max_size=3)):
        sections.append(Section(Kind.LOG, position, content))
        position += len(content)
    return ReplicatedEntry(
        draw(_U63),
        draw(_U63),
        log_start,
        position,
        draw(some.integers(0, (1 << 32) - 1)),
        sections,
        draw(some.booleans()),
        draw(some.booleans()),
        draw(some.booleans()),
    )


@given(entries())
def test_what_was_encoded_is_decoded(entry: ReplicatedEntry) -> None:
    assert decode(encode(entry)) == entry


def test_that_a_store_begins_anew_is_decoded() -> None:
    entry = beginning_anew(3, 8, log_end=4_000, segment_bytes=4_096, split_number=5)
    found = decode(encode(entry))
    assert (found, found.split_number, found.log_from) == (entry, 5, 4_000)
    # Engines that do not know such an entry say that they are too old for it.
    assert (encode(entry)[4], encode(ReplicatedEntry(3, 8, 0, 0, 4_096))[4]) == (2, 1)


@given(entries(), some.data())
def test_a_changed_bit_is_refused(entry: ReplicatedEntry, data: some.DataObject) -> None:
    content = bytearray(encode(entry))
    bit = data.draw(some.integers(0, len(content) * 8 - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreCorrupt):
        decode(bytes(content))


@given(entries(), some.data())
def test_a_cut_or_lengthened_entry_is_refused(
    entry: ReplicatedEntry, data: some.DataObject
) -> None:
    content = encode(entry)
    cut = data.draw(some.integers(0, len(content) - 1))
    for other in (content[:cut], content + b"\0"):
        with pytest.raises(StoreCorrupt):
            decode(other)


@pytest.mark.parametrize(
    "sections",
    [
        [Section(Kind.FILE, 0, b"x", "../outside")],
        [Section(Kind.FILE, 0, b"x", "config/../../outside")],
        [Section(Kind.FILE, 0, b"x", "config/.hidden")],
        [Section(Kind.FILE, 0, b"x", "commitlog/00000000000000000000")],
        [Section(Kind.FILE, 0, b"x", "config/topics.json.tmp")],
        [Section(Kind.FILE, 0, b"x")],
        [Section(Kind.LOG, 100, b"x", "checkpoint")],
        [Section(Kind.GONE, 0, b"x", "dedup/00000001")],
        [Section(Kind.LOG, 98, b"x"), Section(Kind.LOG, 100, b"x")],
        [Section(Kind.LOG, 99, b"xx")],
        [Section(Kind.ANEW, 5, b"x")],
        [Section(Kind.ANEW, 5, b"", "checkpoint")],
        [Section(Kind.ANEW, 0, b"")],
        [Section(Kind.ANEW, 5, b""), Section(Kind.ANEW, 5, b"")],
        [Section(Kind.ANEW, 5, b""), Section(Kind.LOG, 99, b"x")],
    ],
)
def test_what_no_shipper_makes_is_refused(sections: list[Section]) -> None:
    """The log of the entry ends at 100."""
    with pytest.raises(StoreCorrupt):
        decode(encode(ReplicatedEntry(1, 1, 0, 100, 4_096, sections)))


def test_an_entry_of_a_newer_engine_says_so() -> None:
    content = bytearray(encode(ReplicatedEntry(1, 1, 0, 0, 4_096)))
    content[4] = 3
    with pytest.raises(StoreCorrupt, match="newer engine"):
        decode(bytes(content))
