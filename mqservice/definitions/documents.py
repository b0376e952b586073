"""A document of definitions: written from the rows, and parsed with all its errors.

    rows ──▶ [export] ──▶ DefinitionsOut
    body ──▶ [read_document] ──▶ Document: names and changes
                   └── every fault with its place ──▶ Problem

Settings are read by the readers of ``PUT``: what a request for one thing could not set, a document
cannot set either. What a definition leaves out stays as it is, or takes its default on a new thing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mqservice.accounts.models import Namespace
from mqservice.definitions.limits import (
    DEFINITION_COUNT_MAX,
    SCHEMA_CHARS_MAX,
    VERSION,
    VERSION_MIN,
)
from mqservice.definitions.schemas import DefinitionsOut, GroupDefinition, TopicDefinition
from mqservice.groups.schemas import read_settings as read_group
from mqservice.groups.services import GroupChange
from mqservice.lib.json_fields import FAULTS_MAX, Fields, json_text, read_object
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.settings_table import Choice, Integer, Name, Text
from mqservice.lib.settings_table import Document as ObjectSetting
from mqservice.lib.wire import refused
from mqservice.protocol.choices import SchemaKind
from mqservice.topic_schemas.queries import definition_chars, schemas_of
from mqservice.topic_schemas.services import SchemaChange
from mqservice.topics.schemas import read_settings as read_topic
from mqservice.topics.services import TopicChange

ChangeT = TypeVar("ChangeT", TopicChange, GroupChange)
NAME: Final = Name(name="name", is_required=True)
SCHEMA: Final = ObjectSetting(
    name="schema",
    ref="TopicSchemaIn",
    parts=(
        Choice(name="kind", values=SchemaKind, is_required=True),
        Text(name="definition", is_required=True),
        Text(name="message"),
    ),
    about="The schema of its bodies; from version 2.",
)
_VERSION: Final = Integer(name="version", low=VERSION_MIN, high=VERSION, is_required=True)
_HAS_SCHEMAS: Final = 2  # the version from which topics have them


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined(Generic[ChangeT]):
    """One topic or group of a document; ``pointer`` is its place there. ``schema``: of a topic that
    the document gives one.
    """

    name: str
    change: ChangeT
    pointer: str
    schema: SchemaChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What was read; names differ within each list."""

    topics: list[Defined[TopicChange]]
    groups: list[Defined[GroupChange]]


def export(namespace: Namespace, prefix: str = "") -> DefinitionsOut:
    """Of all topics and groups whose names begin with ``prefix``. Four queries.

    Raises Problem BAD_REQUEST: there is more than one document holds.
    """
    limit = DEFINITION_COUNT_MAX + 1
    topics = list(namespace.topics.filter(name__startswith=prefix).order_by("name")[:limit])
    groups = list(namespace.groups.filter(name__startswith=prefix).order_by("name")[:limit])
    if len(topics) + len(groups) > DEFINITION_COUNT_MAX:
        raise refused(
            "?prefix",
            f"there are more than {DEFINITION_COUNT_MAX} topics and groups, which is "
            "the most in one document: export them in parts, with one prefix after "
            "the other",
        )
    names = [topic.name for topic in topics]
    if (chars := definition_chars(namespace, names)) > SCHEMA_CHARS_MAX:
        raise refused(
            "?prefix",
            f"the schemas of these topics have {chars} characters, and one document "
            f"has at most {SCHEMA_CHARS_MAX}: export them in parts, with one prefix "
            "after the other",
        )
    schemas = schemas_of(namespace, names)
    return DefinitionsOut(
        topics=[TopicDefinition.of(topic, schemas.get(topic.name)) for topic in topics],
        groups=[GroupDefinition.of(group) for group in groups],
    )


def read_document(body: bytes) -> Document:
    """Raises Problem that names every fault, up to ``FAULTS_MAX`` of them."""
    fields = read_object(body)
    if body.strip():
        reject_duplicates(body)
    version = _VERSION.read(fields)
    has_schemas = version is None or version >= _HAS_SCHEMAS
    topics = _read_list(fields, "topics", read_topic, has_schemas=has_schemas)
    groups = _read_list(fields, "groups", read_group)
    count = len(topics) + len(groups)
    if count > DEFINITION_COUNT_MAX:
        fields.out_of_range("groups", _too_many(count))
    fields.reject_unknown()
    reject(fields.faults)
    return Document(topics=topics, groups=groups)


def reject_duplicates(body: bytes) -> None:
    """Raises Problem: an object of ``body``, which is JSON, has a field twice.

    Readers take the last one: of two lists of topics one would be gone, and nobody told.
    """
    faults: list[ProblemItem] = []

    def noted(pairs: list[tuple[str, object]]) -> dict[str, object]:
        content = dict(pairs)
        if len(content) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            where = f", in {json_text(content[NAME.name])}" if NAME.name in content else ""
            faults.append(
                ProblemItem("", "BAD_REQUEST", f"{json_text(twice)} is given twice{where}")
            )
        return content

    text = body.decode()
    try:
        # Numbers are not looked at: Python refuses, or takes its time for, those of many digits.
        json.loads(text, object_pairs_hook=noted, parse_int=len, parse_float=len)
    except RecursionError:
        raise refused("", "the body is nested too deeply") from None
    reject(faults)


def reject(faults: list[ProblemItem]) -> None:
    """Raises Problem with all of ``faults``, when there are any: of their code if that is one."""
    if not faults:
        return
    codes = {fault.code for fault in faults}
    code = faults[0].code if len(codes) == 1 else "BAD_REQUEST"
    place = faults[0].pointer
    detail = f"{place}: {faults[0].detail}" if place else faults[0].detail
    if len(faults) > 1:
        detail += f"; this is the first of {len(faults)} errors"
    raise Problem.of(code, detail, errors=faults[:FAULTS_MAX])


def faults_at(pointer: str, problem: Problem) -> list[ProblemItem]:
    """The faults of one thing, as those of the document."""
    items = problem.errors or [ProblemItem("", problem.code, problem.detail)]
    return [ProblemItem(pointer + item.pointer, item.code, item.detail) for item in items]


def _too_many(count: int) -> str:
    return f"a document has at most {DEFINITION_COUNT_MAX} topics and groups, found {count}"


def _read_list(
    fields: Fields,
    name: str,
    read: Callable[[Fields], ChangeT],
    *,
    has_schemas: bool = False,
) -> list[Defined[ChangeT]]:
    value = fields.find(name)
    if value is None:
        return []
    if not isinstance(value, list):
        fields.fault(name, f"must be a list, found {json_text(value)}")
        return []
    if len(value) > DEFINITION_COUNT_MAX:
        fields.out_of_range(name, _too_many(len(value)))
        return []
    found: list[Defined[ChangeT]] = []
    places: dict[str, str] = {}
    for at, content in enumerate(value):
        pointer = f"/{name}/{at}"
        if not isinstance(content, dict):
            fields.fault(f"{name}/{at}", f"must be an object, found {json_text(content)}")
            continue
        own = Fields(content, pointer, fields.faults)
        thing = _read_name(own, places, pointer, "TOPIC" if name == "topics" else "GROUP")
        change = read(own)
        schema = _read_schema(own) if has_schemas else None
        found.append(Defined(name=thing, change=change, pointer=pointer, schema=schema))
        own.reject_unknown()
    return found


def _read_schema(own: Fields) -> SchemaChange | None:
    """None where there is none, or it has a fault."""
    found = SCHEMA.read(own)
    return None if found is None else SchemaChange(**found)


def _read_name(own: Fields, places: dict[str, str], pointer: str, kind: str) -> str:
    """Empty with a fault."""
    name = own.find(NAME.name)
    if not isinstance(name, str):
        own.fault(
            NAME.name, "is missing" if name is None else f"must be a name, found {json_text(name)}"
        )
        return ""
    fault = name_fault(name)
    if fault is not None:
        own.faults.append(ProblemItem(f"{pointer}/{NAME.name}", f"ILLEGAL_{kind}", fault))
        return ""
    if name in places:
        own.fault(NAME.name, f"{name} is already defined at {places[name]}")
        return ""
    places[name] = pointer
    return name
