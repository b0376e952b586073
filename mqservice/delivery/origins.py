"""Which web pages may open a socket: browsers always send the page's true origin.

    Origin: none ──────────────────────▶ a program: may
    Origin: one of ours, or configured ▶ may
    anything else ─────────────────────▶ 403, before anything is asked of a key

Compared as whole texts: a part, another case, port, scheme or spelling of a host is another origin.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from mqservice.lib.problem import Problem

Headers = Iterable[tuple[bytes, bytes]]
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origins:
    """Those that are allowed: none but that of ``base_url``, where clients reach the service."""

    def __init__(self, base_url: str = "", others: Iterable[str] = ()) -> None:
        self._allowed: Final = frozenset(
            text.encode() for text in (_origin_of(base_url), *others) if text
        )

    def check(self, headers: Headers) -> None:
        """Raises Problem FORBIDDEN for a page of another origin."""
        given = [value for name, value in headers if name == b"origin"]
        if not given or (len(given) == 1 and given[0] in self._allowed):
            return
        raise Problem.of(
            "FORBIDDEN",
            "pages from this origin may not open sockets here; the operator can "
            "allow it with MQ_SOCKET_ORIGINS",
        )


def _origin_of(url: str) -> str:
    """Of a URL as a browser writes it: without a path, and without the scheme's own port."""
    if not url:
        return ""
    parts = urlsplit(url)
    host = parts.hostname or ""
    shown = f"[{host}]" if ":" in host else host
    if parts.port is None or parts.port == _DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{shown}"
    return f"{parts.scheme}://{shown}:{parts.port}"
