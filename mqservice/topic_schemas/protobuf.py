"""Reads bodies in Protobuf's wire format, by types that ``protobuf_schema`` makes of descriptors.

    tag: varint, number << 3 | wire type     0 varint   1 eight bytes   2 length, bytes
                                             3 group, up to the 4 of its number   5 four bytes

As parsers of Protobuf do: of a field that is not repeated the last value counts, messages are
merged, of a oneof the last member is kept, repeated numbers may be packed or not. A field that the
schema does not have is shown under its number. Fields that are not sent are not shown.
"""

from __future__ import annotations

import contextlib
import enum
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mqservice.topic_schemas.cursor import Cursor, Mismatch
from mqservice.topic_schemas.limits import VALUES_MAX
from mqservice.topic_schemas.values import duration_text, float_of, moment_text, signed, unzigzag

NUMBER_MAX: Final = 2**29 - 1
_DOUBLE: Final = struct.Struct("<d")
_NANOS_MAX: Final = 999_999_999
GOOGLE: Final = "google.protobuf."  # of the well-known types
_ANY: Final = f"{GOOGLE}Any"


class Wire(enum.IntEnum):
    VARINT = 0
    EIGHT = 1
    LENGTH = 2
    GROUP = 3
    GROUP_END = 4
    FOUR = 5


class Kind(enum.IntEnum):
    """``FieldDescriptorProto.Type``."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


MESSAGES: Final = frozenset({Kind.GROUP, Kind.MESSAGE})
_WIRES: Final = {
    Kind.DOUBLE: Wire.EIGHT, Kind.FIXED64: Wire.EIGHT, Kind.SFIXED64: Wire.EIGHT,
    Kind.FLOAT: Wire.FOUR, Kind.FIXED32: Wire.FOUR, Kind.SFIXED32: Wire.FOUR,
    Kind.STRING: Wire.LENGTH, Kind.BYTES: Wire.LENGTH,
}  # fmt: skip
_VARINTS: Final[dict[Kind, Callable[[int], object]]] = {
    Kind.INT64: lambda value: signed(value, 64),
    Kind.UINT64: lambda value: value,
    Kind.INT32: lambda value: signed(value, 32),
    Kind.UINT32: lambda value: value & 0xFFFFFFFF,
    Kind.BOOL: bool,
    Kind.SINT32: lambda value: unzigzag(value & 0xFFFFFFFF),
    Kind.SINT64: unzigzag,
}
_DEFAULTS: Final[dict[Kind, object]] = {
    Kind.DOUBLE: 0.0, Kind.FLOAT: 0.0, Kind.BOOL: False, Kind.STRING: "", Kind.BYTES: b"",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EnumType:
    """Names by number, the first one first."""

    names: dict[int, str]


@dataclass(slots=True, eq=False)
class MessageType:
    """``fields`` are by number, filled in once all messages are known."""

    name: str
    fields: dict[int, FieldType] = field(default_factory=dict)
    is_map_entry: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """``message`` and ``enum`` of the kinds that have one. ``oneof``: its index, if in one."""

    name: str
    kind: Kind
    is_repeated: bool = False
    message: MessageType | None = None
    enum: EnumType | None = None
    oneof: int | None = None

    @property
    def wire(self) -> Wire:
        return _WIRES.get(self.kind, Wire.VARINT)

    def is_written_as(self, wire: Wire) -> bool:
        """Whether it may be; repeated numbers also packed into one length of bytes."""
        if self.message is not None:
            return wire in (Wire.LENGTH, Wire.GROUP)
        return wire == self.wire or (wire == Wire.LENGTH and self.is_repeated)

    @property
    def is_map(self) -> bool:
        return self.is_repeated and self.message is not None and self.message.is_map_entry


class Message(dict[str, object]):
    """What was read of a message so far, by field. Unknown fields are under their numbers."""

    def __init__(self, kind: MessageType) -> None:
        super().__init__()
        self.kind = kind
        self.has_known = False
        self._chosen: dict[int, str] = {}

    def choose(self, each: FieldType) -> None:
        """The member of its oneof that counts from now on."""
        if each.oneof is None:
            return
        before = self._chosen.get(each.oneof, each.name)
        if before != each.name:
            self.pop(before, None)
        self._chosen[each.oneof] = each.name


def read_protobuf(
    root: MessageType, messages: dict[str, MessageType], body: bytes, at: int
) -> object:
    """The message from byte ``at`` on, ready to be shown.

    Args:
        messages: by full name, for what ``google.protobuf.Any`` names.

    Raises Mismatch: also where the schema knows none of the fields, since almost any bytes are
    some message.
    """
    cursor = Cursor(body, values_max=VALUES_MAX, at=at)
    found = read_message(cursor, root)
    if found and not found.has_known:
        raise cursor.mismatch(f"{root.name} has none of the fields found", at)
    return _Finisher(messages, cursor).finished(found, ())


def read_message(cursor: Cursor, kind: MessageType) -> Message:
    """All up to the end of the cursor, as it was written. Raises Mismatch."""
    cursor.count_value()
    found = Message(kind)
    _read_into(found, cursor, group=None)
    return found


def _read_into(found: Message, cursor: Cursor, *, group: int | None) -> None:
    """Up to the end of the cursor, or of the group of this number."""
    while not cursor.is_at_end:
        at, tag = cursor.at, cursor.varint()
        number, wire = tag >> 3, tag & 7
        if not 0 < number <= NUMBER_MAX:
            raise cursor.mismatch(f"a field's number must not be {number}", at)
        if wire == Wire.GROUP_END:
            if number != group:
                raise cursor.mismatch(f"a group ends that did not begin: {number}", at)
            return
        if wire > Wire.FOUR:
            raise cursor.mismatch(f"there is no wire type {wire}", at)
        each = found.kind.fields.get(number)
        if each is None or not _read_known(found, each, cursor, Wire(wire), number):
            _read_unknown(found, cursor, Wire(wire), number)
    if group is not None:
        raise cursor.mismatch(f"the group {group} does not end")


def _read_known(found: Message, each: FieldType, cursor: Cursor, wire: Wire, number: int) -> bool:
    """Whether the wire type is one of the field; nothing is read if not."""
    if not each.is_written_as(wire):
        return False
    cursor.enter(_step(found, each))
    if each.message is not None:
        _read_message(found, each, cursor, wire, number)
    elif wire == each.wire:
        _keep(found, each, _scalar(each, cursor), cursor)
    else:  # packed
        end = cursor.limit(cursor.varint())
        _list_of(found, each, cursor)
        while not cursor.is_at_end:
            _keep(found, each, _scalar(each, cursor), cursor)
        cursor.end = end
    cursor.leave()
    found.has_known = True
    return True


def _read_message(found: Message, each: FieldType, cursor: Cursor, wire: Wire, number: int) -> None:
    assert each.message is not None, "only fields of messages come here"
    cursor.count_value()
    before = found.get(each.name)
    is_merged = isinstance(before, Message) and not each.is_repeated
    inner = before if isinstance(before, Message) and is_merged else Message(each.message)
    if wire == Wire.GROUP:
        _read_into(inner, cursor, group=number)
    else:
        end = cursor.limit(cursor.varint())
        _read_into(inner, cursor, group=None)
        cursor.end = end
    if not each.is_map:
        if not is_merged:
            _keep(found, each, inner, cursor)
        return
    entries = found.setdefault(each.name, {})
    assert isinstance(entries, dict), "a map's field holds nothing else"
    entries[_key_text(_entry_part(inner, 1))] = _entry_part(inner, 2)


def _step(found: Message, each: FieldType) -> str:
    """Of a repeated message with its index."""
    if not each.is_repeated or each.message is None:
        return each.name
    values = found.get(each.name)
    return f"{each.name}/{len(values) if isinstance(values, (list, dict)) else 0}"


def _keep(found: Message, each: FieldType, value: object, cursor: Cursor) -> None:
    if each.is_repeated:
        _list_of(found, each, cursor).append(value)
        return
    found.choose(each)
    found[each.name] = value


def _list_of(found: Message, each: FieldType, cursor: Cursor) -> list[object]:
    if each.name not in found:
        cursor.count_value()
        found[each.name] = []
    values = found[each.name]
    assert isinstance(values, list), "a repeated field holds nothing else"
    return values


def _entry_part(entry: Message, number: int) -> object:
    """The key or the value of a map's entry; what was not sent is the default."""
    each = entry.kind.fields.get(number)
    if each is None:
        return None
    if each.name in entry:
        return entry[each.name]
    if each.message is not None:
        return Message(each.message)
    if each.enum is not None:
        return next(iter(each.enum.names.values()), 0)
    return _DEFAULTS.get(each.kind, 0)


def _key_text(key: object) -> str:
    if isinstance(key, bytes):
        return key.hex()
    return str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(each: FieldType, cursor: Cursor) -> object:
    cursor.count_value()
    wire = each.wire
    if wire is Wire.VARINT:
        value = cursor.varint()
        if each.enum is not None:
            number = signed(value, 32)
            return each.enum.names.get(number, number)
        return _VARINTS[each.kind](value)
    if wire is Wire.LENGTH:
        content = cursor.take(cursor.varint())
        return content if each.kind is Kind.BYTES else _text_or_bytes(content)
    content = cursor.take(8 if wire is Wire.EIGHT else 4)
    if each.kind is Kind.DOUBLE:
        value_of: float = _DOUBLE.unpack(content)[0]
        return value_of
    if each.kind is Kind.FLOAT:
        return float_of(content)
    is_signed = each.kind in (Kind.SFIXED32, Kind.SFIXED64)
    return int.from_bytes(content, "little", signed=is_signed)


def _text_or_bytes(content: bytes) -> str | bytes:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content


def _read_unknown(found: Message, cursor: Cursor, wire: Wire, number: int) -> None:
    """A field by its number; several of one number are a list."""
    name = str(number)
    cursor.enter(name)
    value = _unknown_value(cursor, wire, number)
    cursor.leave()
    if name not in found:
        found[name] = value
        return
    before = found[name]
    if isinstance(before, list):
        before.append(value)
    else:
        cursor.count_value()
        found[name] = [before, value]


def _unknown_value(cursor: Cursor, wire: Wire, number: int) -> object:
    cursor.count_value()
    if wire is Wire.VARINT:
        return cursor.varint()
    if wire is Wire.GROUP:
        inner = Message(_UNKNOWN)
        _read_into(inner, cursor, group=number)
        return inner
    if wire is Wire.LENGTH:
        content = cursor.take(cursor.varint())
        text = _text_or_bytes(content)
        return text if isinstance(text, str) and text.isprintable() else content
    return int.from_bytes(cursor.take(8 if wire is Wire.EIGHT else 4), "little")


_UNKNOWN: Final = MessageType("")


class _Finisher:
    """Writes well-known types as people read them, once all parts of a message are merged."""

    def __init__(self, messages: dict[str, MessageType], cursor: Cursor) -> None:
        self._messages = messages
        self._cursor = cursor

    def finished(self, value: object, path: tuple[str, ...]) -> object:
        """Of the value at ``path``, which has as many steps as messages are nested."""
        if isinstance(value, list):
            return [self.finished(each, path) for each in value]
        if not isinstance(value, dict):
            return value
        if isinstance(value, Message):
            self._open(value, path)
        done = {name: self.finished(each, (*path, name)) for name, each in value.items()}
        if isinstance(value, Message) and value.kind.name.startswith(GOOGLE):
            return _readable(value.kind.name.removeprefix(GOOGLE), done)
        return done

    def _open(self, value: Message, path: tuple[str, ...]) -> None:
        """The message that an Any packs, in place of its bytes, if the schema has its type."""
        packed, url = value.get("value"), value.get("type_url")
        if value.kind.name != _ANY or not isinstance(packed, bytes):
            return
        kind = self._messages.get(str(url).rpartition("/")[2])
        if kind is not None:
            with contextlib.suppress(Mismatch):
                value["value"] = read_message(self._cursor.inside(packed, (*path, "value")), kind)


def _readable(name: str, fields: dict[str, object]) -> object:
    """A well-known type; as it is where it is not what its name says."""
    if name in ("Timestamp", "Duration"):
        seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
        if isinstance(seconds, int) and isinstance(nanos, int) and abs(nanos) <= _NANOS_MAX:
            if name == "Duration":
                return duration_text(seconds, nanos)
            moment = moment_text(seconds * 10**9 + nanos, 9)
            return moment if isinstance(moment, str) else fields
    elif name in _WRAPPERS:
        return fields.get("value", _WRAPPERS[name])
    elif name == "Struct":
        return fields.get("fields", {})
    elif name == "ListValue":
        return fields.get("values", [])
    elif name == "Value" and len(fields) == 1:
        member, value = next(iter(fields.items()))
        return None if member == "null_value" else value
    return fields


_WRAPPERS: Final[dict[str, object]] = {
    "DoubleValue": 0.0, "FloatValue": 0.0, "Int64Value": 0, "UInt64Value": 0, "Int32Value": 0,
    "UInt32Value": 0, "BoolValue": False, "StringValue": "", "BytesValue": b"",
}  # fmt: skip
