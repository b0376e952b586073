"""The host and path of a request: one check for everything that is served.

    HTTP version, target, Host ──▶ [RequestTargets.check] ──▶ the target in origin form
                                          └─ TargetRejected: 400, or 505 for another major version

RFC 9112, 3.2 and 3.3. Stricter than it in two things: HTTP/1.0 needs a ``Host`` as well, and the
authority of an absolute target has to be what ``Host`` says, since a proxy might go by either.
Which hosts are ours is Django's ``ALLOWED_HOSTS``, by its own comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import httptools
from django.http.request import split_domain_port, validate_host

from mqservice.lib.bounded_cache import BoundedCache

VERSIONS: Final = frozenset({"1.0", "1.1"})
HOST_BYTES_MAX: Final = 262  # a name of 255, a colon and a port
_KNOWN_BYTES_MAX: Final = 256 * 1024
_PORT_MAX: Final = 65_535
_SCHEMES: Final = (b"http", b"https")
_NO_TARGET: Final = "the target of a request must be a path or an http URL"


class TargetRejected(Exception):
    """``code`` is that of a ``Problem``; the text says what is wrong."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code


class RequestTargets:
    """See the module's docstring. One event loop uses it."""

    def __init__(self, allowed_hosts: Callable[[], Sequence[str]]) -> None:
        self._allowed_hosts = allowed_hosts
        self._ours: Final = BoundedCache[bytes | None, bool](
            bytes_max=_KNOWN_BYTES_MAX, entry_bytes_max=HOST_BYTES_MAX
        )
        self.is_ours: Final = self._ours.get
        """True for a ``Host`` that was found good before; None: ask ``check``."""

    def check(self, *, version: str, target: bytes, host: bytes | None) -> bytes:
        """``target`` in origin form: path and query. Raises TargetRejected."""
        if version not in VERSIONS:
            raise TargetRejected(
                "HTTP_VERSION_UNSUPPORTED", f"send HTTP/1.1; this is HTTP/{version}"
            )
        if host is None:
            raise TargetRejected("BAD_REQUEST", "the request has no Host header")
        self._check_host(host)
        if b"#" in target:
            raise TargetRejected("BAD_REQUEST", "the target of a request must not have a fragment")
        if target.startswith(b"/"):
            return target
        return _origin_form(target, host)

    def _check_host(self, host: bytes) -> None:
        if self.is_ours(host):
            return
        text = host.decode("latin-1")
        domain, port = split_domain_port(text) if len(host) <= HOST_BYTES_MAX else ("", "")
        if not domain or (port and int(port) > _PORT_MAX):
            raise TargetRejected(
                "BAD_REQUEST", "the Host header must be a host and an optional port"
            )
        if not validate_host(domain, self._allowed_hosts()):
            raise TargetRejected(
                "BAD_REQUEST",
                "the service does not accept the name in the Host header; the "
                "operator can allow it with MQ_ALLOWED_HOSTS",
            )
        self._ours.put(host, True, len(host))


def _origin_form(target: bytes, host: bytes) -> bytes:
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError as exc:
        raise TargetRejected("BAD_REQUEST", _NO_TARGET) from exc
    # For a text without a scheme it says None, whatever its types say.
    if (url.schema or b"").lower() not in _SCHEMES:
        raise TargetRejected("BAD_REQUEST", _NO_TARGET)
    authority, _, _ = target.partition(b"://")[2].partition(b"/")
    authority, _, _ = authority.partition(b"?")
    if authority.lower() != host.lower():
        raise TargetRejected("BAD_REQUEST", "the URL and the Host header name different hosts")
    query = target.partition(b"?")[2]
    return (url.path or b"/") + (b"?" + query if query else b"")
