"""Property lists as bytes, and short ways to ask a filter."""

from __future__ import annotations

from storage_engine.filters.message_filter import Filter, FilterKind, compile_filter


def encoded(properties: dict[str, str]) -> bytes:
    """As a record holds them, with the CRC behind them."""
    pairs = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return pairs.encode() + b"__CRC32#\x010123456789\x02"


def sql(text: str) -> Filter:
    return compile_filter(text, FilterKind.SQL92)


def tags(text: str) -> Filter:
    return compile_filter(text, FilterKind.TAG)


def truth(text: str, properties: dict[str, str]) -> bool | None:
    """All three values of a condition: a filter alone tells only TRUE from the others."""
    return truth_in(text, encoded(properties))


def truth_in(text: str, properties: bytes) -> bool | None:
    # The line ends before the parenthesis, since the text may end with a comment.
    is_true = sql(text).matches(properties)
    is_false = sql(f"NOT ({text}\n)").matches(properties)
    is_unknown = sql(f"(NOT ({text}\n)) IS NULL").matches(properties)
    assert is_true + is_false + is_unknown == 1, text
    return None if is_unknown else is_true
