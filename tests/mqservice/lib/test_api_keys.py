"""The text form of API keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.lib.api_keys import KEY_CHARS, generate_api_key, parse_api_key


def test_generated_key_can_be_parsed_and_has_its_parts() -> None:
    text = generate_api_key()
    key = parse_api_key(text)
    assert key is not None
    assert len(text) == KEY_CHARS == 50
    assert text.startswith(f"mqk_{key.public_id}{key.secret}")
    assert key.text == text
    assert key.last4 == key.secret[-4:]


def test_two_generated_keys_differ() -> None:
    assert len({generate_api_key() for _ in range(100)}) == 100


@given(position=st.integers(4, KEY_CHARS - 1))
def test_one_wrong_character_is_noticed_without_a_query(position: int) -> None:
    text = generate_api_key()
    wrong = "A" if text[position] != "A" else "B"
    assert parse_api_key(text[:position] + wrong + text[position + 1 :]) is None


@pytest.mark.parametrize("text", ["", "mqk_", "mqk_" + "a" * 46, "sk_" + "a" * 47, "é" * 50])
def test_what_is_no_key_is_refused(text: str) -> None:
    assert parse_api_key(text) is None


@given(st.text(max_size=80))
def test_any_text_is_refused_or_comes_back_unchanged(text: str) -> None:
    key = parse_api_key(text)
    assert key is None or key.text == text


def test_secret_is_not_part_of_the_representation() -> None:
    key = parse_api_key(generate_api_key())
    assert key is not None
    assert key.secret not in repr(key)
