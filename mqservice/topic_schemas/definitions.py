"""A schema as it is uploaded, checked and ready to decode bodies.

    kind, definition, message ──▶ parse ──▶ Schema ── body ──▶ decode ──▶ value, or why not
                                   └── SchemaFault
    body: 00, 4 bytes of a schema's id (Confluent), C3 01, 8 bytes (Avro's single object), or none
    of them, and then the encoded value

What is before the value is passed over where the value fits after it. Definitions are parsed once
while they are among the last that were used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.avro import read_avro
from mqservice.topic_schemas.avro_schema import parse_avro
from mqservice.topic_schemas.cursor import Cursor, Mismatch
from mqservice.topic_schemas.limits import (
    DECODED_BYTES_MAX,
    MIB,
    PARSED_SCHEMAS_MAX,
    VALUES_MAX,
)
from mqservice.topic_schemas.protobuf import read_protobuf
from mqservice.topic_schemas.protobuf_schema import choose_message, parse_protobuf
from mqservice.topic_schemas.values import unzigzag

_CONFLUENT: Final = b"\x00\x00"  # ids are counted from 1, so the first byte of one is 0 as well
_CONFLUENT_BYTES: Final = 5
_NO_ID: Final = bytes(_CONFLUENT_BYTES)
_SINGLE_OBJECT: Final = b"\xc3\x01"
_SINGLE_OBJECT_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """``fault``: why there is no value; empty where there is one, which may be None."""

    value: object = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``message``: what bodies are; empty of Avro. ``read``: a body from a byte on."""

    kind: SchemaKind
    message: str
    read: Callable[[bytes, int], object]

    def decode(self, body: bytes) -> Decoded:
        if len(body) > DECODED_BYTES_MAX:
            return Decoded(fault=f"it is larger than {DECODED_BYTES_MAX // MIB} MiB")
        faults = []
        for at in self._beginnings(body):
            try:
                return Decoded(value=self.read(body, at))
            except Mismatch as mismatch:
                faults.append(str(mismatch))
        return Decoded(fault=faults[0])

    def _beginnings(self, body: bytes) -> Iterator[int]:
        """Where the value may begin, what is likelier first."""
        head = body[:_CONFLUENT_BYTES]
        if head.startswith(_CONFLUENT) and len(head) == _CONFLUENT_BYTES and head != _NO_ID:
            if self.kind is SchemaKind.AVRO:
                yield _CONFLUENT_BYTES
            elif (at := _after_indexes(body)) is not None:
                yield at
        if body.startswith(_SINGLE_OBJECT) and len(body) >= _SINGLE_OBJECT_BYTES:
            yield _SINGLE_OBJECT_BYTES
        yield 0


def parse(kind: SchemaKind, definition: str, message: str) -> Schema:
    """Raises SchemaFault; a message's name is of Protobuf only."""
    if kind is SchemaKind.AVRO:
        root = parse_avro(definition)
        return Schema(kind=kind, message="", read=lambda body, at: read_avro(root, body, at))
    messages = parse_protobuf(definition)
    name = choose_message(messages, message)
    return Schema(
        kind=kind,
        message=name,
        read=lambda body, at: read_protobuf(messages[name], messages, body, at),
    )


@lru_cache(maxsize=PARSED_SCHEMAS_MAX)
def parsed(kind: SchemaKind, definition: str, message: str) -> Schema:
    """The same of a definition that was checked before."""
    return parse(kind, definition, message)


def _after_indexes(body: bytes) -> int | None:
    """Behind the indexes that lead to the message in its file, which Confluent writes before a
    message of Protobuf; a single 0 stands for the first one.
    """
    cursor = Cursor(body, values_max=VALUES_MAX, at=_CONFLUENT_BYTES)
    try:
        for _ in range(unzigzag(cursor.varint())):
            cursor.count_value()
            cursor.varint()
    except Mismatch:
        return None
    return cursor.at
