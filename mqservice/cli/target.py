"""Which service a command talks to, and with which key; listed in order of precedence.

    --base-url/--api-key/--namespace ─┐
    MQ_BASE_URL/MQ_API_KEY/…          ├─▶ find_target ─▶ Target ─▶ rest client, push session
    --profile/MQ_PROFILE              │
    the profile in use                │
    $MQ_DATA_DIR/quickstart.json ─────┘

A key that was found belongs to the address it was found with. It is never sent to another one:
naming one without naming a key is refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec
import typer

from mqservice.cli.errors import UsageError
from mqservice.cli.profiles import complete_names, load_profiles

BASE_URL_DEFAULT: Final = "http://127.0.0.1:8000"
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})

BaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--base-url", envvar="MQ_BASE_URL", help="Address of the service.", show_default=False
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option("--api-key", envvar="MQ_API_KEY", help="API key (mqk_…).", show_default=False),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="MQ_NAMESPACE",
        help="Namespace; by default the one that the key is limited to.",
        show_default=False,
    ),
]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        envvar="MQ_PROFILE",
        metavar="NAME",
        autocompletion=complete_names,
        help="Name of a saved profile; by default the current one.",
        show_default=False,
    ),
]


class Quickstart(msgspec.Struct, frozen=True):
    """The facts a started service leaves behind for scripts; other fields are not read."""

    base_url: str
    api_key: str
    namespace: str = "-"
    topic: str = "orders"
    group: str = "billing"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A service and an identity on it. ``namespace`` is ``-`` for the key's own."""

    base_url: str
    key: str
    namespace: str = "-"

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in LOOPBACK_HOSTS


# Of a command about the tenant: no namespace is asked for.
TenantTarget = Annotated[Target, "tenant"]


def find_quickstart() -> Quickstart | None:
    """The facts of the service that was last started here, if any."""
    path = Path(os.environ.get("MQ_DATA_DIR", "var")) / "quickstart.json"
    try:
        content = path.read_bytes()
    except OSError:
        return None
    try:
        return msgspec.json.decode(content, type=Quickstart)
    except msgspec.DecodeError as exc:
        raise UsageError(f"cannot read {path}: {exc}") from exc


class _Known(msgspec.Struct, frozen=True):
    """An address with a key for it, and where both were found."""

    base_url: str
    api_key: str
    namespace: str
    place: str


def find_target(
    base_url: str | None = None,
    api_key: str | None = None,
    namespace: str | None = None,
    profile: str | None = None,
) -> Target:
    """Decide where to go. What is given here wins over a profile, that over ``quickstart.json``.

    Raises:
        UsageError: no key is known for the address, or the address is not an http(s) URL.
    """
    known = None if base_url and api_key else _find_known(base_url, profile)
    url = (base_url or (known.base_url if known else BASE_URL_DEFAULT)).rstrip("/")
    check_base_url(url)
    if api_key is None and known is not None and is_same_server(url, known.base_url):
        api_key = known.api_key
        namespace = namespace or known.namespace
    if not api_key:
        elsewhere = f" ({known.place} is for {known.base_url})" if known is not None else ""
        raise UsageError(
            f"no API key for {url}{elsewhere}: save one with `mqservice login`, give "
            "--api-key, set MQ_API_KEY, or start the service here with `mqservice "
            "up`, which writes one to $MQ_DATA_DIR/quickstart.json"
        )
    check_key(api_key)
    return Target(base_url=url, key=api_key, namespace=namespace or "-")


def check_base_url(url: str) -> None:
    """Raises UsageError for what is no http(s) URL with a host."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        is_address = False
    if not (is_address and url.isascii() and url.isprintable() and " " not in url):
        raise UsageError(f"--base-url {url!r} must be an address like {BASE_URL_DEFAULT}")


def check_key(key: str) -> None:
    """Raises UsageError for what cannot be a key, so that it never becomes a header."""
    if not (key.isascii() and key.isprintable()) or " " in key or not key:
        raise UsageError("the API key contains characters that are never part of a key")


def _find_known(base_url: str | None, chosen: str | None) -> _Known | None:
    """The chosen profile, else the one in use where it fits, else what a service left here."""
    saved = load_profiles()
    name = chosen or saved.current
    if chosen or name in saved.profiles:
        profile = saved.named(name)
        if chosen or base_url is None or is_same_server(base_url, profile.base_url):
            place = f"the profile {name}"
            return _Known(profile.base_url, profile.api_key, profile.namespace, place)
    started = find_quickstart()
    if started is None:
        return None
    return _Known(started.base_url, started.api_key, started.namespace, "quickstart.json")


def is_same_server(url: str, other: str) -> bool:
    """Whether two addresses lead to the same host and port; loopback has several names."""
    left, right = urlsplit(url), urlsplit(other.rstrip("/"))
    same_host = left.hostname == right.hostname or (
        left.hostname in LOOPBACK_HOSTS and right.hostname in LOOPBACK_HOSTS
    )
    return same_host and left.port == right.port and left.scheme == right.scheme
