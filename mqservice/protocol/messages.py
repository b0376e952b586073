"""A message as a producer sends it, and a filter as a consumer asks for it."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

# Refused while it is decoded; the service reports lower limits in plain words.
_FEW: Final = msgspec.Meta(max_length=1_000)


class ProduceMessage(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """The JSON form. Exactly one of the bodies is set; an empty ``Raw`` means absent."""

    body: str | None = None
    body_json: msgspec.Raw = msgspec.Raw()
    body_b64: bytes | None = None
    tag: str | None = None
    keys: list[str] = []
    message_group: str | None = None
    properties: dict[str, str] = {}
    queue: int | None = None
    delay_level: int | None = None
    delay: str | None = None
    delay_ms: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None


class PackedMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The MessagePack form: positions instead of names, and the body as it is."""

    body: bytes
    tag: str | None = None
    keys: Annotated[list[str], _FEW] = []
    message_group: str | None = None
    properties: Annotated[dict[str, str], _FEW] = {}
    queue: int | None = None
    delay_level: int | None = None
    delay: str | None = None
    delay_ms: int | None = None
    deliver_at: str | None = None
    dedup_id: str | None = None


class SqlFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A condition in SQL92 on the properties of a message; a map in both subprotocols."""

    sql: str


FilterForm = str | SqlFilter  # tags, such as "created || paid", or a condition
