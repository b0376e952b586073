"""Bodies as a page shows them: trees of JSON and MessagePack; anything else as text and bytes."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import msgspec
import pytest

from mqservice.console.shared.bodies import (
    LEAF_CHARS_MAX,
    MSGPACK_BYTES_MAX,
    TREE_CHARS_MAX,
    TREE_NODES_MAX,
    ShownBody,
    TreeForm,
    shown_body,
)
from mqservice.topic_schemas.limits import NESTING_MAX

Node = dict[str, object]


def shown(body: bytes) -> ShownBody:
    return shown_body({"body_b64": base64.b64encode(body).decode()}, None)


def packed(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


def leaves(node: Node) -> list[tuple[str, str]]:
    """Key and text of each value, in order."""
    children = node.get("children")
    if children is None:
        return [(str(node["key"]), str(node["text"]))]
    assert isinstance(children, list)
    return [leaf for child in children for leaf in leaves(child)]


def test_maps_of_messagepack_are_a_tree_as_those_of_json_are() -> None:
    value = {"order": 42, "paid": True, "items": ["a", None], "name": "日本"}

    as_json, as_msgpack = shown(json.dumps(value).encode()), shown(packed(value))

    assert (as_json.tree_form, as_msgpack.tree_form) == (TreeForm.JSON, TreeForm.MSGPACK)
    assert as_json.tree == as_msgpack.tree
    assert as_msgpack.text is None


def test_what_json_does_not_have_is_told_in_words() -> None:
    at = datetime(2026, 11, 27, 8, tzinfo=UTC)
    body = packed(
        {1: b"\x00\xff", "long": b"a" * 65, "ext": msgspec.msgpack.Ext(5, b"\x01"), "at": at}
    )

    tree = shown(body).tree

    assert tree is not None
    assert leaves(tree[0]) == [
        ("1", "00 ff"),
        ("long", "61 " * 64 + "…"),
        ("ext", "ext 5: 01"),
        ("at", "2026-11-27T08:00:00+00:00"),
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x91\x01\x02",  # with something behind it
        b"\xdd\xff\xff\xff\xff",  # that says it has four billion items
        b"\x91" * 100_000,  # too deep
        b"\x91\xc1",  # a byte that means nothing
        b"\xcc\xff",  # a number alone
        b"\x81\xa1a\xa1\xff",  # a text that is no UTF-8
        packed(list(range(TREE_NODES_MAX))) + b"",
        packed([b"\xff" * MSGPACK_BYTES_MAX]),
        packed([255] * 3)[:-1],  # cut
        b"\xff\xd8\xff\xe0 a picture",
        b'{"a": ',  # JSON that is cut
        b"{" * 100_000,
        b"[" * (NESTING_MAX + 2) + b"]" * (NESTING_MAX + 2),  # deeper than a page can show
        b"\x91" * (NESTING_MAX + 1) + b"\x90",
    ],
)
def test_what_is_neither_is_text_or_bytes(body: bytes) -> None:
    found = shown(body)

    assert found.tree is None
    assert found.tree_form == ""
    assert found.size_bytes == len(body)
    assert (found.text is not None) or found.hex


def test_text_is_never_taken_for_messagepack() -> None:
    found = shown("ޟ is a letter of Thaana".encode())  # begins with the byte of a large map

    assert found.tree_form == ""
    assert found.text is not None


def test_half_of_a_character_is_shown_as_its_escape() -> None:
    tree = shown(rb'{"\ud800": "a\udfff"}').tree

    assert tree is not None
    assert leaves(tree[0]) == [("\\ud800", '"a\\udfff"')]


def test_long_values_and_keys_of_a_tree_are_cut() -> None:
    long = "x" * (4 * 1024 * 1024)

    (leaf,) = leaves(tree_of({long: long}))

    assert leaf == ("x" * LEAF_CHARS_MAX + "…", '"' + "x" * (LEAF_CHARS_MAX - 1) + "…")


def test_of_many_long_values_the_first_are_shown_and_each_has_its_place() -> None:
    found = leaves(tree_of(["y" * LEAF_CHARS_MAX] * 1_000))

    assert len(found) == 1_000
    assert sum(len(text) for _, text in found) < TREE_CHARS_MAX + 2 * len(found)
    assert found[-1] == ("…", "…")


def tree_of(value: object) -> Node:
    found = shown(json.dumps(value).encode()).tree
    assert found is not None
    return found[0]
