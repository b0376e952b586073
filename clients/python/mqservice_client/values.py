"""What callers pass: durations, times, bodies, and where the service is.

Durations are texts such as "30s", or timedelta. A bare number is refused: whether 30 means
seconds or milliseconds is the trap that every queue's users fall into once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from .errors import UsageError
from .protocol.messages import SqlFilter

BASE_URL_DEFAULT: Final = "http://127.0.0.1:8000"
OWN_NAMESPACE: Final = "-"
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
DURATION_MS_MAX: Final = 366 * 24 * 3_600_000

Duration = str | timedelta
Sql = SqlFilter
Filter = str | SqlFilter
Body = Any  # Any: bytes, str, or whatever msgspec can write as JSON

_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)", re.ASCII)
_encode_json = msgspec.json.Encoder().encode


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A service and an identity on it. ``namespace`` is ``-`` for the key's own."""

    base_url: str
    api_key: str
    namespace: str = OWN_NAMESPACE

    @property
    def ws_url(self) -> str:
        scheme, rest = self.base_url.split("://", 1)
        url = f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"
        if self.namespace == OWN_NAMESPACE:
            return url
        return f"{url}?ns={quote(self.namespace, safe='')}"

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in LOOPBACK_HOSTS


def target_of(base_url: str | None, api_key: str | None, namespace: str | None) -> Target:
    """What is given, else ``MQ_BASE_URL``, ``MQ_API_KEY`` and ``MQ_NAMESPACE``.

    Raises:
        UsageError: there is no key, or the address is not an http(s) URL.
    """
    url = (base_url or os.environ.get("MQ_BASE_URL") or BASE_URL_DEFAULT).rstrip("/")
    key = api_key or os.environ.get("MQ_API_KEY") or ""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_address = False
    if not (is_address and url.isascii() and url.isprintable() and " " not in url):
        raise UsageError(f"base_url must be an address like {BASE_URL_DEFAULT}, found {url!r}")
    if not key:
        raise UsageError(f"no API key for {url}: pass api_key or set MQ_API_KEY")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError("the API key contains characters that are never part of a key")
    chosen = namespace or os.environ.get("MQ_NAMESPACE") or OWN_NAMESPACE
    return Target(base_url=url, api_key=key, namespace=chosen)


def milliseconds(value: object, name: str = "the duration") -> int:
    """A ``Duration`` in ms. Raises UsageError for what is none, such as a bare number."""
    if isinstance(value, timedelta):
        ms = round(value / timedelta(milliseconds=1))
    elif isinstance(value, str) and (found := _DURATION.fullmatch(value)) is not None:
        ms = int(found[1]) * _UNITS_MS[found[2]]
    else:
        raise UsageError(f'{name} must be a text like "30s" or a timedelta, found {value!r}')
    if not 0 <= ms <= DURATION_MS_MAX:
        raise UsageError(f"{name} must be 0 to 366 days, found {value!r}")
    return ms


def optional_ms(value: Duration | None, name: str) -> int | None:
    return None if value is None else milliseconds(value, name)


def optional_s(value: Duration | None, name: str) -> float | None:
    return None if value is None else milliseconds(value, name) / 1000


def rfc3339(moment: datetime, name: str) -> str:
    """A time as the API writes it. Raises UsageError for one without a time zone."""
    if moment.tzinfo is None:
        raise UsageError(f"{name} must have a time zone, such as datetime.now(timezone.utc)")
    text = moment.astimezone(timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def optional_time(moment: datetime | None, name: str) -> str | None:
    return None if moment is None else rfc3339(moment, name)


def names_of(topics: str | Iterable[str]) -> list[str]:
    """One topic or several, without repeats."""
    names = [topics] if isinstance(topics, str) else list(dict.fromkeys(topics))
    if not names:
        raise UsageError("name at least one topic")
    return names


class BodyForm(msgspec.Struct, frozen=True):
    """A body in the one of its three forms that holds it unchanged; the others are unset."""

    text: str | None = None
    json: bytes | None = None
    raw: bytes | None = None

    @property
    def content(self) -> bytes:
        if self.json is not None:
            return self.json
        return self.text.encode() if self.text is not None else self.raw or b""

    @property
    def size(self) -> int:
        """Bytes, near enough to cut batches by."""
        known = self.json or self.raw
        return len(known) if known is not None else len(self.text or "")


def body_form(body: Body) -> BodyForm:
    """bytes and str as they are, anything else as JSON. Raises UsageError for what JSON cannot."""
    if isinstance(body, str):
        return BodyForm(text=body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        return BodyForm(raw=bytes(body))
    try:
        return BodyForm(json=_encode_json(body))
    except (TypeError, ValueError, OverflowError, RecursionError) as exc:
        raise UsageError(f"the body cannot be written as JSON: {exc}") from exc
