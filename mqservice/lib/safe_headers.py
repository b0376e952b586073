"""Security headers of every response of the API, by data plane and Django alike.

What a browser does with a page is limited in ``middleware``; an answer of the data plane is no
page, and its headers are made once: each of them costs each message.
"""

from __future__ import annotations

from typing import Final

from django.conf import settings

Headers = list[tuple[bytes, bytes]]

# Nobody shall guess another type, or keep what belongs to a key.
_PLAIN: Final[Headers] = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
]
_REFUSAL: Final[Headers] = [
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
]


def transport_security() -> str | None:
    """``Strict-Transport-Security`` when clients reach the service by TLS, whoever ends it."""
    seconds: int = settings.SECURE_HSTS_SECONDS
    return f"max-age={seconds}" if seconds else None


def api_headers() -> Headers:
    """Of an answer of the data plane."""
    hsts = transport_security()
    return _PLAIN + ([] if hsts is None else [(b"strict-transport-security", hsts.encode())])


def refusal_headers() -> Headers:
    """Of a refusal, which may quote what a stranger has sent."""
    return api_headers() + _REFUSAL


def header_lines(headers: Headers | tuple[()]) -> bytes:
    """Headers as they are written, each with its end.

    Raises ``ValueError`` when one has a line break in it.
    """
    lines = b"".join([b"%b: %b\r\n" % header for header in headers])
    if lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
        raise ValueError(f"a header contains a line break: {headers!r}")
    return lines
