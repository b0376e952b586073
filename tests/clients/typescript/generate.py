"""The parts of the TypeScript client that are made of the service's own documents.

    AsyncAPI ──▶ frames_module ──▶ src/generated/frames.ts    the MessagePack frames, as tuples
    OpenAPI  ──▶ api_module ─────▶ src/generated/api.ts       bodies, error codes, the control plane

``python -m tests.docs`` writes both; a test fails while they differ from what the service serves.
The control plane is one class for each of ``tests.clients.resources``, with a method for each
operation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from mqservice.protocol.frames import COMMANDS, PUSHES, Subprotocol
from mqservice.protocol.problem_texts import MEANINGS
from mqservice.reference.asyncapi import asyncapi_document
from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import SCHEMAS, JsonObject
from tests.clients.resources import RESOURCES, operations

HEAD: Final = (
    "// Made from the service's {name} document by `python -m tests.docs`; do not edit it.\n"
)

# What the data plane of the client uses besides.
_DATA_SCHEMAS: Final = (
    "ProduceMessage", "BatchResponse", "ReceiveOptions", "ReceiveResponse", "SettleOptions",
    "SettleResponse", "Problem",
)  # fmt: skip
_SPACES: Final = re.compile(r"\s+")
_DOC_CHARS_MAX: Final = 88


def frames_module() -> str:
    """The frames in MessagePack: a labelled tuple each, and the numbers of the ops."""
    schemas = asyncapi_document()["components"]["schemas"]
    render = _Types(schemas, bytes_type="Uint8Array")
    ops = {frame.op: frame.number for frame in (*COMMANDS, *PUSHES)}
    numbers = ", ".join(f"{op}: {number}" for op, number in ops.items())
    packs = {frame.pack.__name__ for frame in (*COMMANDS, *PUSHES)}
    lines = [
        HEAD.format(name="AsyncAPI"),
        f'export const SUBPROTOCOL = "{Subprotocol.MSGPACK.value}";\n',
        f"export const OP = {{ {numbers} }} as const;\n",
    ]
    lines += render.declarations([*sorted(packs), "Settled", "Unsubscribed"])
    pushes = " | ".join(frame.pack.__name__ for frame in PUSHES)
    commands = " | ".join(frame.pack.__name__ for frame in COMMANDS)
    lines.append(f"export type Push = {pushes};\n")
    lines.append(f"export type Command = {commands};")
    return "\n".join(lines) + "\n"


def api_module() -> str:
    """Bodies, error codes with what to do about them, and the classes of the control plane."""
    document = openapi_document()
    render = _Types(document["components"]["schemas"], bytes_type="string")
    classes = [_resource(render, name, operations(name)) for name in RESOURCES]
    remedies = [f"  {code}: {json.dumps(m.remedy)}," for code, m in sorted(MEANINGS.items())]
    return (
        "\n".join(
            [
                HEAD.format(name="OpenAPI"),
                'import type { Call, CallOptions } from "../rest.js";\n',
                "/** What to do about each error. */",
                "export const REMEDIES = {",
                *remedies,
                "} as const;\n",
                "export type ErrorCode = keyof typeof REMEDIES;\n",
                *render.declarations([*render.used, *_DATA_SCHEMAS]),
                *classes,
            ]
        ).rstrip("\n")
        + "\n"
    )


class _Types:
    """Schemas of one document as TypeScript; ``used`` are those that something referred to."""

    def __init__(self, schemas: dict[str, JsonObject], *, bytes_type: str) -> None:
        self.used: dict[str, None] = {}
        self._schemas = schemas
        self._bytes_type = bytes_type

    def declarations(self, names: Iterable[str]) -> list[str]:
        """These schemas and all that they refer to, by name."""
        texts: dict[str, str] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in texts:
                self.used = {}
                texts[name] = self._declaration(name)
                waiting += self.used
        return [texts[name] for name in sorted(texts)]

    def _declaration(self, name: str) -> str:
        schema = self._schemas[name]
        head = _doc(schema.get("description", ""), "")
        if schema.get("type") == "object" and schema.get("properties"):
            return f"{head}export interface {name} {{\n{''.join(self._fields(schema))}}}\n"
        return f"{head}export type {name} = {self.type_of(schema)};\n"

    def _fields(self, schema: JsonObject) -> Iterator[str]:
        required = schema.get("required", ())
        for name, field in schema["properties"].items():
            yield _doc(field.get("description", ""), "  ")
            key = name if name.isidentifier() else json.dumps(name)
            yield f"  {key}{'' if name in required else '?'}: {self.type_of(field)};\n"

    def type_of(self, schema: JsonObject) -> str:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(SCHEMAS)
            self.used[name] = None
            return str(name)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return " | ".join(dict.fromkeys(self.type_of(each) for each in schema[union]))
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            return " | ".join(json.dumps(value) for value in values)
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self._of_kind(kind, schema) for kind in kinds) or "unknown"

    def _of_kind(self, kind: str, schema: JsonObject) -> str:
        if kind in ("integer", "number"):
            return "number"
        if kind == "string":
            return self._bytes_type if schema.get("contentEncoding") else "string"
        if kind == "array":
            return self._array(schema)
        if kind == "object":
            if schema.get("properties"):
                inner = "".join(field.strip() + " " for field in self._fields_plain(schema))
                return f"{{ {inner}}}"
            values = schema.get("additionalProperties")
            of = self.type_of(values) if isinstance(values, dict) and values else "unknown"
            return f"Record<string, {of}>"
        return kind  # null, boolean

    def _fields_plain(self, schema: JsonObject) -> Iterator[str]:
        required = schema.get("required", ())
        for name, field in schema["properties"].items():
            yield f"{name}{'' if name in required else '?'}: {self.type_of(field)};"

    def _array(self, schema: JsonObject) -> str:
        if "prefixItems" not in schema:
            of = self.type_of(schema.get("items", {}))
            return f"({of})[]" if "|" in of else f"{of}[]"
        needed = schema["minItems"]
        places = [
            f"{position['title']}{'' if index < needed else '?'}: {self.type_of(position)}"
            for index, position in enumerate(schema["prefixItems"])
        ]
        return f"[{', '.join(places)}]"


def _resource(render: _Types, name: str, methods: dict[str, tuple[str, str, JsonObject]]) -> str:
    lines = [
        f"export class {name} {{",
        "  readonly #call: Call;\n",
        "  constructor(call: Call) {",
        "    this.#call = call;",
        "  }",
    ]
    for method, (verb, path, operation) in methods.items():
        lines += ["", *_method(render, method, verb, path, operation)]
    return "\n".join([*lines, "}\n"])


def _method(
    render: _Types, name: str, verb: str, path: str, operation: JsonObject
) -> Iterator[str]:
    parameters = operation.get("parameters", ())
    places = [each for each in parameters if each["in"] == "path" and each["name"] != "ns"]
    queries = [each for each in parameters if each["in"] == "query"]
    arguments = [f"{_camel(each['name'])}: {render.type_of(each['schema'])}" for each in places]
    body = operation.get("requestBody")
    if body is not None:
        kind = render.type_of(next(iter(body["content"].values()))["schema"])
        is_optional = kind.endswith("| null") or not body.get("required")
        kind = kind.removesuffix(" | null")
        arguments.append(f"body: {kind} = {{}}" if is_optional else f"body: {kind}")
    fields = [
        f"{each['name']}{'' if each.get('required') else '?'}: {render.type_of(each['schema'])};"
        for each in queries
    ]
    has_required = any(each.get("required") for each in queries)
    options = "CallOptions" + (f" & {{ {' '.join(fields)} }}" if fields else "")
    arguments.append(f"options: {options}{'' if has_required else ' = {}'}")
    filled = ", ".join(_filled(each["name"]) for each in places)
    given = [json.dumps(verb), json.dumps(path), f"{{ {filled} }}" if filled else "{}", "options"]
    names = json.dumps([each["name"] for each in queries])
    given += [names] if queries or body is not None else []
    given += ["body"] if body is not None else []
    yield _doc(operation["summary"] + ".", "  ").rstrip("\n")
    yield f"  {name}({', '.join(arguments)}): Promise<{_result(render, operation)}> {{"
    yield f"    return this.#call({', '.join(given)});"
    yield "  }"


def _result(render: _Types, operation: JsonObject) -> str:
    found: dict[str, None] = {}
    for status, response in operation["responses"].items():
        content = response.get("content")
        if status.startswith("2"):
            found[render.type_of(content["application/json"]["schema"]) if content else "void"] = (
                None
            )
    return " | ".join(found)


def _filled(name: str) -> str:
    return name if name == _camel(name) else f"{name}: {_camel(name)}"


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)


def _doc(text: str, indent: str) -> str:
    """The first paragraph of a description as a comment, or nothing."""
    plain = _SPACES.sub(" ", text.split("\n\n")[0]).strip().replace("*/", "* /")
    if not plain:
        return ""
    lines, line = [], ""
    for word in plain.split(" "):
        if line and len(line) + len(word) >= _DOC_CHARS_MAX:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    if not lines:
        return f"{indent}/** {line} */\n"
    return (
        f"{indent}/**\n"
        + "".join(f"{indent} * {each}\n" for each in [*lines, line])
        + (f"{indent} */\n")
    )
