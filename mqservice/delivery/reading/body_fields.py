"""Conditions on fields of JSON bodies: ``body.order.total > 100``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

_decode = msgspec.json.Decoder().decode
# Any: of numbers and of texts.
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class FieldCondition(msgspec.Struct, frozen=True, array_like=True):
    """The field at ``path`` compares so with ``value``, as ``sign`` says. Never true of a field
    that is not there or of another kind; an index of a list is a part of the path.
    """

    path: list[str]
    sign: str
    value: str | int | float | bool

    def holds(self, body: object) -> bool:
        found = body
        for part in self.path:
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and part.isascii() and part.isdigit():
                index = int(part) if len(part) < 10 else len(found)
                found = found[index] if index < len(found) else None
            else:
                return False
        return _kind(found) is _kind(self.value) and _COMPARE[self.sign](found, self.value)


def matches_fields(body: bytes, conditions: Iterable[FieldCondition]) -> bool:
    """Whether the body is JSON for which all conditions hold."""
    try:
        value = _decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return all(condition.holds(value) for condition in conditions)


def _kind(value: object) -> type | None:
    """Numbers are of one kind; truths are none of them."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, int | float):
        return float
    return str if isinstance(value, str) else None
