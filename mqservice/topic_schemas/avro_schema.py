"""Parses the JSON of an Avro schema into the types that read bodies.

Nothing of a schema is executed or fetched; a name stands for a type of the same document. Refused
is what no body can be written by, such as a record that always contains itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Final
from uuid import UUID

import msgspec

from mqservice.topic_schemas.avro import (
    Array,
    AvroType,
    Boolean,
    Bytes,
    Double,
    Enum,
    Fixed,
    Float,
    Int,
    Logical,
    Long,
    Map,
    Null,
    Record,
    String,
    Union,
)
from mqservice.topic_schemas.faults import SchemaFault
from mqservice.topic_schemas.limits import DECODED_BYTES_MAX, NAME_CHARS_MAX, NESTING_MAX
from mqservice.topic_schemas.values import (
    Figure,
    date_text,
    decimal_text,
    moment_text,
    time_text,
)

_PRIMITIVES: Final[dict[str, AvroType]] = {
    "null": Null(), "boolean": Boolean(), "int": Int(), "long": Long(), "float": Float(),
    "double": Double(), "bytes": Bytes(), "string": String(),
}  # fmt: skip
_NAMED: Final = ("record", "error", "enum", "fixed")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SCALE_MAX: Final = 1_000
# By logical type and the type that it is written as; whatever else is shown as that type.
_LOGICAL: Final[dict[tuple[str, str], Callable[..., object]]] = {
    ("date", "int"): date_text,
    ("time-millis", "int"): partial(time_text, digits=3),
    ("time-micros", "long"): partial(time_text, digits=6),
    ("timestamp-millis", "long"): partial(moment_text, digits=3),
    ("timestamp-micros", "long"): partial(moment_text, digits=6),
    ("timestamp-nanos", "long"): partial(moment_text, digits=9),
    ("local-timestamp-millis", "long"): partial(moment_text, digits=3, zone=""),
    ("local-timestamp-micros", "long"): partial(moment_text, digits=6, zone=""),
    ("local-timestamp-nanos", "long"): partial(moment_text, digits=9, zone=""),
}


def parse_avro(definition: str) -> AvroType:
    """Raises SchemaFault."""
    try:
        document: object = msgspec.json.decode(definition)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as exc:
        raise SchemaFault(f"this is not valid JSON: {exc}") from None
    parser = _Parser()
    root = parser.parse(document, "", ())
    parser.reject_endless()
    return root


class _Parser:
    """One document. Types are known by their full names as soon as their names are read."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def parse(self, schema: object, namespace: str, path: tuple[str, ...]) -> AvroType:
        """The type at ``path``, where names without a dot are of ``namespace``."""
        if len(path) > 2 * NESTING_MAX:  # two steps lead to a field, one to items
            raise _fault(path[:4], f"types are nested deeper than {NESTING_MAX} levels")
        if isinstance(schema, str):
            return self._find(schema, namespace, path)
        if isinstance(schema, list):
            return self._union(schema, namespace, path)
        if not isinstance(schema, dict):
            raise _fault(path, "a type must be a name, an object or an array of types")
        kind = schema.get("type")
        if not isinstance(kind, str):
            if kind is None:
                raise _fault(path, "type is missing")
            return self.parse(kind, namespace, (*path, "type"))
        if kind in _NAMED:
            return self._define(kind, schema, namespace, path)
        if kind == "array":
            return Array(self.parse(schema.get("items"), namespace, (*path, "items")))
        if kind == "map":
            return Map(self.parse(schema.get("values"), namespace, (*path, "values")))
        return _logical(schema, kind, self._find(kind, namespace, path))

    def reject_endless(self) -> None:
        """Raises SchemaFault: a record has itself in a field, so no body of it ever ends."""
        records = [each for each in self._named.values() if isinstance(each, Record)]
        graph = {
            each.name: [held.name for held in each.fields.values() if isinstance(held, Record)]
            for each in records
        }
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as exc:
            name = _shown(exc.args[1][0])
            detail = f"the record {name} always contains itself; use a union with null"
            raise SchemaFault(detail) from None

    def _find(self, name: str, namespace: str, path: tuple[str, ...]) -> AvroType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self._named.get(full)
        if found is None:
            raise _fault(path, f"there is no type {_shown(full)} before this")
        return found

    def _union(self, schema: list[object], namespace: str, path: tuple[str, ...]) -> AvroType:
        if not schema:
            raise _fault(path, "a union must have at least one type")
        if any(isinstance(each, list) for each in schema):
            raise _fault(path, "a union must not contain a union")
        return Union(
            [self.parse(each, namespace, (*path, str(index))) for index, each in enumerate(schema)]
        )

    def _define(
        self, kind: str, schema: dict[str, object], namespace: str, path: tuple[str, ...]
    ) -> AvroType:
        full = _full_name(schema, namespace, path)
        if full in self._named or full in _PRIMITIVES:
            raise _fault(path, f"there are two types with the name {full}")
        if kind == "enum":
            self._named[full] = Enum(_symbols(schema.get("symbols"), path))
        elif kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or not 0 <= size <= DECODED_BYTES_MAX:
                detail = f"the size of a fixed must be between 0 and {DECODED_BYTES_MAX:,}"
                raise _fault(path, detail)
            self._named[full] = _logical(schema, kind, Fixed(size))
        else:
            record = self._named[full] = Record(full)
            self._read_fields(record, schema.get("fields"), full.rpartition(".")[0], path)
        return self._named[full]

    def _read_fields(
        self, record: Record, fields: object, namespace: str, path: tuple[str, ...]
    ) -> None:
        if not isinstance(fields, list):
            raise _fault(path, "the fields of a record must be an array")
        for index, each in enumerate(fields):
            at = (*path, "fields", str(index))
            if not isinstance(each, dict):
                raise _fault(at, "a field must be an object")
            name = _checked_name(each.get("name"), at)
            if name in record.fields:
                raise _fault(at, f"there are two fields with the name {name}")
            record.fields[name] = self.parse(each.get("type"), namespace, at)


def _logical(schema: dict[str, object], kind: str, base: AvroType) -> AvroType:
    """``base`` as its logical type shows it; a logical type that does not fit is none."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str):
        return base
    shown = _LOGICAL.get((logical, kind))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = schema.get("scale", 0)
        if isinstance(scale, int) and 0 <= scale <= _SCALE_MAX:
            shown = partial(decimal_text, scale=scale)
    elif isinstance(base, Fixed):
        shown = {("uuid", 16): _uuid_text, ("duration", 12): _duration_text}.get(
            (logical, base.size_bytes)
        )
    return base if shown is None else Logical(base, shown)


def _uuid_text(value: bytes) -> Figure:
    return Figure(UUID(bytes=value))


def _duration_text(value: bytes) -> Figure:
    months, days, millis = (int.from_bytes(value[at : at + 4], "little") for at in (0, 4, 8))
    return Figure(f"{months} months {days} days {millis} ms")


def _full_name(schema: dict[str, object], namespace: str, path: tuple[str, ...]) -> str:
    name, given = schema.get("name"), schema.get("namespace", namespace)
    if isinstance(name, str) and "." not in name and given:
        name = f"{given}.{name}"
    return _checked_name(name, path, has_dots=True)


def _checked_name(name: object, path: tuple[str, ...], *, has_dots: bool = False) -> str:
    if not isinstance(name, str):
        raise _fault(path, "name must be a string")
    if len(name) > NAME_CHARS_MAX:
        raise _fault(path, f"a name must have at most {NAME_CHARS_MAX} characters")
    parts = name.split(".") if has_dots else [name]
    if not all(_NAME.fullmatch(part) for part in parts):
        detail = "a name must be letters, digits and _, and must not begin with a digit"
        raise _fault(path, f"{detail}: {_shown(name)}")
    return name


def _symbols(given: object, path: tuple[str, ...]) -> list[str]:
    if not isinstance(given, list) or not given:
        raise _fault(path, "an enum must have symbols")
    found = [_checked_name(each, (*path, "symbols", str(at))) for at, each in enumerate(given)]
    if len(set(found)) < len(found):
        raise _fault(path, "the symbols of an enum must be different")
    return found


def _shown(name: str) -> str:
    return name if len(name) <= NAME_CHARS_MAX else f"{name[:NAME_CHARS_MAX]}…"


def _fault(path: tuple[str, ...], detail: str) -> SchemaFault:
    return SchemaFault(f"/{'/'.join(path)}: {detail}")
