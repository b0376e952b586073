"""Typed settings from the environment; an invalid value stops the start with a message that names
it.

envtext("MQ_HOST")         required, unless a default is given
envsecret("MQ_SECRET_KEY") the same, or the content of the file named by MQ_SECRET_KEY_FILE
envbool, envint, envlist   as their names say
"""

from __future__ import annotations

import datetime as dt
import os
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ImproperlyConfigured

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})
_PORT_MAX = 65_535
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


def envtext(name: str, default: str | None = None) -> str:
    """Raises ImproperlyConfigured when unset and no default is given."""
    value = os.environ.get(name, "")
    if value:
        return value
    if default is None:
        raise ImproperlyConfigured(f"{name} must be set")
    return default


def envbool(name: str, default: bool) -> bool:
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be one of 1, true, yes, on, 0, false, no, off")


def envchoice(name: str, default: str, *others: str) -> str:
    """One of ``default`` and ``others``."""
    text = envtext(name, default)
    if text not in (default, *others):
        raise ImproperlyConfigured(
            f"{name} must be one of {', '.join((default, *others))}; found {text!r}"
        )
    return text


def envint(name: str, default: int, *, minimum: int, maximum: int) -> int:
    value = os.environ.get(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, found {value!r}") from None
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name} must be in [{minimum}, {maximum}], found {number}")
    return number


def envlist(name: str, default: list[str]) -> list[str]:
    """Comma-separated, blanks around the parts dropped."""
    value = os.environ.get(name)
    if not value:
        return default
    return [part.strip() for part in value.split(",") if part.strip()]


def envorigin(name: str, text: str) -> str:
    """``text`` as browsers write an origin: scheme and host in lower case, no path, no slash."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or text != f"{parts.scheme}://{parts.netloc}":
        raise ImproperlyConfigured(
            f"{name} must be origins such as https://app.example.com, found {text!r}"
        )
    if text != text.lower() or "@" in parts.netloc or "*" in parts.netloc or not parts.hostname:
        raise ImproperlyConfigured(
            f"{name}: an origin must have a host in lower case and no user or *, found {text!r}"
        )
    return text


def is_private_url(url: SplitResult) -> bool:
    """Whether nobody on the way can read or change what is sent: https, or within this machine."""
    return bool(url.hostname) and (
        url.scheme == "https" or (url.scheme == "http" and url.hostname in _THIS_MACHINE)
    )


def envissuer(name: str) -> str:
    """An OpenID issuer as its provider writes it; empty when unset."""
    text = envtext(name, "")
    if not text:
        return ""
    url = envurl(name, "https", "http")
    if url.query or url.fragment or "@" in url.netloc or "?" in text or "#" in text:
        raise ImproperlyConfigured(f"{name} must be a URL without user, query and fragment")
    if not is_private_url(url):
        raise ImproperlyConfigured(f"{name} must start with https:// (http:// only on localhost)")
    return text


def envnetworks(name: str) -> list[IPv4Network | IPv6Network]:
    """Comma-separated networks such as 10.1.0.0/16; none when unset."""
    try:
        return [ip_network(text) for text in envlist(name, [])]
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name} must be networks such as 10.1.0.0/16: {exc}") from exc


def envports(name: str) -> dict[str, int]:
    """Comma-separated ports by name, such as s2=9101,s3=9102; none when unset."""
    found: dict[str, int] = {}
    for part in envlist(name, []):
        key, _, port = part.partition("=")
        if not key or not (port.isascii() and port.isdigit() and 0 < int(port) <= _PORT_MAX):
            raise ImproperlyConfigured(f"{name} must be ports such as s2=9101, found {part!r}")
        found[key] = int(port)
    return found


def envclock(name: str, default: str) -> dt.time | None:
    """A local time such as 02:30; None for off."""
    text = envtext(name, default)
    if text.lower() == "off":
        return None
    try:
        if len(text) != len("02:30"):
            raise ValueError(text)
        return dt.time.fromisoformat(text)
    except ValueError:
        raise ImproperlyConfigured(
            f"{name} must be a time such as 02:30, or off; found {text!r}"
        ) from None


def envzone(name: str, default: str) -> str:
    """An IANA name such as Europe/Berlin."""
    text = envtext(name, default)
    try:
        return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(
            f"{name} must be a time zone such as Europe/Berlin, found {text!r}"
        ) from None


def envsecret(name: str, *, chars_min: int, default: str | None = None) -> str:
    """A secret; never part of an error message."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            secret = Path(path).read_text(encoding="utf-8").strip()
        except OSError as exc:
            raise ImproperlyConfigured(f"cannot read {name}_FILE: {exc}") from exc
    else:
        secret = envtext(name, default)
    if len(secret) < chars_min:
        raise ImproperlyConfigured(f"{name} must have at least {chars_min} characters")
    return secret


def envurl(name: str, *schemes: str, default: str | None = None) -> SplitResult:
    """A URL with one of ``schemes``; its text is left out of errors, it may hold a password."""
    try:
        url = urlsplit(envtext(name, default))
        _ = url.port
    except ValueError as exc:
        raise ImproperlyConfigured(f"{name} is not a URL") from exc
    if url.scheme not in schemes:
        raise ImproperlyConfigured(f"{name} must start with {' or '.join(schemes)}://")
    if not url.hostname and not url.query:
        raise ImproperlyConfigured(f"{name} has no host")
    return url
