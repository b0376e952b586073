"""Reads bodies in Avro's binary encoding, by types that ``avro_schema`` makes of a schema.

    int, long     zigzag varint            array, map  blocks: count (negative: and size), items;
    float, double 4, 8 bytes, little endian            a count of 0 ends
    bytes, string length, bytes            union       index of the branch, value
    boolean       0 or 1                   enum        index of the symbol
    fixed         its bytes                record      its fields one after another

A reader that finds what no writer of the schema writes raises Mismatch: so bodies of another
schema are told from those of this one.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mqservice.topic_schemas.cursor import Cursor
from mqservice.topic_schemas.limits import VALUES_MAX
from mqservice.topic_schemas.values import float_of, unzigzag

_DOUBLE: Final = struct.Struct("<d")
_INT_MAX: Final = 2**31


class AvroType(ABC):
    """A type of a schema, which reads its values."""

    def read(self, cursor: Cursor) -> object:
        cursor.count_value()
        return self._read(cursor)

    @abstractmethod
    def _read(self, cursor: Cursor) -> object: ...


class Null(AvroType):
    def _read(self, cursor: Cursor) -> None:
        return None


class Boolean(AvroType):
    def _read(self, cursor: Cursor) -> bool:
        at, byte = cursor.at, cursor.byte()
        if byte > 1:
            raise cursor.mismatch(f"a boolean must be 0 or 1, found {byte}", at)
        return byte == 1


class Int(AvroType):
    def _read(self, cursor: Cursor) -> int:
        at, value = cursor.at, _long(cursor)
        if not -_INT_MAX <= value < _INT_MAX:
            raise cursor.mismatch(f"an int must have at most 32 bits, found {value}", at)
        return value


class Long(AvroType):
    def _read(self, cursor: Cursor) -> int:
        return _long(cursor)


class Float(AvroType):
    def _read(self, cursor: Cursor) -> float:
        return float_of(cursor.take(4))


class Double(AvroType):
    def _read(self, cursor: Cursor) -> float:
        value: float = _DOUBLE.unpack(cursor.take(8))[0]
        return value


class Bytes(AvroType):
    def _read(self, cursor: Cursor) -> bytes:
        return cursor.take(_long(cursor))


class String(AvroType):
    def _read(self, cursor: Cursor) -> str:
        return _text(cursor)


@dataclass(frozen=True, slots=True)
class Fixed(AvroType):
    size_bytes: int

    def _read(self, cursor: Cursor) -> bytes:
        return cursor.take(self.size_bytes)


@dataclass(frozen=True, slots=True)
class Enum(AvroType):
    symbols: list[str]

    def _read(self, cursor: Cursor) -> str:
        return self.symbols[_index(cursor, len(self.symbols), "symbols")]


@dataclass(frozen=True, slots=True)
class Array(AvroType):
    items: AvroType

    def _read(self, cursor: Cursor) -> list[object]:
        found: list[object] = []
        while count := _block_count(cursor):
            for _ in range(count):
                cursor.enter(str(len(found)))
                found.append(self.items.read(cursor))
                cursor.leave()
        return found


@dataclass(frozen=True, slots=True)
class Map(AvroType):
    values: AvroType

    def _read(self, cursor: Cursor) -> dict[str, object]:
        found: dict[str, object] = {}
        while count := _block_count(cursor):
            for _ in range(count):
                key = _text(cursor)
                cursor.enter(key)
                found[key] = self.values.read(cursor)
                cursor.leave()
        return found


@dataclass(frozen=True, slots=True)
class Union(AvroType):
    branches: list[AvroType]

    def read(self, cursor: Cursor) -> object:
        """Its branch counts as the value."""
        return self._read(cursor)

    def _read(self, cursor: Cursor) -> object:
        return self.branches[_index(cursor, len(self.branches), "branches")].read(cursor)


@dataclass(slots=True, eq=False)
class Record(AvroType):
    """``fields`` are filled in once all are known: a field may hold the same record again."""

    name: str
    fields: dict[str, AvroType] = field(default_factory=dict)

    def _read(self, cursor: Cursor) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, each in self.fields.items():
            cursor.enter(name)
            found[name] = each.read(cursor)
            cursor.leave()
        return found


@dataclass(frozen=True, slots=True)
class Logical(AvroType):
    """Values of ``base`` as people read them."""

    base: AvroType
    shown: Callable[..., object]

    def read(self, cursor: Cursor) -> object:
        return self._read(cursor)

    def _read(self, cursor: Cursor) -> object:
        return self.shown(self.base.read(cursor))


def read_avro(root: AvroType, body: bytes, at: int) -> object:
    """The value from byte ``at`` on, which has to be all of the body. Raises Mismatch."""
    cursor = Cursor(body, values_max=VALUES_MAX, at=at)
    value = root.read(cursor)
    if not cursor.is_at_end:
        raise cursor.mismatch(f"the value ends here, {cursor.end - cursor.at:,} bytes follow")
    return value


def _long(cursor: Cursor) -> int:
    return unzigzag(cursor.varint())


def _text(cursor: Cursor) -> str:
    size_bytes = _long(cursor)
    at = cursor.at
    try:
        return cursor.take(size_bytes).decode()
    except UnicodeDecodeError:
        raise cursor.mismatch("a string must be UTF-8", at) from None


def _index(cursor: Cursor, count: int, what: str) -> int:
    at, index = cursor.at, _long(cursor)
    if not 0 <= index < count:
        raise cursor.mismatch(f"index {index} of {count} {what}", at)
    return index


def _block_count(cursor: Cursor) -> int:
    count = _long(cursor)
    if count >= 0:
        return count
    _long(cursor)  # how many bytes the block has, for those who skip it
    return -count
