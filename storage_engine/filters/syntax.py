"""The tree of an SQL92 filter, and its canonical text.

    parser ──▶ Node ──▶ evaluation
                 └────▶ [canonical] ──▶ text

Operands are ``Property``, ``Signed``, ``Text``, ``Number``, and all conditions, since the grammar
lets TRUE, FALSE and a condition in parentheses be compared for equality. Conditions are all others
and ``Property``. ``And`` and ``Or`` have two parts at least and none of their own kind, so that
``a AND (b AND c)`` and ``(a AND b) AND c`` are one tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from storage_engine.filters.tokens import Word


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a property; as a condition whether it says TRUE."""

    name: str


@dataclass(frozen=True, slots=True)
class Signed:
    """The number that a property says, or its opposite."""

    name: str
    is_negative: bool


@dataclass(frozen=True, slots=True)
class Text:
    value: str


@dataclass(frozen=True, slots=True)
class Number:
    """An int wherever the value is a whole number of 64 bits; so 5, 5.0 and 0.5e1 are the same."""

    value: int | float


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE, FALSE, or None for NULL."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: Word
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class NullTest:
    operand: Node
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Between:
    operand: Node
    low: Node
    high: Node
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Membership:
    name: str
    values: tuple[Text | Number, ...]
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Search:
    """``operator`` is CONTAINS, STARTSWITH or ENDSWITH. An empty ``text`` is never found, and it is
    not true either that it is not found.
    """

    operator: Word
    name: str
    text: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Negation:
    part: Node


@dataclass(frozen=True, slots=True)
class And:
    """AND."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """OR."""

    parts: tuple[Node, ...]


Node = (
    Property
    | Signed
    | Text
    | Number
    | Truth
    | Comparison
    | NullTest
    | Between
    | Membership
    | Search
    | Negation
    | And
    | Or
)
_OPERANDS: Final = (Property, Signed, Text, Number, Truth)


def canonical(node: Node) -> str:
    """The text that parses to ``node``: keywords in capitals, single spaces, no spare parentheses.

    It has parentheses only where every text of this tree has them, so its depth is not larger.
    """
    match node:
        case Property(name):
            return name
        case Signed(name, is_negative):
            return f"-{name}" if is_negative else f"+{name}"
        case Text(value):
            return "'" + value.replace("'", "''") + "'"
        case Number(value):
            return repr(value)
        case Truth(value):
            return "NULL" if value is None else str(value).upper()
        case Comparison(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case NullTest(operand, is_negated):
            return f"{_operand(operand)} IS {_not(is_negated)}NULL"
        case Between(operand, low, high, is_negated):
            between = f"{_not(is_negated)}BETWEEN {_operand(low)} AND {_operand(high)}"
            return f"{_operand(operand)} {between}"
        case Membership(name, values, is_negated):
            return f"{name} {_not(is_negated)}IN ({', '.join(map(canonical, values))})"
        case Search(operator, name, text, is_negated):
            return f"{name} {_not(is_negated)}{operator} {canonical(Text(text))}"
        case Negation(part):
            return f"NOT {_enclosed(part, And, Or)}"
        case And(parts):
            return " AND ".join(_enclosed(part, Or) for part in parts)
        case Or(parts):
            return " OR ".join(map(canonical, parts))


def _operand(node: Node) -> str:
    return canonical(node) if isinstance(node, _OPERANDS) else f"({canonical(node)})"


def _enclosed(node: Node, *weaker: type[And] | type[Or]) -> str:
    """In parentheses where the part binds weaker than what is around it."""
    return f"({canonical(node)})" if isinstance(node, weaker) else canonical(node)


def _not(is_negated: bool) -> str:
    return "NOT " if is_negated else ""
