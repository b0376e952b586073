"""Query parameters: each known, given once, and in the right form.

    ?limit=10&from=2026-11-21T09:00:00.000Z ──▶ Query ──▶ query.get(FROM), query.require(LIMIT)
                                                  └─▶ Fault("?limit", ...) when one is not right

An operation lists its ``Parameter``s; its handler reads them by these, and the OpenAPI document
describes them from these. A parameter that nobody knows is refused, as unknown fields of a body
are: a search that passes over a misspelt condition would answer another question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import parse_qsl

from mqservice.delivery.decoding import Fault
from mqservice.delivery.limits import BROWSE_COUNT_DEFAULT, BROWSE_COUNT_MAX, QUERY_BYTES_MAX
from mqservice.delivery.messages import key_fault
from mqservice.lib.queue_numbers import QUEUE_NOT_FOUND
from mqservice.lib.timestamps import parse_rfc3339

OFFSET_MAX: Final = (1 << 63) - 1
_SHOWN_CHARS_MAX: Final = 40
_NUMBER_DIGITS_MAX: Final = 19  # of OFFSET_MAX
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter(Generic[T_co]):
    """One parameter, as a client reads of it.

    Args:
        text: its meaning, Markdown.
        code: what the error says when the value cannot be used, if not ``BAD_REQUEST``.
        default: the value when it is not given.
        hint: what to give, in the error when it is missing. Such a parameter is required.
    """

    name: str
    text: str
    code: str = "BAD_REQUEST"
    default: T_co | None = None
    hint: str = ""

    @property
    def is_required(self) -> bool:
        return bool(self.hint)

    def parse(self, text: str) -> T_co:
        """The value of what was given. Raises Fault."""
        raise NotImplementedError

    def fault(self, detail: str, *, code: str = "BAD_REQUEST") -> Fault:
        """The error that names this parameter."""
        return Fault(f"?{self.name}", code, detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Parameter[str]):
    """Characters. ``reject`` says what is wrong with a value, None if nothing is."""

    chars_min: int = 0
    chars_max: int | None = None
    reject: Callable[[str], str | None] | None = None

    def parse(self, text: str) -> str:
        if self.reject is not None and (detail := self.reject(text)):
            raise self.fault(detail, code=self.code)
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Parameter[int]):
    """A whole number in [low, high]."""

    low: int
    high: int

    def parse(self, text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
            number = int(text)
            if self.low <= number <= self.high:
                return number
        raise self.fault(
            f"{self.name} must be a whole number from {self.low} to {self.high}, "
            f"found {_shown(text)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumber(Parameter[int]):
    """A whole number; whoever knows the topic checks that it has such a queue."""

    def parse(self, text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise self.fault(f"{self.name} must be a whole number, found {_shown(text)}")
        return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Time(Parameter[int]):
    """A time as ms since the epoch, never negative."""

    def parse(self, text: str) -> int:
        try:
            return max(0, parse_rfc3339(text))
        except (ValueError, OverflowError) as exc:
            hint = "; write + as %2B" if " " in text else ""
            raise self.fault(
                f"{self.name} must be an RFC 3339 time such as 2026-12-01T08:00:00.000Z, "
                f"found {_shown(text)}{hint}"
            ) from exc


# What several operations have in common --------------------------------------------------------


def _reject_key(text: str) -> str | None:
    fault = key_fault(text)
    return f"a key {fault}" if fault else None


KEY: Final = Text(
    name="key",
    text="Only messages with this key, newest first.",
    code="ILLEGAL_KEY",
    chars_min=1,
    reject=_reject_key,
)
# Filters are read together by ``filter_of_query``, whose errors have this code.
TAG: Final = Text(
    name="tag",
    text="Only messages with this tag, or any of several: `created || paid`.",
    code="ILLEGAL_FILTER",
)
FROM: Final = Time(name="from", text="Only messages stored at or after this time.")
TO: Final = Time(name="to", text="Only messages stored at or before this time.")
QUEUE: Final = QueueNumber(name="queue", text="Only this queue.", code=QUEUE_NOT_FOUND)
LIMIT: Final = Number(
    name="limit",
    text="Maximum number of messages.",
    low=1,
    high=BROWSE_COUNT_MAX,
    default=BROWSE_COUNT_DEFAULT,
)
CURSOR: Final = Text(
    name="cursor",
    text="`next_cursor` of the previous page, with all other parameters except `limit` unchanged.",
    code="CURSOR_INVALID",
    chars_min=1,
)


class Query:
    """The parameters of one request."""

    def __init__(self, query_string: bytes, parameters: Iterable[Parameter[object]]) -> None:
        """Raises Fault: a parameter is not in ``parameters``, is given twice, or is no UTF-8."""
        if len(query_string) > QUERY_BYTES_MAX:
            raise Fault(
                "",
                "BAD_REQUEST",
                f"the query string has {len(query_string)} bytes, at most "
                f"{QUERY_BYTES_MAX} are allowed",
            )
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
        except UnicodeDecodeError as exc:
            raise Fault(
                "", "BAD_REQUEST", "the query string is not valid percent-encoded UTF-8"
            ) from exc
        names = [parameter.name for parameter in parameters]
        self._values: dict[str, str] = {}
        self._fill(pairs, names)

    @classmethod
    def of(cls, values: Mapping[str, str], parameters: Iterable[Parameter[object]]) -> Query:
        """Of values that did not come in a query string. Raises Fault, as above."""
        query = cls(b"", ())
        query._fill(values.items(), [parameter.name for parameter in parameters])
        return query

    def _fill(self, pairs: Iterable[tuple[str, str]], names: list[str]) -> None:
        for name, value in pairs:
            if name not in names:
                shown, known = name[:_SHOWN_CHARS_MAX], ", ".join(names)
                detail = f"unknown parameter; the known ones are {known}"
                raise Fault(f"?{shown}", "BAD_REQUEST", detail)
            if name in self._values:
                raise Fault(f"?{name}", "BAD_REQUEST", f"{name} is given twice")
            self._values[name] = value

    def get(self, parameter: Parameter[T]) -> T | None:
        """The value, None when it was not given. Raises Fault."""
        text = self._values.get(parameter.name)
        return None if text is None else parameter.parse(text)

    def require(self, parameter: Parameter[T]) -> T:
        """The value or its default. Raises Fault, also when there is neither."""
        value = self.get(parameter)
        if value is None:
            value = parameter.default
        if value is None:
            raise parameter.fault(f"{parameter.name} is missing: give {parameter.hint}")
        return value

    def span(self) -> tuple[int | None, int | None]:
        """``FROM`` and ``TO``. Raises Fault: the one is after the other."""
        from_ms, to_ms = self.get(FROM), self.get(TO)
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise TO.fault(f"to is {from_ms - to_ms} ms before from")
        return from_ms, to_ms


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")
