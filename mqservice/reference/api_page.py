"""Every operation as Markdown: ``docs/api.md`` is this text, and a test keeps it so.

    openapi_document() ──▶ [api_page] ──▶ operations by subject, then the shapes of their JSON

``python -m tests.docs`` writes it.
"""

from __future__ import annotations

import json
import re
from typing import Final

from mqservice.lib.problem import CONTENT_TYPE
from mqservice.reference.openapi import TAGS, openapi_document
from mqservice.reference.page import kind_of, resolved
from mqservice.reference.parts import (
    COMMON_CODES,
    SCHEMAS,
    JsonObject,
    codes_of_statuses,
    table_cell,
)

_HEAD: Final = """\
# All operations

<!-- Made by `python -m tests.docs`. Do not edit. -->

Each operation of the API with its parameters, its JSON and its errors, generated from the document
that a running service returns at `/v1/openapi.json`. Its page `/docs` shows the same, with a form
for each operation that sends it with your key. For how they work together see [REST](rest.md),
[WebSocket](websocket.md) and [access](access.md).

* All paths except those of the service itself need `Authorization: Bearer mqk_…`.
* Every operation accepts `x-request-id` (8 to 64 of `A-Z a-z 0-9 _ -`) and returns it, so the
  tables omit it.
* `ns` is a namespace; `-` is the one that the key is bound to.
* What each error code means: [errors](errors.md). Any request may get
  {common};
  they are omitted below.
"""
_LINE_CHARS_MAX: Final = 100
_CODES_MAX: Final = 3  # of one status; a longer list of all there are says nothing
_SAID_ABOVE: Final = frozenset({"x-request-id", "ns"})
_ORDER: Final = (
    "produce",
    "consume",
    "read",
    "schedule",
    "topics",
    "groups",
    "offsets",
    "dead letters",
)


def api_page() -> str:
    """The whole page."""
    document = openapi_document()
    named = {tag["name"]: tag["description"] for tag in document["tags"]}
    tags = sorted(named, key=lambda name: _ORDER.index(name) if name in _ORDER else len(_ORDER))
    common = ", ".join(f"`{code}`" for code in COMMON_CODES)
    listing = [
        f"* [{name.capitalize()}](#{name.replace(' ', '-')}): {named[name]}" for name in tags
    ]
    parts = [_HEAD.strip().replace("{common}", common), "\n".join(listing)]
    for name in tags:
        parts.append(f"## {name.capitalize()}")
        if name in TAGS:
            parts.append(named[name])
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation["tags"] == [name]:
                    parts += _operation(document, method.upper(), path, operation)
    parts += _shapes(document)
    return "\n\n".join(parts) + "\n"


def _operation(document: JsonObject, method: str, path: str, operation: JsonObject) -> list[str]:
    parts = [f"### {operation['summary']}", f"`{method} {path}`", operation["description"]]
    if operation.get("security") == []:
        parts.append("Needs no key.")
    rows = [
        (each["name"], each["in"], kind_of(each["schema"]), each.get("description", ""))
        for each in operation["parameters"]
        if each["name"] not in _SAID_ABOVE
    ]
    if rows:
        parts.append(_table(document, ("parameter", "in", "type", "meaning"), rows))
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, media in content.items():
        shape = _shape_link(media.get("schema", {}))
        parts.append(f"Body, `{media_type}`{': ' + shape if shape else ''}")
        parts += _example(media)
    refusals = []
    for status, form in operation["responses"].items():
        response = resolved(document, form)
        answers = response.get("content", {})
        if CONTENT_TYPE in answers:
            rule = answers[CONTENT_TYPE]["schema"]["allOf"][1]
            refusals += _refusals(int(status), rule["properties"]["code"]["enum"])
            continue
        shapes = [
            f"`{media_type}`"
            + (f": {shape}" if (shape := _shape_link(media.get("schema", {}))) else "")
            for media_type, media in answers.items()
        ]
        parts.append(f"**{status}** {response['description']} {', '.join(shapes)}".rstrip())
        for media in answers.values():
            parts += _example(media)
    if refusals:
        parts.append(f"**Errors** {', '.join(refusals)}")
    return parts


def _refusals(status: int, codes: list[str]) -> list[str]:
    """Codes that are not common to all; a single link if any code of the status may occur."""
    told = [code for code in codes if code not in COMMON_CODES]
    if len(told) > _CODES_MAX and set(codes) == set(codes_of_statuses(status)):
        return [f"[any of {status}](errors.md)"]
    return [f"`{code}` ({status})" for code in told]


def _example(media: JsonObject) -> list[str]:
    value = media.get("example")
    if value is None or not isinstance(value, dict | list):
        return []
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _LINE_CHARS_MAX:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    return [f"```json\n{text}\n```"]


def _shape_link(schema: JsonObject) -> str:
    """A link to the shape that a schema is, or is a list of; empty for anything else."""
    for part in (schema, schema.get("items", {}), *schema.get("anyOf", [])):
        if "$ref" in part:
            name = part["$ref"].removeprefix(SCHEMAS)
            several = "list of " if part is schema.get("items") else ""
            return f"{several}[{name}](#{name.lower()})"
    return ""


def _shapes(document: JsonObject) -> list[str]:
    parts = ["## Shapes", "JSON fields, by the name of each object in the document."]
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"### {name}")
        if "properties" not in schema:
            parts.append(f"Is {kind_of(schema)}.")
            continue
        if schema.get("description"):
            parts.append(schema["description"].replace("``", "`"))
        required = schema.get("required", [])
        rows = [
            (field, "yes" if field in required else "", kind_of(form), form.get("description", ""))
            for field, form in schema["properties"].items()
        ]
        if rows:
            parts.append(_table(document, ("field", "always", "type", "meaning"), rows))
    return parts


def _table(
    document: JsonObject, heads: tuple[str, ...], rows: list[tuple[str, str, str, str]]
) -> str:
    shapes = document["components"]["schemas"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, second, kind, text in rows:
        linked = re.sub(
            r"\b[A-Z]\w+\b",
            lambda word: f"[{word[0]}](#{word[0].lower()})" if word[0] in shapes else word[0],
            kind,
        )
        cells = [table_cell(part) for part in (second, linked, text)]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)
