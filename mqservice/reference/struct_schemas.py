"""JSON Schemas of msgspec structs, including those that msgspec only encodes.

    structs ──▶ twins that msgspec can describe ──▶ schema_components ──▶ {name: schema}

A twin has the fields, defaults and tags of its struct. It differs where a decoder could not tell
what it reads: a text or bytes is shown as the text, and a struct or another one as either of them.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from typing import Any

import msgspec

from mqservice.reference.parts import JsonObject, text_of

StructType = type[msgspec.Struct]


class StructSchemas:
    """Collects structs, then describes all of them at once."""

    def __init__(self, ref_template: str) -> None:
        self._ref_template = ref_template
        self._decodable_copies: dict[StructType, StructType] = {}
        self._either: dict[tuple[str, str], list[StructType]] = {}

    def add(self, structs: Iterable[StructType]) -> None:
        for struct in structs:
            self._decodable_copy(struct)

    def schemas(self) -> dict[str, JsonObject]:
        """By name. Two different structs of one name are a mistake."""
        twins = list(self._decodable_copies.values())
        names = [twin.__name__ for twin in twins]
        assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
        _, found = msgspec.json.schema_components(twins, ref_template=self._ref_template)
        schemas: dict[str, JsonObject] = found
        for (name, field), structs in self._either.items():
            place = schemas[name]["properties"][field]
            choice = {
                "anyOf": [{"$ref": self._ref_template.format(name=s.__name__)} for s in structs]
            }
            if place.get("type") == "array":
                place["items"] = choice
            else:
                schemas[name]["properties"][field] = choice
        for twin in twins:
            _name_positions(schemas[twin.__name__], twin)
        for schema in schemas.values():
            schema["description"] = text_of(schema.pop("description", ""))
            if not schema["description"]:
                del schema["description"]
        return schemas

    def _decodable_copy(self, struct: StructType) -> StructType:
        if struct in self._decodable_copies:
            return self._decodable_copies[struct]
        config = struct.__struct_config__
        fields: list[tuple[Any, ...]] = []  # Any: name, type and perhaps a default
        for field in msgspec.structs.fields(struct):
            shown = self._shown(field.type, struct.__name__, field.name)
            default = msgspec.field(
                name=field.encode_name,
                **_default_of(field),
            )
            fields.append((field.name, shown, default))
        twin = msgspec.defstruct(
            struct.__name__,
            fields,
            namespace={"__doc__": struct.__dict__.get("__doc__")},
            module=struct.__module__,
            tag=config.tag,
            tag_field=config.tag_field,
            array_like=config.array_like,
            forbid_unknown_fields=config.forbid_unknown_fields,
            kw_only=True,
        )
        self._decodable_copies[struct] = twin
        return twin

    def _shown(self, kind: Any, struct: str, field: str) -> Any:  # Any: types, as annotations
        if _is_struct(kind):
            return self._decodable_copy(kind)
        if kind is msgspec.Raw:
            return Any
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return typing.Annotated[self._shown(arguments[0], struct, field), *arguments[1:]]
        if origin in (typing.Union, types.UnionType):
            structs = [
                a for a in arguments if isinstance(a, type) and issubclass(a, msgspec.Struct)
            ]
            if len(structs) > 1:
                self._either[struct, field] = structs
                self.add(structs)
                return Any
            if msgspec.Raw in arguments:  # any value at all, or none
                return Any if msgspec.UNSET not in arguments else Any | msgspec.UnsetType
            kept = [a for a in arguments if not (a is bytes and str in arguments)]
            parts = [self._shown(argument, struct, field) for argument in kept]
            return typing.Union[tuple(parts)]  # noqa: UP007 the parts are not known before
        if origin in (list, dict):
            parts = [self._shown(argument, struct, field) for argument in arguments]
            return origin[tuple(parts)] if len(parts) > 1 else origin[parts[0]]
        return kind


def _name_positions(schema: JsonObject, twin: StructType) -> None:
    """An array says which field stands where; the first element of a tagged one is its ``op``."""
    positions = schema.get("prefixItems", [])
    names = [field.encode_name for field in msgspec.structs.fields(twin)]
    if len(positions) > len(names):
        names.insert(0, "op")
    for position, name in zip(positions, names, strict=bool(positions)):
        position["title"] = name


def _is_struct(kind: Any) -> bool:  # Any: types, as annotations
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _default_of(field: msgspec.structs.FieldInfo) -> dict[str, Any]:  # Any: defaults are untyped
    if field.default is not msgspec.NODEFAULT:
        default = field.default
        if isinstance(default, msgspec.Raw):
            return {"default": None}
        if isinstance(default, msgspec.Struct):  # of another class than the twin
            return {"default_factory": dict}
        return {"default": default}
    if field.default_factory is not msgspec.NODEFAULT:
        return {"default_factory": field.default_factory}
    return {}
