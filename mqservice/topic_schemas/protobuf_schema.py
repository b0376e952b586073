"""Parses a Protobuf descriptor set, as ``protoc --descriptor_set_out`` writes it.

    base64 ──▶ FileDescriptorSet, read by the reader of bodies ──▶ messages by full name

The types of descriptors themselves, of which only what decoding needs, are below; the rest of
a set, such as options and comments, are fields that the reader does not know.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from mqservice.topic_schemas.cursor import Cursor, Mismatch
from mqservice.topic_schemas.faults import MessageFault, SchemaFault
from mqservice.topic_schemas.limits import DEFINITION_VALUES_MAX, NAME_CHARS_MAX
from mqservice.topic_schemas.protobuf import (
    GOOGLE,
    MESSAGES,
    NUMBER_MAX,
    EnumType,
    FieldType,
    Kind,
    Message,
    MessageType,
    read_message,
)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_NAMES_SHOWN: Final = 5
_REPEATED: Final = 3  # FieldDescriptorProto.Label
_ADVICE: Final = "compile with protoc --include_imports --descriptor_set_out"


def _text(name: str) -> FieldType:
    return FieldType(name=name, kind=Kind.STRING)


def _number(name: str) -> FieldType:
    return FieldType(name=name, kind=Kind.INT32)


def _many(name: str, message: MessageType) -> FieldType:
    return FieldType(name=name, kind=Kind.MESSAGE, is_repeated=True, message=message)


_ENUM_VALUE: Final = MessageType("EnumValue", {1: _text("name"), 2: _number("number")})
_ENUM: Final = MessageType("Enum", {1: _text("name"), 2: _many("value", _ENUM_VALUE)})
_FIELD: Final = MessageType(
    "Field",
    {
        1: _text("name"),
        3: _number("number"),
        4: _number("label"),
        5: _number("type"),
        6: _text("type_name"),
        9: _number("oneof_index"),
    },
)
_OPTIONS: Final = MessageType("Options", {7: FieldType(name="map_entry", kind=Kind.BOOL)})
_MESSAGE: Final = MessageType("Message")
_MESSAGE.fields.update(
    {
        1: _text("name"),
        2: _many("field", _FIELD),
        3: _many("nested_type", _MESSAGE),
        4: _many("enum_type", _ENUM),
        7: FieldType(name="options", kind=Kind.MESSAGE, message=_OPTIONS),
    }
)
_FILE: Final = MessageType(
    "File",
    {
        1: _text("name"),
        2: _text("package"),
        4: _many("message_type", _MESSAGE),
        5: _many("enum_type", _ENUM),
    },
)
_SET: Final = MessageType("FileDescriptorSet", {1: _many("file", _FILE)})


def parse_protobuf(definition: str) -> dict[str, MessageType]:
    """The messages of a set, by full name. Raises SchemaFault."""
    try:
        content = base64.b64decode(definition, validate=True)
    except (binascii.Error, ValueError):
        raise SchemaFault("must be base64 of a descriptor set") from None
    try:
        found = read_message(Cursor(content, values_max=DEFINITION_VALUES_MAX), _SET)
    except Mismatch as mismatch:
        raise SchemaFault(f"this is not a descriptor set: {mismatch}") from None
    parser = _Parser()
    for file in _messages(found, "file"):
        parser.declare_all(file, "message_type", _string(file, "package"))
    parser.link()
    if not parser.messages:
        raise SchemaFault(f"there is no message in it: {_ADVICE}")
    return parser.messages


def choose_message(messages: dict[str, MessageType], wanted: str) -> str:
    """``wanted``, or the only message of a set if that is empty. Raises MessageFault."""
    if wanted:
        if wanted not in messages:
            raise MessageFault(f"the definition has no message {wanted[:NAME_CHARS_MAX]!r}")
        return wanted
    own = [
        name
        for name in messages
        if not name.startswith(GOOGLE) and name.rpartition(".")[0] not in messages
    ]
    if len(own) == 1:
        return own[0]
    some = ", ".join(own[:_NAMES_SHOWN]) + (" …" if len(own) > _NAMES_SHOWN else "")
    raise MessageFault(f"say which message bodies are; the definition has {some}")


class _Parser:
    """All files of a set: first the names, then the fields, which may name anything."""

    def __init__(self) -> None:
        self.messages: dict[str, MessageType] = {}
        self._enums: dict[str, EnumType] = {}
        self._declared: list[tuple[MessageType, Message]] = []

    def declare_all(self, holder: Message, messages: str, scope: str) -> None:
        """Of a file, or of a message for those inside it."""
        for each in _messages(holder, "enum_type"):
            name = self._new_name(each, scope)
            names: dict[int, str] = {}
            for value in _messages(each, "value"):  # of aliases the first
                names.setdefault(_integer(value, "number"), _string(value, "name"))
            self._enums[name] = EnumType(names)
        for each in _messages(holder, messages):
            name = self._new_name(each, scope)
            options = each.get("options")
            is_map_entry = isinstance(options, Message) and options.get("map_entry") is True
            declared = self.messages[name] = MessageType(name, is_map_entry=is_map_entry)
            self._declared.append((declared, each))
            self.declare_all(each, "nested_type", name)

    def link(self) -> None:
        """Give each message its fields."""
        for message, descriptor in self._declared:
            names = set()
            for each in _messages(descriptor, "field"):
                number, made = _integer(each, "number"), self._field(message, each)
                if not 0 < number <= NUMBER_MAX:
                    raise SchemaFault(f"{message.name}.{made.name}: there is no number {number}")
                if number in message.fields or made.name in names:
                    raise SchemaFault(f"{message.name}: two fields are {made.name} or {number}")
                names.add(made.name)
                message.fields[number] = made

    def _field(self, message: MessageType, descriptor: Message) -> FieldType:
        name = _checked_name(_string(descriptor, "name"))
        place = f"{message.name}.{name}"
        try:
            kind = Kind(_integer(descriptor, "type"))
        except ValueError:
            raise SchemaFault(f"{place}: the kind of the field is not known") from None
        wanted = _string(descriptor, "type_name").removeprefix(".")
        held = self.messages.get(wanted) if kind in MESSAGES else None
        names = self._enums.get(wanted) if kind is Kind.ENUM else None
        if (kind in MESSAGES and held is None) or (kind is Kind.ENUM and names is None):
            missing = wanted[:NAME_CHARS_MAX]
            raise SchemaFault(f"{place}: the type {missing} is not in the set; {_ADVICE}")
        oneof = descriptor.get("oneof_index")
        return FieldType(
            name=name,
            kind=kind,
            is_repeated=_integer(descriptor, "label") == _REPEATED,
            message=held,
            enum=names,
            oneof=oneof if isinstance(oneof, int) else None,
        )

    def _new_name(self, descriptor: Message, scope: str) -> str:
        own = _string(descriptor, "name")
        name = _checked_name(f"{scope}.{own}" if scope else own)
        if name in self.messages or name in self._enums:
            raise SchemaFault(f"there are two types with the name {name}")
        return name


def _messages(holder: Message, name: str) -> Iterator[Message]:
    found = holder.get(name, [])
    assert isinstance(found, list), f"{name} is repeated"
    yield from (each for each in found if isinstance(each, Message))


def _string(holder: Message, name: str) -> str:
    """Empty where there is none, or bytes that are no text."""
    found = holder.get(name, "")
    return found if isinstance(found, str) else ""


def _integer(holder: Message, name: str) -> int:
    found = holder.get(name, 0)
    return found if isinstance(found, int) else 0


def _checked_name(name: str) -> str:
    if len(name) > NAME_CHARS_MAX:
        raise SchemaFault(f"a name must have at most {NAME_CHARS_MAX} characters: {name[:40]}…")
    if _NAME.fullmatch(name) is None:
        raise SchemaFault(f"{name!r} is not a name of Protobuf")
    return name
