"""The settings of a resource as a table: each is declared once, and everything else is made of it.

    SETTINGS ──▶ read_values ────▶ values by column, faults with their pointers   (REST, documents)
             ──▶ shown_values ───▶ what the API answers, and its types            (REST, documents)
             ──▶ body_object ────▶ schema of the request                          (OpenAPI)
             ──▶ options of commands: ``cli.setting_options``; fields of forms: ``console.shared``

Tables hold plain data and need no framework, so that commands start quickly. The texts of forms are
marked with ``gettext_noop`` and translated where they are shown.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, cast

import msgspec

from mqservice.lib.durations import DURATION_PATTERN, format_duration_ms, parse_duration_ms
from mqservice.lib.json_fields import Fields, escaped, json_text, read_object
from mqservice.lib.names import NAME_PATTERN, name_fault
from mqservice.lib.timestamps import TIME_PATTERN, parse_rfc3339, rfc3339

Json = dict[str, Any]  # Any: JSON
NULL: Json = {"type": "null"}
EMAIL_CHARS_MAX = 254


def gettext_noop(text: str) -> str:
    """Marks a text for translation; it is looked up when it is shown."""
    return text


class Wrong(ValueError):
    """A value that a setting cannot have. ``code``: BAD_REQUEST when it is of the wrong form."""

    def __init__(self, wanted: str, given: object = None, code: str = "BAD_REQUEST") -> None:
        super().__init__(wanted if given is None else f"{wanted}, found {json_text(given)}")
        self.code = code


class OutOfRange(Wrong):
    def __init__(self, wanted: str, given: object = None) -> None:
        super().__init__(wanted, given, "ILLEGAL_SETTING")


def schema_ref(name: str) -> Json:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a table; its subclass says which values it takes.

    Args:
        name: in JSON, in the form, and as the option of commands.
        column: of the row; by default the name.
        default: of the column, on a new thing.
        null: the column's value that JSON has as null; None: null is as if it were left out.
        is_required: a body without it is refused.
        about: the description in the reference.
        label, help: of the field in the form, marked for translation; no label, no field.
        may_be_empty: the field in the form may be left empty.
        suggests: the list in the form's page that offers values.
        option: flags of the command, by default made of the name; its help is ``option_help``, by
            default ``about``.
        only_with: column and value without which it counts for nothing.
        not_in_broadcast: why a broadcast group must leave it at its default; empty: it need not.
        is_state: shown, but not set by a body.
        form, field: of a part of a document: which form of the document it is for, and its name in
            the form of the page.
    """

    name: str = ""
    column: str = ""
    default: Any = None  # Any: of the column
    null: Any = None  # Any: of the column
    is_required: bool = False
    about: str = ""
    label: str = ""
    help: str = ""
    may_be_empty: bool = False
    suggests: str = ""
    option: str = ""
    option_help: str = ""
    metavar: str | None = None
    only_with: tuple[str, str] | None = None
    not_in_broadcast: str = ""
    is_state: bool = False
    form: str = ""
    field: str = ""

    plain_type: ClassVar[Any] = str

    @property
    def key(self) -> str:
        """Its column, or what stands for one of something that no row has."""
        return self.column or self.name

    @property
    def missing(self) -> str:
        return "is missing"

    def read(self, fields: Fields) -> Any:  # Any: of the column
        """The column's value; None where it is left out, or has a fault."""
        given = fields.find(self.name)
        if given is not None:
            return self.check(given, fields, self.name)
        if self.is_required:
            fields.fault(self.name, self.missing)
        return self.null if fields.has(self.name) else None

    def check(self, given: object, fields: Fields, place: str) -> Any:  # Any: as above
        """A value that is there as the column has it; None with a fault at ``place``."""
        try:
            return self.parse(given, fields, place)
        except Wrong as wrong:
            fields.fault(place, str(wrong), wrong.code)
            return None

    def parse(self, given: object, fields: Fields, place: str) -> Any:  # Any: as above
        """The same; raises Wrong. ``fields`` and ``place`` are for what is within the value."""
        raise NotImplementedError

    def shown(self, value: Any) -> Json:  # Any: as above
        """The fields of an answer, twins included."""
        return {self.name: value}

    def types(self) -> dict[str, Any]:  # Any: a type as pydantic takes it
        """The types of these fields."""
        may_be_null = self.null is not None and self.shown(self.null)[self.name] is None
        return {self.name: self.json_type | None if may_be_null else self.json_type}

    @property
    def json_type(self) -> Any:  # Any: a type
        """Of a value that is not null, also of an option."""
        return self.plain_type

    def schema(self) -> Json:
        """The fields of a request's body."""
        content = self.content() if self.is_required else _or_null(self.content())
        return {self.name: {**content, "description": self.about} if self.about else content}

    def content(self) -> Json:
        """The schema of a value that is not null."""
        raise NotImplementedError

    @property
    def flags(self) -> str:
        return self.option or "--" + self.name.replace("_", "-")

    def is_used(self, row: object) -> bool:
        return self.only_with is None or getattr(row, self.only_with[0]) == self.only_with[1]

    @property
    def shown_default(self) -> Any:  # Any: JSON
        """The default as a body has it."""
        return self.shown(self.stored_default)[self.name]

    @property
    def stored_default(self) -> Any:  # Any: of the column
        return self.default() if callable(self.default) else self.default


class Integer(Setting, frozen=True, kw_only=True):
    """A whole number in the range."""

    low: int
    high: int

    plain_type: ClassVar[Any] = int

    @property
    def _range(self) -> str:
        if self.low == self.high:
            return f"must be {self.low}"
        return f"must be in [{self.low}, {self.high}]"

    @property
    def missing(self) -> str:
        return f"is missing; {self._range}"

    def parse(self, given: object, fields: Fields, place: str) -> int:
        if not isinstance(given, int) or isinstance(given, bool):
            raise Wrong("must be a whole number", given)
        if not self.low <= given <= self.high:
            raise OutOfRange(self._range, given)
        return given

    def content(self) -> Json:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Number(Setting, frozen=True, kw_only=True):
    """Any number in the range."""

    low: float
    high: float

    plain_type: ClassVar[Any] = float

    def parse(self, given: object, fields: Fields, place: str) -> float:
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise Wrong("must be a number", given)
        # ``math.isfinite`` fails for a whole number that no float can hold; this does not.
        if not self.low <= given <= self.high:
            raise OutOfRange(f"must be in [{self.low:g}, {self.high:g}]", given)
        return float(given)

    def content(self) -> Json:
        return {"type": "number", "minimum": self.low, "maximum": self.high}


class Boolean(Setting, frozen=True, kw_only=True):
    """True or false."""

    plain_type: ClassVar[Any] = bool

    def parse(self, given: object, fields: Fields, place: str) -> bool:
        if not isinstance(given, bool):
            raise Wrong("must be true or false", given)
        return given

    def content(self) -> Json:
        return {"type": "boolean"}


class Choice(Setting, frozen=True, kw_only=True):
    """One of an enum's values.

    ``texts``: of each in a form, untranslated, in its order; ``offered``: those that can be chosen,
    all by default.
    """

    values: type[enum.StrEnum]
    texts: Mapping[str, str] = msgspec.field(default_factory=dict)
    offered: tuple[enum.StrEnum, ...] = ()

    @property
    def json_type(self) -> Any:
        return self.values

    @property
    def missing(self) -> str:
        return f"is missing; one of {', '.join(self.values)}"

    def parse(self, given: object, fields: Fields, place: str) -> enum.StrEnum:
        try:
            return self.values(cast("str", given))
        except ValueError:
            raise Wrong(f"must be one of {', '.join(self.values)}", given) from None

    def content(self) -> Json:
        return {"enum": [value.value for value in self.offered or tuple(self.values)]}


class Duration(Setting, frozen=True, kw_only=True):
    """Milliseconds in the range; in JSON a text, or milliseconds in the twin ``…_ms``."""

    low: int
    high: int

    @property
    def twin(self) -> Integer:
        return Integer(name=f"{self.name}_ms", low=self.low, high=self.high)

    def read(self, fields: Fields) -> Any:
        return _read_twins(self, self.twin, fields)

    def parse(self, given: object, fields: Fields, place: str) -> int:
        try:
            ms = parse_duration_ms(cast("str", given))
        except (ValueError, TypeError):
            raise Wrong("must be a duration such as 500ms, 30s, 12h or 7d", given) from None
        if not self.low <= ms <= self.high:
            low, high = format_duration_ms(self.low), format_duration_ms(self.high)
            raise OutOfRange(f"must be {low} to {high} long", given)
        return ms

    def shown(self, value: int) -> Json:
        return {self.name: format_duration_ms(value), f"{self.name}_ms": value}

    def types(self) -> dict[str, Any]:
        return {self.name: str, f"{self.name}_ms": int}

    def schema(self) -> Json:
        return {**Setting.schema(self), **self.twin.schema()}

    def content(self) -> Json:
        return {"type": "string", "pattern": DURATION_PATTERN}


class Moment(Setting, frozen=True, kw_only=True):
    """Milliseconds since the epoch, never negative; in JSON RFC 3339."""

    def parse(self, given: object, fields: Fields, place: str) -> int:
        try:
            return max(0, parse_rfc3339(cast("str", given)))
        except (ValueError, TypeError, OverflowError):
            raise Wrong("must be a time such as 2026-12-01T08:00:00.000Z", given) from None

    def shown(self, value: int) -> Json:
        return {self.name: rfc3339(value)}

    def types(self) -> dict[str, Any]:
        return {self.name: str | None}

    def content(self) -> Json:
        return {"type": "string", "format": "date-time", "pattern": TIME_PATTERN}


class Text(Setting, frozen=True, kw_only=True):
    """Characters. ``is_parsed``: who reads more into them finds those that are too long."""

    chars_max: int = 0  # 0: as many as a body has
    is_parsed: bool = False

    def parse(self, given: object, fields: Fields, place: str) -> str:
        if not isinstance(given, str):
            raise Wrong("must be a string", given)
        if not self.is_parsed and self.chars_max and len(given) > self.chars_max:
            raise Wrong(f"must have at most {self.chars_max} characters", len(given))
        if "\0" in given:
            raise Wrong("must not contain the character NUL")
        return given

    def content(self) -> Json:
        limit = {"maxLength": self.chars_max} if self.chars_max else {}
        return {"type": "string", **limit}


class Name(Setting, frozen=True, kw_only=True):
    """The name of a topic or a group; ``null``, if it has that, is an empty text."""

    def parse(self, given: object, fields: Fields, place: str) -> str:
        if not isinstance(given, str):
            raise Wrong("must be a name", given)
        if (fault := name_fault(given)) is not None:
            raise Wrong(fault)
        return given

    def shown(self, value: str) -> Json:
        return {self.name: value or None}

    def content(self) -> Json:
        return {"type": "string", "pattern": NAME_PATTERN}


_NAME = Name()


class Email(Setting, frozen=True, kw_only=True):
    """An email address."""

    def parse(self, given: object, fields: Fields, place: str) -> str:
        from django.core.exceptions import ValidationError  # which a command need not load
        from django.core.validators import validate_email

        try:
            if not isinstance(given, str) or len(given) > EMAIL_CHARS_MAX:
                raise ValidationError("")
            validate_email(given)
        except ValidationError:
            raise Wrong("must be an email address", given) from None
        return given

    def content(self) -> Json:
        return {"type": "string", "format": "email"}


class List(Setting, frozen=True, kw_only=True):
    """Several values of one kind."""

    item: Setting
    count_min: int = 0
    count_max: int
    count_fault: type[Wrong] = OutOfRange

    @property
    def json_type(self) -> Any:
        return list[self.item.json_type]  # type: ignore[name-defined]  # made here

    def parse(self, given: object, fields: Fields, place: str) -> list[Any] | None:
        if not isinstance(given, list):
            raise Wrong("must be a list", given)
        if not self.count_min <= len(given) <= self.count_max:
            wanted = f"must have {self.count_min} to {self.count_max} items"
            raise self.count_fault(wanted, len(given))
        found = [self.item.check(each, fields, f"{place}/{at}") for at, each in enumerate(given)]
        return None if None in found else found

    def content(self) -> Json:
        least = {"minItems": self.count_min} if self.count_min else {}
        items = self.item.content()
        return {"type": "array", "items": items, **least, "maxItems": self.count_max}


class Durations(List, frozen=True, kw_only=True):
    """A list of durations; in JSON of texts, or of milliseconds in the twin ``…_ms``."""

    item: Duration

    @property
    def twin(self) -> List:
        name, item = f"{self.name}_ms", self.item.twin
        return List(name=name, item=item, count_min=self.count_min, count_max=self.count_max)

    def read(self, fields: Fields) -> Any:
        return _read_twins(self, self.twin, fields)

    def schema(self) -> Json:
        return {**Setting.schema(self), **self.twin.schema()}


class ByName(Setting, frozen=True, kw_only=True):
    """Values of one kind by names of the tenant's."""

    item: Setting
    count_max: int

    plain_type: ClassVar[Any] = list[str]

    def parse(self, given: object, fields: Fields, place: str) -> Json | None:
        if not isinstance(given, dict):
            raise Wrong("must be an object", given)
        if len(given) > self.count_max:
            raise OutOfRange(f"must have at most {self.count_max} names", len(given))
        found = {}
        for name, value in given.items():
            at = f"{place}/{escaped(name)}"
            _NAME.check(name, fields, at)
            found[name] = self.item.check(value, fields, at)
        return found

    def content(self) -> Json:
        names = {"propertyNames": {"pattern": NAME_PATTERN}}
        return {"type": "object", "additionalProperties": self.item.content(), **names}


class Document(Setting, frozen=True, kw_only=True):
    """An object of the schema ``ref``, stored as JSON: in the engine's form, see its module.

    ``tag``: the name of the first part, which says which form the document has; ``forms``: what the
    reference says of each; ``plain``: the default as the API writes it.
    """

    ref: str
    parts: tuple[Setting, ...]
    tag: str = ""
    forms: Mapping[str, str] = msgspec.field(default_factory=dict)
    plain: Json = msgspec.field(default_factory=dict)

    plain_type: ClassVar[Any] = Json

    def parse(self, given: object, fields: Fields, place: str) -> Json | None:
        """Its parts by name, those that are there."""
        if not isinstance(given, dict):
            raise Wrong("must be an object", given)
        inner = fields.inner(given, place)
        fault_count = len(fields.faults)
        form = self.parts[0].read(inner) if self.tag else ""
        values = {} if form is None else read_values(self.parts_of(form), inner)
        if form is not None:
            inner.reject_unknown()
        if len(fields.faults) > fault_count:
            return None
        return {name: value for name, value in values.items() if value is not None}

    def parts_of(self, form: str) -> tuple[Setting, ...]:
        return tuple(part for part in self.parts if part.form in ("", form))

    def shown(self, value: object) -> Json:
        raise NotImplementedError("its module shows it")

    @property
    def shown_default(self) -> Any:
        return self.plain

    def content(self) -> Json:
        return schema_ref(self.ref)

    def definition(self) -> Json:
        """The schema that ``ref`` refers to."""
        if not self.tag:
            return body_object(self.parts, self.about)
        forms = []
        for form, about in self.forms.items():
            schema = body_object(self.parts_of(form), about)
            schema["properties"][self.tag] = {"const": form}
            forms.append(schema)
        return {"description": self.about, "oneOf": forms}


Settings = tuple[Setting, ...]
Readers = Mapping[str, Callable[[Fields], object]]


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

    def find_fault(self) -> tuple[str, str] | None:
        """The first number that is out of its range: its setting, and what is wrong."""
        for setting in self.settings:
            value = self.values.get(setting.key)
            if isinstance(setting, Integer | Duration) and value is not None:
                low, high = setting.low, setting.high
                if not low <= value <= high:
                    return setting.name, f"must be in [{low}, {high}], found {value}"
        return None

    def apply(self, row: object) -> set[str]:
        """Set what is given; the columns that became different."""
        different = {
            column: value for column, value in self.values.items() if value != getattr(row, column)
        }
        for column, value in different.items():
            setattr(row, column, value)
        return set(different)


def columns_of(settings: Settings) -> tuple[str, ...]:
    return tuple(setting.key for setting in settings)


def settable(settings: Settings) -> Iterator[Setting]:
    """Those that a body sets."""
    return (setting for setting in settings if not setting.is_state)


def read_values(
    settings: Settings, fields: Fields, readers: Readers | None = None
) -> dict[str, Any]:  # Any: of the column
    """Values by column, of an object; its faults are in ``fields``. ``readers``: by name, who reads
    those in place of their kinds."""
    known: Readers = readers or {}
    return {
        setting.key: known[setting.name](fields) if setting.name in known else setting.read(fields)
        for setting in settable(settings)
    }


def read_body(
    settings: Settings, body: bytes, readers: Readers | None = None
) -> dict[str, Any]:  # Any: of the column
    """What a request's body has of ``settings``, by column. Raises Problem with every fault."""
    fields = read_object(body)
    values = read_values(settings, fields, readers)
    fields.reject_unknown()
    fields.reject()
    return values


def shown_values(settings: Iterable[Setting], row: object, **documents: Json) -> Json:
    """What an answer says of a row; ``documents``: by name, as they are shown."""
    shown: Json = {}
    for setting in settings:
        if isinstance(setting, Document):
            shown[setting.name] = documents[setting.name]
        elif setting.is_used(row):
            shown |= setting.shown(getattr(row, setting.key))
        else:
            shown[setting.name] = None
    return shown


def answer_fields(settings: Iterable[Setting]) -> dict[str, Any]:
    """Its fields as pydantic's ``create_model`` takes them."""
    return {name: (kind, ...) for setting in settings for name, kind in setting.types().items()}


def definition_fields(settings: Settings) -> dict[str, Any]:
    """The same of a definition: all that can be set, without the twins of durations."""
    names = {setting.name for setting in settable(settings)}
    return {name: kind for name, kind in answer_fields(settings).items() if name in names}


def body_object(settings: Settings, about: str) -> Json:
    """The schema of a body that has these fields and no others."""
    properties: Json = {}
    for setting in settable(settings):
        properties |= setting.schema()
    required = [setting.name for setting in settings if setting.is_required]
    return {
        "type": "object",
        "description": about,
        "properties": properties,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _or_null(schema: Json) -> Json:
    if "type" in schema:
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {**schema, "enum": [*schema["enum"], None]}
    return {"anyOf": [schema, NULL]}


def _read_twins(setting: Setting, twin: Setting, fields: Fields) -> Any:  # Any: of the column
    """One of both; both are a fault."""
    ms = fields.find(twin.name)
    if ms is None:
        return Setting.read(setting, fields)
    if fields.find(setting.name) is not None:
        detail = f"{setting.name} and {twin.name} mean the same; give only one of them"
        fields.fault(setting.name, detail)
        return None
    return twin.check(ms, fields, twin.name)
