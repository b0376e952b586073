"""The curl command that does what a page does; it takes the reader's API key from the
environment.
"""

from __future__ import annotations

import shlex

import msgspec
from django.conf import settings


def curl_of(method: str, path: str, body: dict[str, object] | None = None) -> str:
    """``path``: of the API, such as ``/v1/ns/demo/groups/billing``."""
    given = "" if method == ("GET" if body is None else "POST") else f" -X {method}"
    lines = [
        f"curl -sS{given} {shlex.quote(settings.MQ_BASE_URL + path)}",
        '  -H "Authorization: Bearer $MQ_API_KEY"',
    ]
    if body is not None:
        lines += [
            "  -H 'Content-Type: application/json'",
            f"  -d {shlex.quote(msgspec.json.encode(body).decode())}",
        ]
    return " \\\n".join(lines)
