"""How a body travels in JSON, both ways; bytes in the store are never anything but the producer's.

    in:   body (text) | body_json | body_b64, exactly one ──▶ bytes
    out:  bytes ──▶ body_json if it came as such, body if it is UTF-8, else body_b64

That a body came as ``body_json`` is remembered in a property of our own, which users neither set
nor see.
"""

from __future__ import annotations

from typing import Final

JSON_PROPERTY: Final = "__MQ_BODY"
JSON_VALUE: Final = "json"


def split_json_mark(properties: dict[str, str]) -> tuple[bool, dict[str, str]]:
    """Whether the body came as ``body_json``, and the properties without that mark."""
    if JSON_PROPERTY not in properties:
        return False, properties
    return True, {name: value for name, value in properties.items() if name != JSON_PROPERTY}
