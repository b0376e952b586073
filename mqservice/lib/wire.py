"""Pieces that the control plane's schemas share."""

from __future__ import annotations

from datetime import datetime

from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.timestamps import datetime_ms, parse_rfc3339, rfc3339


def refused(pointer: str, detail: str, code: str = "BAD_REQUEST") -> Problem:
    """The refusal of one field; what it says alone names the field too, unless it is the whole."""
    said = f"{pointer}: {detail}" if pointer else detail
    return Problem.of(code, said, errors=[ProblemItem(pointer, code, detail)])


def moment(at: datetime) -> str:
    """RFC 3339 with milliseconds."""
    return rfc3339(datetime_ms(at))


def moment_or_none(at: datetime | None) -> str | None:
    return None if at is None else moment(at)


def time_ms(pointer: str, text: str) -> int:
    """Milliseconds since the epoch of an RFC 3339 time, never negative.

    Raises:
        Problem: BAD_REQUEST with ``pointer``.
    """
    try:
        return max(0, parse_rfc3339(text))
    except (ValueError, OverflowError):
        detail = "not an RFC 3339 time such as 2026-12-01T08:00:00.000Z"
        raise refused(pointer, detail) from None
