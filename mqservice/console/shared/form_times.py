"""Times between forms and the API: a field has no time zone, the form says which one applies."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from django.utils import timezone

from mqservice.lib.clock import SystemClock
from mqservice.lib.timestamps import rfc3339

_FIELD_CHARS = len("2026-11-22T08:00:00")


def ago(ms: int) -> str:
    """As an address has it, RFC 3339 in whole seconds."""
    return rfc3339(SystemClock().now_ms() - ms)[:_FIELD_CHARS] + "Z"


def utc_of(text: str, zone: tzinfo = UTC) -> str:
    """A time of a form, which means ``zone`` unless it says one, as RFC 3339 in UTC; anything else
    as it is. Of an hour that comes twice it is the first.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return text


def field_time(text: str) -> str:
    """A time as a field of a form shows it, in the zone of the page; anything else as it is."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return text
        local = moment.astimezone(timezone.get_current_timezone())
    except (ValueError, OverflowError):
        return text
    return local.replace(tzinfo=None).isoformat(timespec="seconds")
