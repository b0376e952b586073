"""Filters and bytes at random: the oracle's answer, one canonical text, and never a surprise."""

from __future__ import annotations

import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage_engine.errors import FilterInvalid
from storage_engine.filters.message_filter import FilterKind, compile_filter
from tests.storage_engine.filters.encoded import encoded, sql, truth_in
from tests.storage_engine.filters.expressions import (
    NAMES,
    PROPERTIES,
    TEXTS,
    TREES,
    VALUES,
    spelled,
)
from tests.storage_engine.filters.oracle import Tree, condition, properties_in

SEEDS = st.integers(0, 1 << 32)
KINDS = st.sampled_from(list(FilterKind))
FRAGMENTS = st.sampled_from([
    *NAMES, *(f"'{text}'" for text in TEXTS), "5", "-1", "1e5", "1e", ".", "(", ")", ",", "'", "=",
    "<>", ">", "NOT", "and", "OR", "IS", "NULL", "TRUE", "BETWEEN", "IN", "CONTAINS", "EndsWith",
    "--", "/*", "*/", "\n", "||", "*", "!", "\x00", "\x01", "\ud800", "é", "٣",
])  # fmt: skip
# Bytes that look like properties, and such that do not.
LISTS = st.lists(
    st.sampled_from([
        b"\x01", b"\x02", b"a", b"a\x015\x02", b"region\x01eu\x02", b"TAGS\x01", b"eu", b"5", b".",
        b"\xff", b"\x00", b"\xc3", b"-", b"e", b"true",
    ])
    | st.binary(max_size=4)
).map(b"".join)  # fmt: skip


@settings(deadline=None)
@given(TREES, SEEDS, PROPERTIES)
def test_every_expression_means_what_the_oracle_says(
    tree: Tree, seed: int, properties: dict[str, str]
) -> None:
    text = spelled(tree, seed)

    expected = condition(tree, {name: value.encode() for name, value in properties.items()})

    assert truth_in(text, encoded(properties)) is expected


@settings(deadline=None)
@given(TREES, SEEDS, LISTS)
def test_any_bytes_mean_what_javas_map_of_them_means(
    tree: Tree, seed: int, properties: bytes
) -> None:
    text = spelled(tree, seed)

    assert truth_in(text, properties) is condition(tree, properties_in(properties))


@settings(deadline=None)
@given(TREES, SEEDS, SEEDS)
def test_all_spellings_of_an_expression_are_equal_and_have_one_text(
    tree: Tree, seed: int, other_seed: int
) -> None:
    first, second = sql(spelled(tree, seed)), sql(spelled(tree, other_seed))

    assert first == second
    assert str(first) == str(second)
    assert hash(first) == hash(second)
    again = sql(str(first))
    assert again == first
    assert str(again) == str(first)


@settings(deadline=None)
@given(st.text() | st.lists(FRAGMENTS).map(" ".join) | st.lists(FRAGMENTS).map("".join), KINDS)
@example("a" * 2_048 + "(" * 2_049, FilterKind.SQL92)
def test_any_text_is_a_filter_or_refused_as_none(text: str, kind: FilterKind) -> None:
    with contextlib.suppress(FilterInvalid):
        found = compile_filter(text, kind)
        assert compile_filter(str(found), kind) == found
        for value in VALUES:
            found.matches(encoded({"a": value, "TAGS": value}))


@settings(deadline=None)
@given(LISTS, st.integers())
def test_tag_filter_takes_any_bytes(properties: bytes, tag_hash: int) -> None:
    found = compile_filter("eu || 5", FilterKind.TAG)

    assert found.matches(properties) in (True, False)
    assert found.matches_unit(tag_hash) in (True, False)
