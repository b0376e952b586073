"""The parts of the Python client that are made of the service's OpenAPI document.

    OpenAPI ─┬─▶ types_module ──────▶ mqservice_client/api_types.py       what is sent and received
             └─▶ resources_module ──▶ mqservice_client/aio/resources.py   a method per operation

``python -m tests.docs`` writes both, ``python -m clients.generate`` the synchronous twin of the
second. Types that only a type checker needs stand under ``TYPE_CHECKING``: a value or a variant
that a later service adds is no error here.
"""

from __future__ import annotations

import json
import keyword
import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from clients.generate import formatted
from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import DURATION_PATTERN, SCHEMAS, TIME_PATTERN, JsonObject
from tests.clients.resources import RESOURCES, operations

HEAD: Final = "# Made from the service's OpenAPI document by `python -m tests.docs`; change that.\n"
_BODIES: Final = {"body", "body_json", "body_b64"}
# A span of time, in words that Python does not need for itself.
_IF_MATCH: Final = "The ``etag`` that it must still have, or PreconditionFailed is raised."
_SPAN: Final = {"from": "since", "to": "until"}
_PAGES: Final = ("after", "before", "cursor")
_WIDTH: Final = 88
_KINDS: Final = {
    "integer": "int", "number": "float", "boolean": "bool", "string": "str", "null": "None",
}  # fmt: skip


def types_module() -> str:
    """Structs, names of values and unions, by name."""
    types = _Types()
    for name in RESOURCES:
        _methods(types, name)
    structs, checked, loose = types.declarations()
    return formatted(
        "\n".join(
            [
                '"""What the control plane sends and receives, by the names of the API."""\n',
                HEAD,
                "from __future__ import annotations\n",
                "from datetime import datetime",
                "from typing import TYPE_CHECKING, Any, Literal, TypedDict\n",
                "import msgspec\n",
                "from .control_calls import MessageBody\n",
                "if TYPE_CHECKING:",
                textwrap.indent("\n".join(checked), "    "),
                "else:",
                textwrap.indent("\n".join(loose), "    "),
                "\n",
                *structs,
            ]
        )
    )


def resources_module() -> str:
    """The classes of the control plane on an event loop."""
    types = _Types()
    classes = [_methods(types, name) for name in RESOURCES]
    text = "\n\n".join(classes)
    names = sorted(name for name in types.used if re.search(rf"\b{name}\b", text))
    return formatted(
        "\n".join(
            [
                '"""The control plane: a class per resource, a method per operation."""\n',
                HEAD,
                "from __future__ import annotations\n",
                "from collections.abc import AsyncIterator, Mapping, Sequence",
                "from datetime import datetime",
                "from typing import Literal, overload\n",
                "from ..api_types import " + ", ".join(names),
                "from ..control_calls import UNSET, Unset, new_key",
                "from ..values import Duration",
                "from .api import AsyncApi\n\n",
                text,
            ]
        )
    )


class _Types:
    """Schemas of the document as Python; ``used`` are those that something referred to."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self.tagged: set[str] = set()  # those that come with an ETag
        self._schemas: dict[str, JsonObject] = openapi_document()["components"]["schemas"]

    def declarations(self) -> tuple[list[str], list[str], list[str]]:
        """Structs, then what stands in the two branches of ``TYPE_CHECKING``."""
        structs: dict[str, str] = {}
        checked: dict[str, str] = {}
        loose: dict[str, str] = {}
        waiting = list(self.used)
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            self.used = {}
            schema = self._schemas[name]
            if schema.get("properties"):
                structs[name] = self._struct(name, schema)
            elif "enum" in schema:
                checked[name] = f"{name} = {self.type_of(schema)}"
                loose[name] = f"{name} = str"
            else:
                checked[name] = self._union(name, schema)
                loose[name] = f"{name} = {'Any' if _is_mixed(schema) else 'dict[str, Any]'}"
            waiting += self.used
        return tuple(  # type: ignore[return-value]  # three of the same
            [found[name] for name in sorted(found)] for found in (structs, checked, loose)
        )

    def resolved(self, schema: JsonObject) -> JsonObject:
        """The schema behind a reference, without null."""
        for part in schema.get("anyOf", ()):
            if part.get("type") != "null":
                return self.resolved(part)
        if "$ref" in schema:
            return self._schemas[schema["$ref"].removeprefix(SCHEMAS)]
        return schema

    def type_of(self, schema: JsonObject, *, is_argument: bool = False) -> str:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(SCHEMAS)
            self.used[name] = None
            return str(name)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                parts = (self.type_of(each, is_argument=is_argument) for each in schema[union])
                return " | ".join(dict.fromkeys(parts))
        if "enum" in schema or "const" in schema:
            values = schema.get("enum", [schema.get("const")])
            literal = ", ".join(_literal(value) for value in values if value is not None)
            return f"Literal[{literal}]{' | None' if None in values else ''}"
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self._of_kind(kind, schema, is_argument) for kind in kinds) or "Any"

    def _of_kind(self, kind: str, schema: JsonObject, is_argument: bool) -> str:
        if kind == "string" and (
            schema.get("format") == "date-time" or schema.get("pattern") == TIME_PATTERN
        ):
            return "datetime"
        if kind == "string" and schema.get("pattern") == DURATION_PATTERN and is_argument:
            return "Duration"
        if kind == "string" and schema.get("contentEncoding"):
            return "bytes"
        if kind == "array":
            of = self.type_of(schema.get("items", {}), is_argument=is_argument)
            return f"{'Sequence' if is_argument else 'list'}[{of}]"
        if kind == "object":
            values = schema.get("additionalProperties")
            is_typed = isinstance(values, dict)
            of = self.type_of(values or {}, is_argument=is_argument) if is_typed else "Any"
            if is_argument:
                return f"Mapping[str, {of.replace('Any', 'object')}]"
            return f"dict[str, {of}]"
        return _KINDS[kind]

    def _struct(self, name: str, schema: JsonObject) -> str:
        fields, required = schema["properties"], schema.get("required", ())
        has_body = fields.keys() >= _BODIES
        lines = [
            f"class {name}({'MessageBody' if has_body else 'msgspec.Struct'}, "
            "frozen=True, kw_only=True, omit_defaults=True):"
        ]
        doc = _doc(schema.get("description", ""), {})
        names = _names(fields)
        for field, prop in fields.items():
            if has_body and field in _BODIES:
                continue
            lines.append(f"    {self._field(names[field], field, prop, field in required)}")
        if name in self.tagged:
            lines.append("    etag: str | None = None  # for `if_match`; None in a list")
        lines[1:1] = [textwrap.indent(doc, "    ")] if doc else []
        return "\n".join([*lines, "\n"])

    def _field(self, name: str, field: str, prop: JsonObject, is_required: bool) -> str:
        kind = self.type_of(prop) if field == name else "datetime | None"
        kind = kind.replace("Literal[True]", "bool")
        kind = re.sub(r"Literal\[[^]]*\]", "str", kind)  # a later service may have others
        if not is_required and "None" not in kind.split(" | "):
            kind = f"{kind} | None"
        reason = "  # Any: whatever JSON it is" if "Any" in kind else ""
        if field != name:
            default = "" if is_required else ", default=None"
            return f'{name}: {kind} = msgspec.field(name="{field}"{default}){reason}'
        return f"{name}: {kind}{'' if is_required else ' = None'}{reason}"

    def _union(self, name: str, schema: JsonObject) -> str:
        """A union of objects: a TypedDict each, named by the value or field that it has alone."""
        lines, parts = [], []
        for part in schema["oneOf"]:
            if "properties" not in part:
                parts.append(self.type_of(part))
                continue
            fields, required = part["properties"], part.get("required", ())
            constant = next((each["const"] for each in fields.values() if "const" in each), None)
            own = f"{name}{(constant or next(iter(fields))).capitalize()}"
            parts.append(own)
            kinds = {field: self.type_of(prop) for field, prop in fields.items()}
            needed = {field: kind for field, kind in kinds.items() if field in required}
            # Python 3.10 has no NotRequired.
            if needed == kinds:
                lines += _typed_dict(f"class {own}(TypedDict)", needed)
            else:
                others = {field: kind for field, kind in kinds.items() if field not in required}
                lines += _typed_dict(f"class _{own}(TypedDict)", needed)
                lines += _typed_dict(f"class {own}(_{own}, total=False)", others)
        return "\n".join([*lines, f"{name} = {' | '.join(parts)}\n"])


class _Method:
    """One operation as a method: its arguments in order, and what is sent of them."""

    def __init__(self, types: _Types, verb: str, path: str, operation: JsonObject) -> None:
        self.verb, self.path, self.operation = verb, path, operation
        self.required: dict[str, str] = {}
        self.optional: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.body: dict[str, str] = {}
        self.query: dict[str, str] = {}
        parameters = operation.get("parameters", ())
        self.places = [p["name"] for p in parameters if p["in"] == "path" and p["name"] != "ns"]
        for each in parameters:
            if each["name"] in self.places:
                self.required[each["name"]] = types.type_of(each["schema"])
        body = operation.get("requestBody")
        self.has_body = body is not None
        if body is not None:
            self._add_body(types, types.resolved(next(iter(body["content"].values()))["schema"]))
        queries = [each for each in parameters if each["in"] == "query"]
        names = _names({each["name"]: None for each in queries})
        for each in queries:
            name = names[each["name"]]
            kind = types.type_of(each["schema"], is_argument=True)
            kind = "datetime" if name != each["name"] else kind
            self.query[each["name"]] = name
            self._add(name, kind, is_required=each.get("required", False), unset="None")
        headers = {each["name"] for each in parameters if each["in"] == "header"}
        self.is_keyed = "Idempotency-Key" in headers
        self.is_guarded = "If-Match" in headers
        self.results = _results(types, operation)

    def _add_body(self, types: _Types, schema: JsonObject) -> None:
        fields, required = schema["properties"], schema.get("required", ())
        names = _names(fields)
        for field, prop in fields.items():
            if field.endswith("_ms") and field.removesuffix("_ms") in fields:
                continue  # a Duration says it
            name = names[field]
            self.body[field] = name
            self.texts[name] = prop.get("description", "")
            kind = types.type_of(prop, is_argument=True)
            if prop.get("type") == "boolean" and not prop.get("default", True):
                self.optional[name] = "bool = False"
            else:
                unset = "None" if self.verb == "POST" else "UNSET"
                self._add(name, kind, is_required=field in required, unset=unset)

    def _add(self, name: str, kind: str, *, is_required: bool, unset: str) -> None:
        if is_required:
            self.required[name] = kind
            return
        parts = [part for part in kind.split(" | ") if part != "None"]
        parts += ["Unset"] if unset == "UNSET" else []
        parts += ["None"] if unset == "None" or "None" in kind.split(" | ") else []
        self.optional[name] = f"{' | '.join(parts)} = {unset}"

    def signature(self, **replaced: str) -> str:
        optional = dict(self.optional)
        if self.is_guarded:
            optional["if_match"] = "str | None = None"
        if self.is_keyed:
            optional["idempotency_key"] = "str | None = None"
        optional.update(replaced)
        arguments = ["self", *(f"{name}: {kind}" for name, kind in self.required.items())]
        if optional:
            arguments += ["*", *(f"{name}: {kind}" for name, kind in optional.items())]
        return ", ".join(arguments)

    def call(self) -> str:
        """The statement that makes the request."""
        given = [repr(self.verb), repr(self.path)]
        if self.results:
            given.append(self.results[0])
        if self.places:
            given.append(f"places={_mapping({name: name for name in self.places})}")
        if self.query:
            given.append(f"query={_mapping(self.query)}")
        if self.has_body:
            given.append(f"body={_mapping(self.body)}")
        if self.is_keyed:
            given.append("key=idempotency_key or new_key()")
        if self.is_guarded:
            given.append("if_match=if_match")
        if not self.results:
            return f"await self._api.execute({', '.join(given)})"
        if len(self.results) == 2:
            given.insert(3, self.results[1])
            return f"return await self._api.preview_or_start({', '.join(given)})"
        return f"return await self._api.fetch({', '.join(given)})"


def _methods(types: _Types, resource: str) -> str:
    lines = [
        f"class Async{resource}:",
        f'    """{_RESOURCE_TEXTS[resource]}"""\n',
        "    def __init__(self, api: AsyncApi) -> None:",
        "        self._api = api\n",
    ]
    for name, (verb, path, operation) in operations(resource).items():
        method = _Method(types, verb, path, operation)
        lines += _method(_snake(name), method)
        lines += _pages(types, _snake(name), method)
    if resource == "Tasks":
        lines.append(_WAIT)
    return "\n".join(lines)


def _method(name: str, method: _Method) -> Iterator[str]:
    if len(method.results) == 2:
        preview, started = method.results
        for value, result in (("True", preview), ("False", started)):
            default = "" if value == "True" else " = False"
            flag = f"Literal[{value}]{default}"
            yield "    @overload"
            signature = method.signature(dry_run=flag)
            yield f"    async def {name}({signature}) -> {result}: ...\n"
        yield "    @overload"
        yield f"    async def {name}({method.signature()}) -> {' | '.join(method.results)}: ...\n"
    result = " | ".join(method.results) or "None"
    yield f"    async def {name}({method.signature()}) -> {result}:"
    summary = f"{method.operation['summary']}."
    texts = {**method.texts, "if_match": _IF_MATCH} if method.is_guarded else method.texts
    yield textwrap.indent(_doc(summary, texts), " " * 8)
    yield f"        {method.call()}\n"


def _pages(types: _Types, name: str, method: _Method) -> Iterator[str]:
    """``iterate`` for what comes in pages."""
    cursor = next((each for each in _PAGES if each in method.optional), None)
    if cursor is None or len(method.results) != 1:
        return
    fields = types.resolved({"$ref": SCHEMAS + method.results[0]})["properties"]
    following = next((each for each in ("next", "next_cursor") if each in fields), None)
    lists = [each for each, prop in fields.items() if prop.get("type") == "array"]
    if following is None or len(lists) != 1:
        return
    kind = types.type_of(fields[lists[0]]["items"])
    own = "iterate" + re.sub(r"^list|^browse$|^(?=[a-z])(?!list|browse)", _joined, name)
    signature = method.signature()
    given = list(method.required)
    given += [f"{name}={name}" for name in method.optional]
    page_kind = method.optional[cursor].partition(" = ")[0]
    yield f"    async def {own}({signature}) -> AsyncIterator[{kind}]:"
    yield '        """The same one by one; ``limit`` of them are fetched at a time."""'
    yield f"        page: {page_kind} = {cursor}"
    yield "        while True:"
    passed = ", ".join(each if each != f"{cursor}={cursor}" else f"{cursor}=page" for each in given)
    yield f"            found = await self.{name}({passed})"
    yield f"            for each in found.{lists[0]}:"
    yield "                yield each"
    yield f"            page = found.{following}"
    yield "            if page is None:"
    yield "                return\n"


def _joined(found: re.Match[str]) -> str:
    return "" if found[0] else "_"


def _results(types: _Types, operation: JsonObject) -> list[str]:
    found: dict[str, None] = {}
    for status, response in operation["responses"].items():
        content = response.get("content")
        if status.startswith("2") and content:
            kind = types.type_of(content["application/json"]["schema"])
            found[kind] = None
            if "etag" in response["headers"]:
                types.tagged.add(kind)
    return list(found)


def _names(fields: Iterable[str]) -> dict[str, str]:
    """What Python calls the fields of one object."""
    has_span = _SPAN.keys() <= set(fields)
    names = {field: _SPAN.get(field, field) if has_span else field for field in fields}
    assert not any(map(keyword.iskeyword, names.values())), names
    return names


def _mapping(names: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{field}": {name}' for field, name in names.items()) + "}"


def _typed_dict(head: str, fields: dict[str, str]) -> list[str]:
    return [f"{head}:", *(f"    {field}: {kind}" for field, kind in fields.items()), ""]


def _literal(value: object) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


def _is_mixed(schema: JsonObject) -> bool:
    return any("properties" not in part for part in schema.get("oneOf", ()))


def _doc(text: str, arguments: dict[str, str]) -> str:
    plain = _plain(text)
    if not plain:
        return ""
    lines = textwrap.wrap(plain, _WIDTH, break_on_hyphens=False)
    told = {name: _plain(words) for name, words in arguments.items() if words}
    if told:
        lines += ["", "Args:"]
        for name, words in told.items():
            lines += textwrap.wrap(
                f"{name}: {words}", _WIDTH, initial_indent="    ",
                subsequent_indent="        ", break_on_hyphens=False,
            )  # fmt: skip
    if len(lines) == 1:
        return f'"""{lines[0]}"""'
    return "\n".join(['"""' + lines[0], *lines[1:], '"""'])


def _plain(text: str) -> str:
    """The first paragraph in Python's words, on one line."""
    words = " ".join(text.split("\n\n")[0].split()).replace("\\", "\\\\")
    return re.sub(r"\bnull\b", "None", words)


_RESOURCE_TEXTS: Final = {
    "Topics": "Topics and their settings.",
    "Groups": "Consumer groups: settings, progress and members.",
    "DeadLetters": "Messages that groups could not process.",
    "Tasks": "Long operations, such as a redrive, and their progress.",
    "Messages": "Stored messages, read without affecting their delivery.",
    "Scheduled": "Messages that wait for their time.",
    "Schedules": "Messages that are sent at the times of a cron expression.",
    "Issues": "Dead letters by their cause.",
    "Keys": "API keys.",
    "Tickets": "Tickets that open WebSockets from web pages.",
}
_WAIT: Final = '''
    async def wait(self, task_id: str, *, timeout: Duration | None = None) -> TaskOut:
        """Wait until a task has ended, and return it; look at its ``state``.

        Args:
            timeout: for ever by default.

        Raises:
            TimeoutError: it still runs; that does not cancel it.
        """
        return await self._api.wait_for_task(task_id, timeout)
'''
