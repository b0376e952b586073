"""The settings of a resource as a table: each is declared once, and everything else is made of it.

    SETTINGS ──▶ read_values ────▶ values by column, faults with their pointers   (REST, documents)
             ──▶ shown_values ───▶ what the API answers, and its types            (REST, documents)
             ──▶ body_properties ▶ schema of the request                          (OpenAPI)
             ──▶ options of commands: ``cli.setting_options``; fields of forms: ``console.shared``

Tables hold plain data and need no framework, so that commands start quickly. The texts of forms are
marked with ``gettext_noop`` and translated where they are shown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import msgspec

from mqservice.lib.durations import DURATION_PATTERN, format_duration_ms
from mqservice.lib.timestamps import TIME_PATTERN, rfc3339

if TYPE_CHECKING:  # a command reads no bodies
    from mqservice.lib.json_fields import Fields

Json = dict[str, Any]  # Any: JSON
NULL: Json = {"type": "null"}


def gettext_noop(text: str) -> str:
    """Marks a text for translation; it is looked up when it is shown."""
    return text


class Kind:
    """How the values of a setting are read, shown and described; the simplest is a text."""

    def read(self, fields: Fields, name: str) -> object:
        """The column's value; None where the field is left out, or has a fault."""
        raise NotImplementedError

    def shown(self, name: str, value: Any) -> Json:  # Any: of the column
        """The fields of an answer, twins included."""
        return {name: value}

    def types(self, name: str) -> dict[str, Any]:  # Any: a type as pydantic takes it
        """The types of these fields."""
        raise NotImplementedError

    def schema(self, name: str, about: str) -> Json:
        """The fields of a request's body."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Duration(Kind):
    """Milliseconds in the range; in JSON a text, or milliseconds in the twin ``…_ms``."""

    low: int
    high: int

    def read(self, fields: Fields, name: str) -> object:
        return fields.duration_ms(name, self.low, self.high)

    def shown(self, name: str, value: int) -> Json:
        return {name: format_duration_ms(value), f"{name}_ms": value}

    def types(self, name: str) -> dict[str, Any]:
        return {name: str, f"{name}_ms": int}

    def schema(self, name: str, about: str) -> Json:
        text = {"type": ["string", "null"], "pattern": DURATION_PATTERN}
        return {
            **described(name, text, about),
            **Integer(self.low, self.high).schema(f"{name}_ms", ""),
        }


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """A whole number in the range; ``has_null``: null is a value of its own, without a limit."""

    low: int
    high: int
    has_null: ClassVar[bool] = False

    def read(self, fields: Fields, name: str) -> object:
        return fields.integer(name, self.low, self.high)

    def types(self, name: str) -> dict[str, Any]:
        return {name: int}

    def schema(self, name: str, about: str) -> Json:
        content = {"type": ["integer", "null"], "minimum": self.low, "maximum": self.high}
        return described(name, content, about)


@dataclass(frozen=True, slots=True)
class Boolean(Kind):
    """True or false."""

    def read(self, fields: Fields, name: str) -> object:
        return fields.boolean(name)

    def types(self, name: str) -> dict[str, Any]:
        return {name: bool}

    def schema(self, name: str, about: str) -> Json:
        return described(name, {"type": ["boolean", "null"]}, about)


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of an enum's values.

    ``texts``: of each in a form, untranslated; ``offered``: those that can be chosen, all by
    default.
    """

    values: type[enum.StrEnum]
    texts: Mapping[str, str] = field(default_factory=dict)
    offered: tuple[enum.StrEnum, ...] = ()

    def read(self, fields: Fields, name: str) -> object:
        return fields.choice(name, self.values)

    def types(self, name: str) -> dict[str, Any]:
        return {name: self.values}

    def schema(self, name: str, about: str) -> Json:
        values = [value.value for value in self.offered or tuple(self.values)]
        return described(name, {"enum": [*values, None]}, about)


@dataclass(frozen=True, slots=True)
class Moment(Kind):
    """Milliseconds since the epoch; in JSON RFC 3339."""

    def read(self, fields: Fields, name: str) -> object:
        return fields.time_ms(name)

    def shown(self, name: str, value: int) -> Json:
        return {name: rfc3339(value)}

    def types(self, name: str) -> dict[str, Any]:
        return {name: str | None}

    def schema(self, name: str, about: str) -> Json:
        content = {"type": ["string", "null"], "format": "date-time", "pattern": TIME_PATTERN}
        return described(name, content, about)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """A text, of a part."""


@dataclass(frozen=True, slots=True)
class Number(Kind):
    """Any number, of a part."""


@dataclass(frozen=True, slots=True)
class Durations(Kind):
    """A list of durations."""


@dataclass(frozen=True, slots=True)
class Names(Kind):
    """A list of names."""


@dataclass(frozen=True, slots=True)
class QueuesByName(Kind):
    """Queue numbers by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One field of a document as an option of a command and, with a label, as a field of a form.

    ``form``: which form of the document it is for; ``field``: its name in the form.
    """

    name: str
    kind: Kind
    option: str
    option_help: str
    metavar: str | None = None
    form: str = ""
    field: str = ""
    label: str = ""
    help: str = ""
    default: Any = None  # of the form


@dataclass(frozen=True, slots=True)
class Document(Kind):
    """An object of the schema ``ref``, stored as JSON. Its module reads and shows it.

    ``tag``: the name of the part that says which form the document has; ``plain``: the default as
    the API writes it.
    """

    ref: str
    parts: tuple[Part, ...]
    tag: str = ""
    plain: Json = field(default_factory=dict)

    def shown(self, name: str, value: object) -> Json:
        raise NotImplementedError("its module shows it")

    def types(self, name: str) -> dict[str, Any]:
        return {name: Json}

    def schema(self, name: str, about: str) -> Json:
        return {name: {"anyOf": [schema_ref(self.ref), NULL]}}


KindT = TypeVar("KindT", bound=Kind, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[KindT]):
    """One row of a table.

    Args:
        name: in JSON, in the form, and as the option of commands.
        column: of the row.
        default: of the column, on a new thing.
        about: the description in the reference.
        label, help: of the field in the form, marked for translation.
        option: flags of the command, by default made of the name; its help is ``option_help``.
        only_with: column and value without which it counts for nothing.
        not_in_broadcast: why a broadcast group must leave it at its default; empty: it need not.
        is_state: shown, but not set by a body.
    """

    name: str
    kind: KindT
    column: str
    default: Any  # Any: of the column
    about: str = ""
    label: str = ""
    help: str = ""
    option: str = ""
    option_help: str = ""
    only_with: tuple[str, str] | None = None
    not_in_broadcast: str = ""
    is_state: bool = False

    @property
    def flags(self) -> str:
        return self.option or "--" + self.name.replace("_", "-")

    def is_used(self, row: object) -> bool:
        return self.only_with is None or getattr(row, self.only_with[0]) == self.only_with[1]

    @property
    def shown_default(self) -> Any:  # Any: JSON
        """The default as a body has it."""
        if isinstance(self.kind, Document):
            return self.kind.plain
        return self.kind.shown(self.name, self.default)[self.name]

    @property
    def stored_default(self) -> Any:  # Any: of the column
        return self.default() if callable(self.default) else self.default


Settings = tuple[Setting[Kind], ...]


class Change:
    """What to set, by column; what is not in ``values`` stays as it is, or takes its default."""

    settings: ClassVar[Settings]

    def __init__(self, **values: object) -> None:
        """None: as if left out. Structs are kept as rows keep them: as what JSON makes of them."""
        unknown = values.keys() - set(columns_of(self.settings))
        assert not unknown, f"no such settings: {', '.join(sorted(unknown))}"
        self.values: dict[str, Any] = {  # Any: of the column
            column: msgspec.json.decode(msgspec.json.encode(value))
            if isinstance(value, msgspec.Struct)
            else value
            for column, value in values.items()
            if value is not None
        }

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.values == self.values

    def __hash__(self) -> int:
        raise TypeError("a change may hold JSON")

    def __repr__(self) -> str:
        given = ", ".join(f"{column}={value!r}" for column, value in self.values.items())
        return f"{type(self).__name__}({given})"

    def find(self, column: str) -> Any:  # Any: of the column
        return self.values.get(column)

    def apply(self, row: object) -> bool:
        """Set what is given; whether anything became different."""
        different = {
            column: value for column, value in self.values.items() if value != getattr(row, column)
        }
        for column, value in different.items():
            setattr(row, column, value)
        return bool(different)


def columns_of(settings: Settings) -> tuple[str, ...]:
    return tuple(setting.column for setting in settings)


def settable(settings: Settings) -> Iterator[Setting[Kind]]:
    """Those that a body sets."""
    return (setting for setting in settings if not setting.is_state)


def read_values(
    settings: Settings, fields: Fields, documents: Mapping[str, Callable[[Fields], object]]
) -> dict[str, object]:
    """Values by column, of an object; its faults are in ``fields``. ``documents``: by name, who
    reads those."""
    return {
        setting.column: documents[setting.name](fields)
        if isinstance(setting.kind, Document)
        else setting.kind.read(fields, setting.name)
        for setting in settable(settings)
    }


def shown_values(settings: Iterable[Setting[Kind]], row: object, **documents: Json) -> Json:
    """What an answer says of a row; ``documents``: by name, as they are shown."""
    shown: Json = {}
    for setting in settings:
        if isinstance(setting.kind, Document):
            shown[setting.name] = documents[setting.name]
        elif setting.is_used(row):
            shown |= setting.kind.shown(setting.name, getattr(row, setting.column))
        else:
            shown[setting.name] = None
    return shown


def answer_fields(settings: Iterable[Setting[Kind]]) -> dict[str, Any]:
    """Its fields as pydantic's ``create_model`` takes them."""
    return {
        name: (kind, ...)
        for setting in settings
        for name, kind in setting.kind.types(setting.name).items()
    }


def definition_fields(settings: Settings) -> dict[str, Any]:
    """The same of a definition: all that can be set, without the twins of durations."""
    names = {setting.name for setting in settable(settings)}
    return {name: kind for name, kind in answer_fields(settings).items() if name in names}


def body_properties(settings: Settings) -> Json:
    """The properties of a request's body in OpenAPI."""
    found: Json = {}
    for setting in settable(settings):
        found |= setting.kind.schema(setting.name, setting.about)
    return found


def body_object(properties: Json, about: str) -> Json:
    """The schema of an object that has these fields and no others."""
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": False,
    }


def described(name: str, schema: Json, about: str) -> Json:
    """One field with its description, if it has one."""
    return {name: {**schema, "description": about} if about else schema}


def schema_ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}
