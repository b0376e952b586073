"""The hash of keys: Java's, one by one and many together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_engine.records.key_hash import key_hash, key_hashes, topic_hash
from tests.storage_engine.index.keyed import index_hash, java_hash

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300)


@pytest.mark.parametrize(
    ("topic", "key", "expected"),
    [
        # "a#b" = 97*961 + 35*31 + 98
        ("a", "b", 94_400),
        ("t", "abcdef", index_hash("t", "abcdef")),
        ("t", "é😀", index_hash("t", "é😀")),
    ],
)
def test_hash_of_a_key_is_javas_of_topic_and_key(topic: str, key: str, expected: int) -> None:
    assert key_hash(topic.encode(), key.encode()) == expected


def test_texts_that_java_confuses_have_one_hash() -> None:
    assert key_hash(b"t", b"Aa") == key_hash(b"t", b"BB") == index_hash("t", "Aa")
    assert key_hash(b"t", b"Aa") != key_hash(b"t", b"AB")


def test_negative_hash_becomes_positive() -> None:
    key = next(f"k{i}" * 3 for i in range(1_000) if _java("t", f"k{i}" * 3) < 0)

    assert key_hash(b"t", key.encode()) == -_java("t", key)


def test_hash_of_min_value_becomes_zero() -> None:
    key = _key_of_min_value()
    assert _java("t", key) == -(2**31)

    assert key_hash(b"t", key.encode()) == 0
    assert key_hashes(np.array([topic_hash(b"t")], np.uint32), [key.encode()]).tolist() == [0]


@given(st.lists(st.tuples(st.sampled_from(["t", "topic-2", "ns%x"]), TEXTS), min_size=1))
def test_many_keys_together_hash_as_one_by_one(pairs: list[tuple[str, str]]) -> None:
    topics = np.array([topic_hash(topic.encode()) for topic, _ in pairs], np.uint32)

    hashes = key_hashes(topics, [key.encode() for _, key in pairs])

    assert hashes.tolist() == [index_hash(topic, key) for topic, key in pairs]
    assert hashes.tolist() == [key_hash(topic.encode(), key.encode()) for topic, key in pairs]


def test_bytes_that_are_no_text_hash_as_replacement_characters() -> None:
    hashes = key_hashes(np.array([topic_hash(b"t")], np.uint32), [b"a\xff"])

    assert hashes.tolist() == [index_hash("t", "a\ufffd")] == [key_hash(b"t", b"a\xff")]


def _java(topic: str, key: str) -> int:
    return java_hash(f"{topic}#{key}")


def _key_of_min_value() -> str:
    """A key with which ``t#key`` hashes to -2^31: what is missing, written in base 31."""
    for length in range(6, 9):
        # hash("t#" + key) = hash("t#") * 31^length + hash(key)
        wanted = (2**31 - _java("t", "") * 31**length) % 2**32
        for wraps in range(64):
            value, digits = wanted + wraps * 2**32, []
            for _ in range(length - 1):
                digit = value % 31 + 62  # a printable sign
                digits.append(digit)
                value = (value - digit) // 31
            if 33 <= value <= 126:
                return "".join(map(chr, [value, *reversed(digits)]))
    raise AssertionError("no such key")
