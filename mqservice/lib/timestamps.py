"""Moments on the wire: RFC 3339 in UTC with milliseconds; inside, milliseconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
TIME_PATTERN: Final = (  # in JSON Schema
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})$"
)
_SECONDS_MAX: Final = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())


@lru_cache(maxsize=4096)
def _second(epoch_seconds: int) -> str:
    """The text up to the second; a batch of messages shares a few of them."""
    moment = datetime.fromtimestamp(epoch_seconds, UTC)
    return moment.isoformat(timespec="seconds")[:19]


@lru_cache(maxsize=4096)
def rfc3339(ms: int) -> str:
    """``2026-11-21T09:00:00.123Z``. Cheap enough for several calls a message."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


def parse_rfc3339(text: str) -> int:
    """Milliseconds since the epoch; digits beyond the third of a fraction are cut off.

    Raises:
        ValueError: no RFC 3339 date-time with an offset, or one that ``rfc3339`` could not write.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-12-01T08:00:00.000Z")
    fraction = match[1] or ""
    base = text[:19].upper() + ("+00:00" if match[2] in "Zz" else match[2])
    seconds = int(datetime.fromisoformat(base).timestamp())
    if seconds > _SECONDS_MAX:  # an offset west of Greenwich leads out of the last year
        raise ValueError(f"{text!r} is after the year 9999 in UTC")
    return seconds * 1000 + int((fraction[1:4] or "0").ljust(3, "0"))


def datetime_ms(moment: datetime) -> int:
    """Milliseconds since the epoch of an aware ``datetime``, as the ORM returns them."""
    assert moment.tzinfo is not None
    return int(moment.timestamp() * 1000)
