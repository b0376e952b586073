"""Compiles the tree of an SQL92 filter into nested functions, so that matching looks nothing up.

    Node ──▶ [compile_condition] ──▶ condition(framed) ──▶ True, False, or None for unknown

``framed`` is an encoded property list with a separator on both sides: ``0x02 name 0x01 value 0x02
name …``. So a property is found by one search for ``0x02 name 0x01``, from the end, since the last
of a name counts, as in Java's map.

The values of properties are texts. What one is compared with says how it is read:

    compared with                      read as     unknown when
    a text, or = <> another property   text        never
    a number, or > >= < <= BETWEEN     number      it is no number
    TRUE, FALSE, a condition           TRUE/FALSE  it is neither of the two words, in any case

A property that is missing is unknown; an empty one is an empty text. A number is an optional sign
and what the grammar allows for literals, also with leading zeros; nothing else that Java or Python
take for one (spaces, underscores, hexadecimal, NaN, Infinity). Integers are compared exactly.

RocketMQ reads a property as the very type of the literal, so there ``a > 5`` misses 5.5 and one
unreadable value fails the whole expression; it takes every text but "true" for FALSE, and a missing
property for one that contains nothing. Here all these are unknown, and only that comparison is. The
search for an empty text is FALSE in both.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any, Final

from storage_engine.filters.syntax import (
    And,
    Between,
    Comparison,
    Membership,
    Negation,
    Node,
    NullTest,
    Number,
    Or,
    Property,
    Search,
    Signed,
    Text,
    Truth,
)
from storage_engine.filters.tokens import Word

# A property's text, a number, a truth; None is unknown.
Value = bytes | int | float | bool | None
Condition = Callable[[bytes], bool | None]
_Operand = Callable[[bytes], Value]
# Of numbers; mypy knows no type that all of int and float and these functions share.
_Compare = Callable[[Any, Any], bool]

_COMPARE: Final[dict[Word, _Compare]] = {
    Word.EQUAL: operator.eq,
    Word.UNEQUAL: operator.ne,
    Word.GREATER: operator.gt,
    Word.GREATER_EQUAL: operator.ge,
    Word.LESS: operator.lt,
    Word.LESS_EQUAL: operator.le,
}
_MIRRORED: Final = {
    Word.EQUAL: Word.EQUAL,
    Word.UNEQUAL: Word.UNEQUAL,
    Word.GREATER: Word.LESS,
    Word.GREATER_EQUAL: Word.LESS_EQUAL,
    Word.LESS: Word.GREATER,
    Word.LESS_EQUAL: Word.GREATER_EQUAL,
}
# The largest double has 309 digits before the point; longer texts are no numbers. It keeps the
# conversion of hostile values, which is not linear, short.
_NUMBER_BYTES_MAX: Final = 400
_NUMBER: Final = re.compile(rb"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
_TRUTHS: Final = {b"true": True, b"false": False}
_TRUTH_BYTES_MAX: Final = 5


def compile_condition(node: Node) -> Condition:
    """The function that says whether ``node`` holds for framed properties."""
    match node:
        case Truth(value):
            return lambda _: value
        case Property(name):
            value_of = _property(name)
            return lambda framed: truth_of(value_of(framed))
        case Comparison(word, left, right):
            return _comparison(word, left, right)
        case NullTest(operand, is_negated):
            return _null_test(operand, is_negated)
        case Between(operand, low, high, is_negated):
            # By definition; each part is unknown when its own bound is.
            bounds = (
                _comparison(Word.GREATER_EQUAL, operand, low),
                _comparison(Word.LESS_EQUAL, operand, high),
            )
            return _negated(_all_of(bounds)) if is_negated else _all_of(bounds)
        case Membership(name, values, is_negated):
            return _membership(name, values, is_negated)
        case Search(text=""):
            return lambda _: False  # as in RocketMQ, for CONTAINS and NOT CONTAINS alike
        case Search(word, name, text, is_negated):
            found = _search(word, name, text.encode())
            return _negated(found) if is_negated else found
        case Negation(part):
            return _negated(compile_condition(part))
        case And(parts):
            return _all_of(tuple(map(compile_condition, parts)))
        case Or(parts):
            return _any_of(tuple(map(compile_condition, parts)))
        case _:
            raise AssertionError(f"the parser lets no {node!r} be a condition")


def number_of(value: Value) -> int | float | None:
    """``value`` as a number; None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    if not isinstance(value, bytes):
        return value
    if len(value) > _NUMBER_BYTES_MAX:
        return None
    if value.isdigit():
        return int(value)
    if _NUMBER.fullmatch(value) is None:
        return None
    if value[1:].isdigit():
        # The first byte was a sign; or a point, after which digits are no integer.
        return float(value) if value[:1] == b"." else int(value)
    number = float(value)
    return number if math.isfinite(number) else None


def truth_of(value: Value) -> bool | None:
    """``value`` as TRUE or FALSE; None when it is neither."""
    if isinstance(value, bool):
        return value
    if isinstance(value, bytes) and len(value) <= _TRUTH_BYTES_MAX:
        return _TRUTHS.get(value.lower())
    return None


def _all_of(parts: tuple[Condition, ...]) -> Condition:
    if len(parts) == 2:
        left, right = parts

        def both(framed: bytes) -> bool | None:
            first = left(framed)
            if first is False:
                return False
            second = right(framed)
            # Without a FALSE, one unknown part makes all unknown.
            return second if first or second is False else None

        return both

    def every(framed: bytes) -> bool | None:
        answer: bool | None = True
        for part in parts:
            one = part(framed)
            if one is False:
                return False
            if one is None:
                answer = None
        return answer

    return every


def _any_of(parts: tuple[Condition, ...]) -> Condition:
    def some(framed: bytes) -> bool | None:
        answer: bool | None = False
        for part in parts:
            one = part(framed)
            if one:
                return True
            if one is None:
                answer = None
        return answer

    return some


def _negated(part: Condition) -> Condition:
    def negated(framed: bytes) -> bool | None:
        answer = part(framed)
        return None if answer is None else not answer

    return negated


def _null_test(node: Node, is_negated: bool) -> Condition:
    if isinstance(node, Property):
        head = _head(node.name)
        if is_negated:
            return lambda framed: head in framed
        return lambda framed: head not in framed
    operand = _operand(node)
    return lambda framed: (operand(framed) is None) is not is_negated


def _comparison(word: Word, left: Node, right: Node) -> Condition:
    """The general case, and faster functions for a property and a literal."""
    if isinstance(right, Property) and isinstance(left, Text | Number):
        word, left, right = _MIRRORED[word], right, left
    if isinstance(left, Property):
        if isinstance(right, Number):
            return _number_comparison(_COMPARE[word], left.name, right.value)
        if isinstance(right, Text):
            return _text_comparison(left.name, right.value.encode(), word is Word.EQUAL)
    compare, first, second = _COMPARE[word], _operand(left), _operand(right)
    if word not in (Word.EQUAL, Word.UNEQUAL):

        def ordered(framed: bytes) -> bool | None:
            one, other = number_of(first(framed)), number_of(second(framed))
            return None if one is None or other is None else compare(one, other)

        return ordered

    def equated(framed: bytes) -> bool | None:
        one, other = first(framed), second(framed)
        if not (isinstance(one, bytes) and isinstance(other, bytes)):
            if isinstance(one, bool) or isinstance(other, bool):
                one, other = truth_of(one), truth_of(other)
            else:
                one, other = number_of(one), number_of(other)
        return None if one is None or other is None else compare(one, other)

    return equated


def _number_comparison(compare: _Compare, name: str, literal: int | float) -> Condition:
    head = _head(name)
    skip = len(head)

    def number_comparison(framed: bytes) -> bool | None:
        at = framed.rfind(head)
        if at < 0:
            return None
        at += skip
        number = number_of(framed[at : framed.find(b"\x02", at)])
        return None if number is None else compare(number, literal)

    return number_comparison


def _text_comparison(name: str, text: bytes, is_wanted: bool) -> Condition:
    head = _head(name)
    skip = len(head)
    ended = text + b"\x02"

    def text_comparison(framed: bytes) -> bool | None:
        at = framed.rfind(head)
        if at < 0:
            return None
        return framed.startswith(ended, at + skip) is is_wanted

    return text_comparison


def _membership(name: str, values: tuple[Text | Number, ...], is_negated: bool) -> Condition:
    """As if each value were compared by ``=`` and the answers joined by OR."""
    value_of = _property(name)
    texts = frozenset(value.value.encode() for value in values if isinstance(value, Text))
    numbers = frozenset(value.value for value in values if isinstance(value, Number))

    def membership(framed: bytes) -> bool | None:
        value = value_of(framed)
        if value is None:
            return None
        if value in texts:
            return not is_negated
        if numbers:
            number = number_of(value)
            if number is None:
                return None
            if number in numbers:
                return not is_negated
        return is_negated

    return membership


def _search(word: Word, name: str, text: bytes) -> Condition:
    # UTF-8 has no character inside another one, so bytes may be searched.
    value_of = _property(name)
    if word is Word.CONTAINS:

        def contains(framed: bytes) -> bool | None:
            value = value_of(framed)
            return None if value is None else text in value

        return contains
    if word is Word.STARTSWITH:

        def starts(framed: bytes) -> bool | None:
            value = value_of(framed)
            return None if value is None else value.startswith(text)

        return starts

    def ends(framed: bytes) -> bool | None:
        value = value_of(framed)
        return None if value is None else value.endswith(text)

    return ends


def _operand(node: Node) -> _Operand:
    match node:
        case Property(name):
            return _property(name)
        case Signed(name, is_negative):
            return _signed(name, is_negative)
        case Text(text):
            value = text.encode()
            return lambda _: value
        case Number(number):
            return lambda _: number
        case _:
            return compile_condition(node)


def _property(name: str) -> Callable[[bytes], bytes | None]:
    head = _head(name)
    skip = len(head)

    def value_of(framed: bytes) -> bytes | None:
        at = framed.rfind(head)
        if at < 0:
            return None
        at += skip
        return framed[at : framed.find(b"\x02", at)]

    return value_of


def _signed(name: str, is_negative: bool) -> _Operand:
    value_of = _property(name)

    def signed(framed: bytes) -> Value:
        number = number_of(value_of(framed))
        return -number if number is not None and is_negative else number

    return signed


def _head(name: str) -> bytes:
    return b"\x02%b\x01" % name.encode()
