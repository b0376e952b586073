"""What an SQL92 filter means, said a second time: a walk over a tree of tuples, None for unknown.

It shares no code with the engine: numbers are fractions read by ``decimal``, properties a dict.

    ("property", name)  ("number", written)  ("text", text)  ("truth", True | False | None)
    ("sign", "+" | "-", tree)  ("compare", operator, tree, tree)  ("null", tree, is_negated)
    ("between", tree, tree, tree, is_negated)  ("in", name, trees, is_negated)
    ("search", word, name, text, is_negated)  ("not", tree)  ("and", trees)  ("or", trees)
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

Tree = tuple[Any, ...]  # nested tuples, as above; a type for each would be the code under test
Value = bytes | Fraction | bool | None
_NUMBER_CHARS = set("0123456789+-.eE")
_NUMBER_CHARS_MAX = 400


def properties_in(encoded: bytes) -> dict[str, bytes]:
    """As Java's map takes them: the last of a name counts."""
    found = {}
    for pair in encoded.split(b"\x02"):
        name, mark, value = pair.partition(b"\x01")
        if mark:
            found[name.decode("latin-1")] = value
    return found


def condition(tree: Tree, properties: dict[str, bytes]) -> bool | None:
    """The truth of a tree where a condition stands."""
    return as_truth(value(tree, properties))


def value(tree: Tree, properties: dict[str, bytes]) -> Value:
    kind, *parts = tree
    if kind == "property":
        return properties.get(parts[0])
    if kind == "number":
        return as_number(parts[0].rstrip("lL").encode())
    if kind == "text":
        return str(parts[0]).encode()
    if kind == "truth":
        known: bool | None = parts[0]
        return known
    if kind == "sign":
        number = as_number(value(parts[1], properties))
        return number if number is None or parts[0] == "+" else -number
    if kind == "compare":
        return compared(parts[0], value(parts[1], properties), value(parts[2], properties))
    if kind == "null":
        return (value(parts[0], properties) is None) is not bool(parts[1])
    if kind == "between":
        one, low, high = (value(part, properties) for part in parts[:3])
        inside = joined_and([compared("<=", low, one), compared("<=", one, high)])
        return negated(inside) if parts[3] else inside
    if kind == "in":
        own = properties.get(parts[0])
        among = joined_or([compared("=", own, value(part, properties)) for part in parts[1]])
        return negated(among) if parts[2] else among
    if kind == "search":
        if not parts[2]:
            return False
        found = searched(parts[0], properties.get(parts[1]), parts[2].encode())
        return negated(found) if parts[3] else found
    if kind == "not":
        return negated(condition(parts[0], properties))
    truths = [condition(part, properties) for part in parts[0]]
    return joined_and(truths) if kind == "and" else joined_or(truths)


def compared(operator: str, left: Value, right: Value) -> bool | None:
    if operator == "<>":
        return negated(compared("=", left, right))
    if operator == "=" and isinstance(left, bytes) and isinstance(right, bytes):
        return left == right
    if operator == "=" and (isinstance(left, bool) or isinstance(right, bool)):
        one, other = as_truth(left), as_truth(right)
        return None if one is None or other is None else one == other
    first, second = as_number(left), as_number(right)
    if first is None or second is None:
        return None
    sign = (first > second) - (first < second)
    return sign in {"=": [0], ">": [1], ">=": [0, 1], "<": [-1], "<=": [-1, 0]}[operator]


def as_number(value: Value) -> Fraction | None:
    if isinstance(value, Fraction):
        return value
    if not isinstance(value, bytes) or len(value) > _NUMBER_CHARS_MAX:
        return None
    text = value.decode("latin-1")
    if not set(text) <= _NUMBER_CHARS:
        return None
    try:
        Decimal(text)
    except InvalidOperation:
        return None
    if not set(text) & set(".eE"):
        return Fraction(int(text))
    return Fraction(float(text)) if math.isfinite(float(text)) else None


def as_truth(value: Value) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, bytes):
        return {"true": True, "false": False}.get(value.decode("latin-1").lower())
    return None


def searched(word: str, own: bytes | None, text: bytes) -> bool | None:
    if own is None:
        return None
    places = [at for at in range(len(own) + 1) if own[at : at + len(text)] == text]
    if word == "STARTSWITH":
        return 0 in places
    if word == "ENDSWITH":
        return len(own) - len(text) in places
    return bool(places)


def negated(truth: bool | None) -> bool | None:
    return {True: False, False: True, None: None}[truth]


def joined_and(truths: list[bool | None]) -> bool | None:
    if False in truths:
        return False
    return None if None in truths else True


def joined_or(truths: list[bool | None]) -> bool | None:
    if True in truths:
        return True
    return None if None in truths else False
