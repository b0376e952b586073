"""Query parameters: each known, given once, and in the right form.

    ?limit=10&from=2026-11-21T09:00:00.000Z ──▶ Query ──▶ number, moment_ms, text
                                                  └─▶ Fault("?limit", ...) when one is not right

A parameter that nobody knows is refused, as unknown fields of a body are: a search that passes over
a misspelt condition would answer another question.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from mqservice.delivery.decoding import Fault
from mqservice.delivery.limits import QUERY_BYTES_MAX
from mqservice.lib.queue_numbers import QUEUE_NOT_FOUND, queue_fault
from mqservice.lib.timestamps import parse_rfc3339

OFFSET_MAX: Final = (1 << 63) - 1
_SHOWN_CHARS_MAX: Final = 40
_NUMBER_DIGITS_MAX: Final = 19  # of OFFSET_MAX
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class Query:
    """The parameters of one request."""

    def __init__(self, query_string: bytes, names: tuple[str, ...]) -> None:
        """Raises Fault: a parameter is not in ``names``, is given twice, or is no UTF-8."""
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
        self._values: dict[str, str] = {}
        for name, value in pairs:
            if name not in names:
                known = ", ".join(names)
                raise _fault(
                    name[:_SHOWN_CHARS_MAX], f"unknown parameter; the known ones are {known}"
                )
            if name in self._values:
                raise _fault(name, f"{name} is given twice")
            self._values[name] = value

    def text(self, name: str) -> str | None:
        """The value as it was given, None when it was not."""
        return self._values.get(name)

    def queue(self, queue_count: int) -> int | None:
        """The parameter ``queue``. Raises Fault; QUEUE_NOT_FOUND for a number of no queue."""
        text = self._values.get("queue")
        if text is None:
            return None
        if not _INTEGER.fullmatch(text):
            raise _fault("queue", f"queue must be a whole number, found {_shown(text)}")
        if fault := queue_fault(int(text), queue_count):
            raise Fault("?queue", QUEUE_NOT_FOUND, fault)
        return int(text)

    def number(self, name: str, *, low: int, high: int) -> int | None:
        """A whole number in [low, high]. Raises Fault."""
        text = self._values.get(name)
        if text is None:
            return None
        if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS_MAX:
            number = int(text)
            if low <= number <= high:
                return number
        raise _fault(
            name, f"{name} must be a whole number from {low} to {high}, found {_shown(text)}"
        )

    def moment_ms(self, name: str) -> int | None:
        """A time as ms since the epoch, never negative. Raises Fault."""
        text = self._values.get(name)
        if text is None:
            return None
        try:
            return max(0, parse_rfc3339(text))
        except (ValueError, OverflowError) as exc:
            hint = "; write + as %2B" if " " in text else ""
            raise _fault(
                name,
                f"{name} must be an RFC 3339 time such as 2026-12-01T08:00:00.000Z, "
                f"found {_shown(text)}{hint}",
            ) from exc


def missing(name: str, what: str) -> Fault:
    """The fault of a parameter that has to be there; ``what`` says what it is."""
    return _fault(name, f"{name} is missing: give {what}")


def _fault(name: str, detail: str) -> Fault:
    return Fault(f"?{name}", "BAD_REQUEST", detail)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "…")
