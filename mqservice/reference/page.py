"""The reference page: what the OpenAPI document says, as values for a template.

openapi_document() ──▶ [reference_page] ──▶ sections of operations ──▶ reference/page.html
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Final

from django.utils.safestring import SafeString

from mqservice.lib.problem import CONTENT_TYPE, slug
from mqservice.lib.prose import prose
from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import SCHEMAS, JsonObject

CHOICES_SHOWN_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One row of a table of parameters or of a body's fields. ``value`` is what a form begins
    with, if it has a place for the field.
    """

    name: str
    place: str
    kind: str
    is_required: bool
    text: SafeString
    value: str = ""

    @property
    def is_asked(self) -> bool:
        """Forms send JSON, beside which the headers of a raw message mean nothing."""
        return self.name != "x-request-id" and not self.name.startswith("mq-")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseCard:
    """``codes``: (code, path of its page)."""

    status: str
    text: SafeString
    example: str
    codes: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    media_types: list[str]
    fields: list[Field]
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCard:
    identity: str
    method: str
    path: str
    summary: str
    text: SafeString
    needs_key: bool
    can_try: bool
    parameters: list[Field]
    body: Body | None
    answers: list[ResponseCard]
    refusals: list[ResponseCard]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    name: str
    identity: str
    text: str
    operations: list[OperationCard]


@cache
def reference_sections() -> list[Section]:
    """All operations, by tag."""
    document = openapi_document()
    return [
        Section(
            name=tag["name"].capitalize(),
            identity=tag["name"].replace(" ", "-"),
            text=tag["description"],
            operations=[
                _card(document, path, method, operation)
                for path, methods in document["paths"].items()
                for method, operation in methods.items()
                if operation["tags"] == [tag["name"]]
            ],
        )
        for tag in document["tags"]
    ]


def _card(document: JsonObject, path: str, method: str, operation: JsonObject) -> OperationCard:
    answers = [
        _answer(document, status, response) for status, response in operation["responses"].items()
    ]
    needs_key = operation.get("security") != []
    return OperationCard(
        identity=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        text=prose(operation["description"]),
        needs_key=needs_key,
        can_try=path != "/v1/ws",
        parameters=[_parameter(parameter) for parameter in operation["parameters"]],
        body=_body(document, operation.get("requestBody")),
        answers=[answer for answer in answers if not answer.codes],
        refusals=[answer for answer in answers if answer.codes],
    )


def _parameter(parameter: JsonObject) -> Field:
    schema = parameter["schema"]
    value = parameter.get("example", "") if parameter["in"] == "path" else ""
    return Field(
        name=parameter["name"],
        place=parameter["in"],
        kind=kind_of(schema),
        is_required=parameter.get("required", False),
        text=prose(parameter.get("description", "")),
        value=str(value),
    )


def _body(document: JsonObject, body: JsonObject | None) -> Body | None:
    if body is None:
        return None
    content = body["content"]
    first = next(iter(content.values()))
    schema = resolved(document, first["schema"])
    schema = resolved(document, schema.get("items", schema))
    for part in schema.get("anyOf", []):
        if "$ref" in part:  # settings, or nothing
            schema = resolved(document, part)
    required = schema.get("required", [])
    example = first.get("example")
    return Body(
        media_types=list(content),
        fields=[
            Field(
                name=name,
                place="body",
                kind=kind_of(field),
                is_required=name in required,
                text=prose(field.get("description", "")),
            )
            for name, field in schema.get("properties", {}).items()
        ],
        example="" if example is None else json.dumps(example, indent=2, ensure_ascii=False),
    )


def _answer(document: JsonObject, status: str, response: JsonObject) -> ResponseCard:
    response = resolved(document, response)
    content = response.get("content", {})
    codes: list[str] = []
    if CONTENT_TYPE in content:
        rule = content[CONTENT_TYPE]["schema"]["allOf"][1]
        codes = rule["properties"]["code"]["enum"]
    example = next((media["example"] for media in content.values() if "example" in media), None)
    return ResponseCard(
        status=status,
        text=prose(response["description"]),
        example="" if example is None else json.dumps(example, indent=2, ensure_ascii=False),
        codes=[(code, f"/errors/{slug(code)}") for code in codes],
    )


def resolved(document: JsonObject, value: JsonObject) -> JsonObject:
    if "$ref" not in value:
        return value
    found: JsonObject = document
    for name in value["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


def kind_of(schema: JsonObject) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(SCHEMAS)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(
                dict.fromkeys(kind_of(part) for part in schema[several] if part != {"type": "null"})
            )
    if "enum" in schema:
        values = [str(value) for value in schema["enum"] if value is not None]
        more = " …" if len(values) > CHOICES_SHOWN_MAX else ""
        return " | ".join(values[:CHOICES_SHOWN_MAX]) + more
    kind = schema.get("type", "any value")
    names = [kind] if isinstance(kind, str) else [name for name in kind if name != "null"]
    shown = " or ".join(names)
    if schema.get("format") == "date-time":
        shown = "time"
    if shown == "array":
        shown = f"list of {kind_of(schema.get('items', {}))}"
    if "minimum" in schema or "maximum" in schema:
        low, high = schema.get("minimum"), schema.get("maximum")
        shown += f", {low} to {high}" if high is not None else f" from {low}"
    return shown
