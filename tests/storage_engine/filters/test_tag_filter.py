"""Tag filters: hash in the unit first, text in the record after."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_engine.errors import FilterInvalid
from storage_engine.records.tag_hash import java_hash, tag_hash_of
from tests.storage_engine.filters.encoded import encoded, sql, tags

TAGS = st.text(st.characters(exclude_categories=["C"], exclude_characters="|* "), min_size=1)


@pytest.mark.parametrize("text", ["a || b", "a||b", " b ||\ta\n", "b || a || b", "a||b||a||a"])
def test_tags_in_any_order_with_any_white_space_are_one_filter(text: str) -> None:
    found = tags(text)

    assert str(found) == "a || b"
    assert found == tags("a || b")
    for tag in ("a", "b"):
        assert found.matches_unit(java_hash(tag))
        assert found.matches(encoded({"TAGS": tag}))
    assert not found.matches_unit(java_hash("c"))
    assert not found.matches(encoded({"TAGS": "c"}))


def test_tags_of_one_hash_are_distinguished_by_their_text() -> None:
    found = tags("Aa")

    assert found.matches_unit(java_hash("BB"))
    assert not found.matches(encoded({"TAGS": "BB"}))
    assert found.matches(encoded({"x": "1", "TAGS": "Aa"}))


def test_message_without_a_tag_matches_only_the_star() -> None:
    for properties in (b"", encoded({}), encoded({"xTAGS": "a", "b": "TAGS"})):
        assert not tags("a").matches(properties)
        assert not tags("a").matches_unit(tag_hash_of(properties))
        assert tags("*").matches(properties)
        assert tags("*").matches_unit(tag_hash_of(properties))


def test_star_is_all() -> None:
    assert tags(" * ") == tags("*")
    assert tags("*").is_all
    assert not tags("a").is_all
    assert str(tags("*")) == "*"


def test_tag_may_hold_white_space_and_stars_inside() -> None:
    assert tags("a b || c*").matches(encoded({"TAGS": "a b"}))
    assert tags("a b || c*").matches(encoded({"TAGS": "c*"}))
    assert not tags("a b || c*").matches(encoded({"TAGS": "a"}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty tag at character 1: write . for all"),
        (" \t", "an empty tag at character 1"),
        ("a ||", "an empty tag at character 5"),
        ("|| a", "an empty tag at character 1"),
        ("a || || b", "an empty tag at character 5"),
        ("a | b", r"a single \| at character 3: separate tags with \|\|"),
        ("a ||| b", r"a single \| at character 5"),
        ("a || *", r"\* at character 6: it stands for all"),
        ("* || a", r"\* at character 1"),
        ("a || b\x01", r"U\+0001 at character 7"),
        ("a || \ud800", r"U\+D800 at character 6"),
        (" || ".join(f"t{i}" for i in range(201)), "tag 't200' at character 1491: at most 200"),
        ("x" * 4_097, "4097 characters, at most 4096"),
        ("é" * 2_049, "4098 bytes in UTF-8, at most 4096"),
        ("||".join(["x" * 100] * 40 + ["y" * 10]), None),
    ],
)
def test_refusals(text: str, message: str | None) -> None:
    if message is None:
        tags(text)
        return
    with pytest.raises(FilterInvalid, match=message):
        tags(text)


def test_tags_that_get_too_long_with_spaces_are_refused() -> None:
    text = "||".join(f"{i:0>18}" for i in range(200))
    assert len(text) < 4_096

    with pytest.raises(FilterInvalid, match="4396 bytes with single spaces"):
        tags(text)


def test_filters_of_two_kinds_differ() -> None:
    assert tags("TRUE") != sql("TRUE")
    assert len({tags("TRUE"), sql("TRUE"), sql("true"), tags("TRUE ")}) == 2


@settings(deadline=None)
@given(st.lists(TAGS, min_size=1, max_size=5), TAGS)
def test_what_matches_by_text_matches_by_hash(wanted: list[str], tag: str) -> None:
    found = tags(" || ".join(wanted))
    properties = encoded({"a": "1", "TAGS": tag})

    assert found.matches(properties) is (tag in wanted)
    assert found.matches_unit(tag_hash_of(properties)) is (
        java_hash(tag) in {java_hash(other) for other in wanted}
    )
