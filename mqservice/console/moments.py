"""Times between forms and the API: fields of a form have no zone and mean UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from mqservice.lib.clock import SystemClock
from mqservice.lib.timestamps import rfc3339

_FIELD_CHARS = len("2026-11-22T08:00:00")


def ago(ms: int) -> str:
    """As a field for a time has it."""
    return rfc3339(SystemClock().now_ms() - ms)[:_FIELD_CHARS]


def utc_of(text: str) -> str:
    """A time of a form, which has no zone, as RFC 3339 in UTC; anything else as it is."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
