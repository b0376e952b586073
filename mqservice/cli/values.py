"""Parses values of options and arguments into what commands use.

Typer reads them with pydantic, which takes longer to load than a whole command runs, and whose
complaints are about Python's types.
"""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any, get_args, get_origin

from typer import BadParameter

from mqservice.cli.errors import UsageError

_FLAGS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off", ""), False),
}


class Reader:
    """Reads the values of one option or argument; what typer calls a runtime parameter."""

    def __init__(self, annotation: Any, *, low: float | None, high: float | None) -> None:
        """``annotation``: str, int, float, bool, Path, a StrEnum, or a list of one of them."""
        is_list = get_origin(annotation) is list
        self._kind: Any = get_args(annotation)[0] if is_list else annotation
        assert self._kind in (str, int, float, bool, Path) or issubclass(self._kind, enum.StrEnum)
        self._low = low
        self._high = high

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """One value, several as a list, or what typer has where none is given.

        Raises:
            BadParameter: a value is none of the kind, or out of its range.
        """
        is_several = param.multiple or param.nargs == -1
        if value is None:
            return () if is_several else None
        try:
            return [self.read(each) for each in value] if is_several else self.read(value)
        except ValueError as exc:
            raise BadParameter(str(exc), ctx=ctx, param=param) from exc

    def read(self, value: Any) -> Any:
        """One value; a default is one already. Raises ValueError with words for people."""
        if issubclass(self._kind, enum.StrEnum):
            try:
                return self._kind(value)
            except ValueError as exc:
                raise ValueError(f"{value!r} must be one of {', '.join(self._kind)}") from exc
        if self._kind is bool and isinstance(value, str):
            if value.lower() not in _FLAGS:
                raise ValueError(f"{value!r} must be true or false")
            return _FLAGS[value.lower()]
        if self._kind in (int, float):
            return self._number(value)
        return self._kind(value)

    def _number(self, value: Any) -> int | float:
        try:
            number: int | float = self._kind(value)
        except (ValueError, OverflowError) as exc:
            what = "a whole number" if self._kind is int else "a number"
            raise ValueError(f"{value!r} is not {what}") from exc
        if number != number or not (
            (self._low is None or number >= self._low)
            and (self._high is None or number <= self._high)
        ):
            raise ValueError(f"{value} is not {range_text(self._low, self._high)}")
        return number


def range_text(low: float | None, high: float | None) -> str:
    """``1 to 32``, ``at least 1`` or ``at most 9``; empty without a limit."""
    if low is None and high is None:
        return ""
    if high is None:
        return f"at least {low:,}"
    return f"at most {high:,}" if low is None else f"{low:,} to {high:,}"


def parse_properties(pairs: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping; UsageError without ``=`` or for a name given twice."""
    properties: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--property {pair!r} must be NAME=VALUE")
        if name in properties:
            raise UsageError(f"--property {name} is given twice")
        properties[name] = value
    return properties
