"""Which service a command talks to, as whom: options, environment, then ``quickstart.json``.

    --base-url/--key/--namespace ─┐
    MQ_BASE_URL/MQ_API_KEY/…      ├─▶ find_target ─▶ Target ─▶ rest client, push session
    $MQ_DATA_DIR/quickstart.json ─┘

The key in ``quickstart.json`` belongs to the service that wrote the file. It is never sent to
another address: naming one without naming a key is refused.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote, urlsplit

import msgspec
import typer

from mqservice.cli.errors import UsageRefused

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
    typer.Option("--key", envvar="MQ_API_KEY", help="API key (mqk_…).", show_default=False),
]
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="MQ_NAMESPACE",
        help="Namespace; without it the one the key is bound to.",
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
    def ws_url(self) -> str:
        scheme, rest = self.base_url.split("://", 1)
        url = f"{'wss' if scheme == 'https' else 'ws'}://{rest}/v1/ws"
        return url if self.namespace == "-" else f"{url}?ns={quote(self.namespace, safe='')}"

    @property
    def is_loopback(self) -> bool:
        return urlsplit(self.base_url).hostname in LOOPBACK_HOSTS


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
        raise UsageRefused(f"{path} cannot be read: {exc}") from exc


def find_target(base_url: str | None, key: str | None, namespace: str | None) -> Target:
    """Decide where to go. An option or its environment variable wins over ``quickstart.json``.

    Raises:
        UsageRefused: no key is known for the address, or the address is not an http(s) URL.
    """
    quickstart = find_quickstart() if not (base_url and key) else None
    url = (base_url or (quickstart.base_url if quickstart else BASE_URL_DEFAULT)).rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageRefused(f"--base-url {url!r} is not an address like {BASE_URL_DEFAULT}")
    if key is None and quickstart is not None and _same_place(url, quickstart.base_url):
        key = quickstart.api_key
        namespace = namespace or quickstart.namespace
    if not key:
        raise UsageRefused(
            f"no API key for {url}: give --key, set MQ_API_KEY, or start the service here with "
            "`mqservice up`, which leaves one in $MQ_DATA_DIR/quickstart.json"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageRefused("the API key holds characters that no key has")
    return Target(base_url=url, key=key, namespace=namespace or "-")


def _same_place(url: str, other: str) -> bool:
    """Whether two addresses lead to the same host and port; loopback has several names."""
    left, right = urlsplit(url), urlsplit(other.rstrip("/"))
    same_host = left.hostname == right.hostname or (
        left.hostname in LOOPBACK_HOSTS and right.hostname in LOOPBACK_HOSTS
    )
    return same_host and left.port == right.port and left.scheme == right.scheme
