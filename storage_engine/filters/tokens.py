"""Splits an SQL92 filter into tokens, in one pass without backtracking.

    "a >= 5 -- why" ──▶ [tokenize] ──▶ NAME a, SIGN >=, NUMBER 5, END

Keywords are recognised in any case; names of properties keep theirs, as RocketMQ's do. Comments are
``-- to the end of the line`` and ``/* between */``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from storage_engine.filters.limits import refusal, shown


class Word(StrEnum):
    """What a token is. Keywords and signs are their own text."""

    NAME = "a property"
    NUMBER = "a number"
    TEXT = "a string"
    END = "the end"
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    IS = "IS"
    NULL = "NULL"
    TRUE = "TRUE"
    FALSE = "FALSE"
    BETWEEN = "BETWEEN"
    IN = "IN"
    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"
    EQUAL = "="
    UNEQUAL = "<>"
    GREATER = ">"
    GREATER_EQUAL = ">="
    LESS = "<"
    LESS_EQUAL = "<="
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    PLUS = "+"
    MINUS = "-"


class Token(NamedTuple):
    """``at`` is its index in the text and ``written`` how it stands there; ``text`` is a name, or a
    TEXT without its quotes; ``number`` is the value of a NUMBER.
    """

    word: Word
    at: int
    written: str
    text: str = ""
    number: int | float = 0


LONG_MAX: Final = (1 << 63) - 1
_LONG_DIGITS_MAX: Final = 19
_KEYWORDS: Final = {word.value: word for word in Word if word.value.isalpha()}
# Every repetition is possessive: what it took it keeps, so a hostile text costs one pass.
_TOKEN: Final = re.compile(
    r"""
    (?P<space>  [ \t\n\r\f]++ | --[^\n\r]*+ | /\*(?:[^*]|\*(?!/))*+\*/ )
  | (?P<name>   [A-Za-z_$][A-Za-z0-9_$]*+ )
  | (?P<number> (?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+ )
  | (?P<text>   '[^']*+(?:''[^']*+)*+' )
  | (?P<sign>   <> | <= | >= | [=<>(),+-] )
    """,
    re.VERBOSE,
)
_AFTER_NUMBER: Final = re.compile(r"[A-Za-z0-9_$.]++")
_HINTS: Final = {
    "'": "the string that starts here has no closing quote",
    '"': "put strings in single quotes",
    "`": "write names of properties without quotes",
    "!": "write <> for unequal, NOT for not",
    "&": "write AND",
    "|": "write OR",
    "/": "a comment that starts with /* must end with */, and there is no arithmetic",
    "*": "there is no arithmetic; * is only for tag filters",
}
_HINT: Final = "only names, numbers, 'strings', = <> > >= < <= ( ) , + - are allowed here"


def tokenize(text: str) -> Iterator[Token]:
    """All tokens of ``text`` in order, END last; found while they are taken, so that the first
    mistake of a text is the one that is told.

    Raises:
        FilterInvalid: a character that begins no token, or a number that is none or has no value.
    """
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise refusal(shown(text[at]), at, _HINTS.get(text[at], _HINT))
        written = match[0]
        match match.lastgroup:
            case "name":
                word = _KEYWORDS.get(written.upper(), Word.NAME)
                yield Token(word, at, written, written)
            case "number":
                rest = _AFTER_NUMBER.match(text, match.end())
                if rest is not None:
                    written += rest[0]
                yield Token(Word.NUMBER, at, written, number=_number(written, at))
            case "text":
                plain = written[1:-1].replace("''", "'")
                yield Token(Word.TEXT, at, written, plain)
            case "sign":
                yield Token(Word(written), at, written)
        at += len(written)
    yield Token(Word.END, at, "")


def _number(written: str, at: int) -> int | float:
    """The value of a number, one more than the largest long included: a sign may stand before it.

    Java's suffix L is allowed after an integer.
    """
    digits = written[:-1] if written[-1] in "lL" else written
    if digits.isdigit():
        if digits[0] == "0" and len(digits) > 1:
            raise refusal(shown(written), at, "an integer must not start with 0")
        if len(digits) > _LONG_DIGITS_MAX or int(digits) > LONG_MAX + 1:
            raise refusal(shown(written), at, "an integer has at most 64 bits; write 1e20 for more")
        return int(digits)
    whole = _TOKEN.fullmatch(written)
    if whole is None or whole.lastgroup != "number":
        raise refusal(
            shown(written),
            at,
            "write a number as 5, 5.5 or 5e3; a name must not start with a digit",
        )
    value = float(written)
    if math.isinf(value):
        raise refusal(shown(written), at, "a number must be less than 1.8e308")
    if value == 0 and re.search("[1-9]", re.split("[eE]", written)[0]):
        raise refusal(shown(written), at, "a number other than 0 must be more than 4.9e-324")
    return value
