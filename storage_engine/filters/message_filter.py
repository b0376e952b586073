"""A filter's text, compiled once and evaluated for every message; pure functions.

    text, kind ──▶ [compile_filter] ──▶ Filter ◀── tag hash of a unit     matches_unit: no, or maybe
                                          ▲
                                          └─────── properties of a record    matches: yes or no

A filter is compiled completely or refused: one that exists can be evaluated for any bytes, within
time linear in them, and never raises. Two filters are equal when they have the same kind and the
same canonical text, so white space, comments, the case of keywords, spare parentheses and the order
of tags do not make two subscriptions differ. The canonical text compiles to an equal filter.

Visible to SQL92 are all properties of a record, as in RocketMQ: the producer's own and the system's
(``TAGS``, ``KEYS``, ``UNIQ_KEY``, ``__SHARDINGKEY``, ...), so far as an identifier can name them.
What is a field of the record and not a property (topic, times, reconsume_times) is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

from storage_engine.errors import FilterInvalid
from storage_engine.filters.evaluation import Condition, compile_condition
from storage_engine.filters.limits import TEXT_BYTES_MAX, check_text
from storage_engine.filters.parser import parse
from storage_engine.filters.syntax import canonical
from storage_engine.filters.tags import ALL, parse_tags
from storage_engine.records.tag_hash import java_hash, tag_of

# Some subscriptions bring the same few filters with every request.
_KNOWN_MAX: Final = 256
# A compiled condition takes up to 200 KB, so all take 50 MB at most, however many groups have one.
COMPILED_MAX: Final = 256


class FilterKind(StrEnum):
    """The language of a filter's text."""

    TAG = "tag"
    SQL92 = "sql92"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A compiled filter; immutable, may be shared between threads.

    ``matches_unit(tag_hash)`` is False when no message with that tag hash can match, and True when
    its properties have to be asked. ``matches(properties)`` decides, from the encoded property list
    of a record. ``is_all``: every message matches, so nobody needs to ask. ``tag_hashes``: those
    that can match; None when only the properties decide.
    """

    kind: FilterKind
    text: str  # canonical
    is_all: bool = field(compare=False)
    # Attributes and not methods: one call less for every message.
    matches_unit: Callable[[int], bool] = field(compare=False, repr=False)
    matches: Callable[[bytes], bool] = field(compare=False, repr=False)
    tag_hashes: frozenset[int] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


class _Conditions:
    """Conditions by their canonical texts, compiled again when they were asked last too long ago.

    A filter lives as long as its group, and there may be very many of those.
    """

    def __init__(self) -> None:
        self.set_max(COMPILED_MAX)

    def set_max(self, count_max: int) -> None:
        self.of = lru_cache(count_max)(_condition)


def _condition(text: str) -> Condition:
    return compile_condition(parse(text))


_conditions: Final = _Conditions()


def set_compiled_max(count_max: int) -> None:
    """How many compiled conditions this process keeps, ``COMPILED_MAX`` unless told.

    Where more than these are asked in turn, each turn compiles: some milliseconds for a long one.
    """
    _conditions.set_max(count_max)


def compile_filter(text: str, kind: FilterKind) -> Filter:
    """The filter that ``text`` says in the language ``kind``.

    Raises:
        FilterInvalid: the text is none of that language or exceeds a limit; the message says what
        is wrong, at which character (the first is 1), and what would be right.
    """
    check_text(text)
    match kind:
        case FilterKind.TAG:
            return _compile_tags(text)
        case FilterKind.SQL92:
            return _compile_condition(text)


@lru_cache(_KNOWN_MAX)
def known_filter(text: str, kind: FilterKind) -> Filter:
    """The same, compiled before or now; the empty text stands for ``EVERYTHING``.

    Refusals are not remembered. Raises ``FilterInvalid``.
    """
    return compile_filter(text, kind) if text else EVERYTHING


def _compile_tags(text: str) -> Filter:
    tags = parse_tags(text)
    if tags == [ALL]:
        return Filter(
            kind=FilterKind.TAG, text=ALL, is_all=True, matches_unit=_match_all, matches=_match_all
        )
    wanted = frozenset(tag.encode() for tag in tags)
    hashes = frozenset(java_hash(tag) for tag in tags)

    def matches(properties: bytes) -> bool:
        return tag_of(properties) in wanted

    return Filter(
        kind=FilterKind.TAG,
        text=_canonical_or_none(" || ".join(tags)),
        is_all=False,
        matches_unit=hashes.__contains__,
        matches=matches,
        tag_hashes=hashes,
    )


def _compile_condition(text: str) -> Filter:
    tree = parse(text)
    kept = _canonical_or_none(canonical(tree))
    _conditions.of(kept)  # whatever is to be refused is refused now

    def matches(properties: bytes) -> bool:
        # A separator on both sides, so that every pair is found and ended in the same way.
        return _conditions.of(kept)(b"\x02" + properties + b"\x02") is True

    return Filter(
        kind=FilterKind.SQL92, text=kept, is_all=False, matches_unit=_match_all, matches=matches
    )


def _canonical_or_none(text: str) -> str:
    """The canonical text, unless it is too long to be read back: it must survive a restart."""
    text_bytes = len(text.encode())
    if text_bytes > TEXT_BYTES_MAX:
        raise FilterInvalid(
            f"the filter takes {text_bytes} bytes with single spaces around its "
            f"operators, at most {TEXT_BYTES_MAX} are allowed"
        )
    return text


def _match_all(_: object) -> bool:
    return True


EVERYTHING: Final = compile_filter(ALL, FilterKind.TAG)
