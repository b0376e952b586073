"""How a body is encoded in JSON and decoded from it; the store has the producer's exact bytes.

    in:   body (text) | body_json | body_b64, exactly one ──▶ bytes
    out:  bytes ──▶ body_json if it came as such, body if it is UTF-8, else body_b64

That a body came as ``body_json`` is remembered in a property of our own, and so are the types of
attributes that came by the SQS face; users neither set nor see either.
"""

from __future__ import annotations

from typing import Final

import msgspec

JSON_PROPERTY: Final = "__MQ_BODY"
JSON_VALUE: Final = "json"
SQS_PROPERTY: Final = "__MQ_SQS"
OWN_PROPERTIES: Final = frozenset({JSON_PROPERTY, SQS_PROPERTY})

# Of the fields body, body_json and body_b64 of an answer one is set; a text may be bytes in
# MessagePack.
BodyForm = str | bytes | msgspec.UnsetType
JsonForm = msgspec.Raw | msgspec.UnsetType
Base64Form = bytes | msgspec.UnsetType


def split_json_mark(properties: dict[str, str]) -> tuple[bool, dict[str, str]]:
    """Whether the body came as ``body_json``, and the properties without ours."""
    if OWN_PROPERTIES.isdisjoint(properties):
        return False, properties
    shown = {name: value for name, value in properties.items() if name not in OWN_PROPERTIES}
    return JSON_PROPERTY in properties, shown


def forms_of(
    body: bytes, *, is_json: bool, as_bytes: bool
) -> tuple[BodyForm, JsonForm, Base64Form]:
    """The fields body, body_json and body_b64 of an answer; ``as_bytes``: always the first."""
    unset = msgspec.UNSET
    if as_bytes:
        return body, unset, unset
    if is_json:
        return unset, msgspec.Raw(body), unset
    try:
        return body.decode(), unset, unset
    except UnicodeDecodeError:
        return unset, unset, body
