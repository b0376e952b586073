"""The control plane's part of the document: what the framework knows of its routes, and the rest.

    api.get_openapi_schema() ──▶ paths, schemas ──▶ texts, errors, headers, scopes ──▶ paths

Nothing here names a route, but examples: a new one is described as soon as it is there. Which
headers a view reads and sets, and which scope it asks for, is found in its own code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final

from mqservice.accounts.scopes import Scope
from mqservice.alerts.prometheus import RULES_TYPE
from mqservice.api import api
from mqservice.reference import settings_bodies
from mqservice.reference.examples import REQUESTS
from mqservice.reference.parts import (
    COMMON_CODES,
    IF_MATCH,
    PATH_PARAMETERS,
    REQUEST_ID,
    JsonObject,
    codes_of_statuses,
    header_refs,
    path_parameter,
    problems,
    summary_of,
    text_of,
)
from mqservice.reference.repeats import add_idempotency_key
from mqservice.sampling.metrics import METRICS_TYPE

PREFIX: Final = "/v1/"
_KEYED: Final = "/v1/ns/"  # whose POSTs take an Idempotency-Key
View = Callable[..., Any]  # Any: views answer what they like

_NOT_FOUND: Final = {
    "ns": "NAMESPACE_NOT_FOUND",
    "topic": "TOPIC_NOT_FOUND",
    "group": "GROUP_NOT_FOUND",
    "task_id": "TASK_NOT_FOUND",
    "issue_id": "ISSUE_NOT_FOUND",
    "message_id": "MESSAGE_NOT_FOUND",
}
_READS: Final = (400, 404)
_WRITES: Final = (400, 404, 409, 413, 422, 507)
# By the name that a view has for the type of an answer which is no JSON: it, and what it holds.
_MEDIA_TYPES: Final = {
    "RULES_TYPE": (RULES_TYPE, "object"),
    "METRICS_TYPE": (METRICS_TYPE.partition(";")[0], "string"),
}
_CREATING: Final = {"put_topic", "put_group", "import_definitions"}  # rejected beyond a quota
_STATUS_TEXTS: Final = {
    "200": "Done.",
    "201": "Created.",
    "202": "Started; the task reports its progress.",
    "204": "Done.",
}


def control_plane() -> tuple[JsonObject, dict[str, JsonObject]]:
    """Paths and schemas of all routes of the control plane."""
    found: JsonObject = api.get_openapi_schema(path_prefix=PREFIX)
    schemas: dict[str, JsonObject] = found["components"]["schemas"]
    for (name, field), shown in settings_bodies.FIELDS.items():
        schemas[name]["properties"][field] = shown
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = text_of(schema["description"])
    schemas.update(settings_bodies.SCHEMAS)
    views = {identity: (view, is_open) for identity, view, is_open in _views()}
    for path, methods in found["paths"].items():
        for method, document in methods.items():
            view, is_open = views[document["operationId"]]
            _complete(document, path, method.upper(), view)
            if is_open:
                document["security"] = []
    return found["paths"], schemas


def _views() -> Iterator[tuple[str, View, bool]]:
    """Each view of the control plane: operationId, code, and whether it asks for no key."""
    for _, router in api._routers:
        for path_view in router.path_operations.values():
            for operation in path_view.operations:
                identity = operation.operation_id or api.get_openapi_operation_id(operation)
                yield identity, operation.view_func, operation.auth_param is None


def _complete(document: JsonObject, path: str, method: str, view: View) -> None:
    words = _words_of(view)
    text = text_of(inspect.getdoc(view))
    document["summary"] = summary_of(text)
    scopes = sorted(scope.value for name, scope in Scope.__members__.items() if name in words)
    if scopes:
        text += "\n\nNeeds a key with the scope " + " and ".join(f"`{each}`" for each in scopes)
        text += "."
    document["description"] = text
    has_revision = "If-Match" in words
    parameters = [_parameter(each) for each in document.get("parameters", [])]
    document["parameters"] = [*parameters, *([IF_MATCH] if has_revision else []), REQUEST_ID]
    identity = document["operationId"]
    if identity in settings_bodies.BODIES:
        document["requestBody"] = settings_bodies.BODIES[identity]
    elif identity in REQUESTS:
        document["requestBody"]["content"]["application/json"]["example"] = REQUESTS[identity]
    headers = [name for name in ("ETag", "Location") if name in words]
    answers = {}
    for number, response in document["responses"].items():
        status = str(number)
        shown = [name for name in headers if name == "ETag" or status in ("201", "202")]
        response["description"] = _STATUS_TEXTS.get(status, response["description"])
        response["headers"] = header_refs(*shown)
        answers[status] = response
    codes = {*COMMON_CODES, *_codes(path, method, has_body="requestBody" in document)}
    if has_revision:
        codes.add("PRECONDITION_FAILED")
    if words & _CREATING:
        codes.add("QUOTA_EXCEEDED")
    for name, (media_type, kind) in _MEDIA_TYPES.items():
        if name in words:
            answers["200"]["content"] = {media_type: {"schema": {"type": kind}}}
    if "YAML_TYPES" in words:
        answers["200"]["content"]["application/yaml"] = {"schema": {"type": "object"}}
    if "CSV_TYPE" in words:
        answers["200"]["content"]["text/csv"] = {"schema": {"type": "string"}}
        codes.add("NOT_ACCEPTABLE")
    document["responses"] = {**answers, **problems(codes)}
    if method == "POST" and path.startswith(_KEYED):
        add_idempotency_key(document)


def _codes(path: str, method: str, *, has_body: bool) -> set[str]:
    """Every code that goes with what such a route can meet."""
    codes = set(codes_of_statuses(*(_READS if method == "GET" else _WRITES)))
    names = {part.partition("}")[0] for part in path.split("{")[1:]}
    if not has_body and names <= _NOT_FOUND.keys():
        absent = set(codes_of_statuses(404)) - {_NOT_FOUND[name] for name in names}
        # A parameter of the query may name a topic or a group too, and a page a task.
        codes -= absent - {"NOT_FOUND", "TOPIC_NOT_FOUND", "GROUP_NOT_FOUND", "TASK_NOT_FOUND"}
    if path.endswith("/ws-tickets"):
        codes.add("TICKETS_UNAVAILABLE")
    if "/connections" in path:
        codes.add("CONNECTIONS_UNKNOWN")
    if "/reports" in path:
        codes.add("REPORT_NOT_FOUND")
    if path.endswith(("{topic}:purge", ":seek")):
        codes.add("REPLICATION_UNAVAILABLE")
    if path.endswith("/schema"):
        codes.add("SCHEMA_NOT_FOUND")
    if path.endswith("/issues") and method == "GET":  # a page begins at an issue
        codes.add("ISSUE_NOT_FOUND")
    return codes


def _parameter(parameter: JsonObject) -> JsonObject:
    name = parameter["name"]
    if parameter["in"] == "path":
        text = f"Id of the {name[:-3]}." if name.endswith("_id") else f"The {name}."
        return PATH_PARAMETERS.get(name) or path_parameter(name, text, name)
    schema = parameter["schema"]
    schema.pop("title", None)
    described = {"description": _PARAMETER_TEXTS[name], **parameter} if (
        name in _PARAMETER_TEXTS
    ) else parameter  # fmt: skip
    return {**described, "schema": schema}


_PARAMETER_TEXTS: Final = {
    "action": "Only this kind of change, such as `topic.put`.",
    "by": "What a row covers: the whole tenant, a namespace, or a topic.",
    "actor": "Only changes by this actor, such as `key:…` or `user:alice`.",
    "after": "Start after this one: `next` of the previous page.",
    "before": "Start before this one: `next` of the previous page.",
    "client_id": "Only this client of a broadcast group.",
    "contains": "Only names that contain this string, in any case.",
    "cursor": "`next_cursor` of the previous page.",
    "date": "The day; by default the newest.",
    "dry_run": "`true`: only show what would be done.",
    "from": "Start of the range, RFC 3339.",
    "group": "Only this group.",
    "health": "Only groups that are doing like this.",
    "limit": "Maximum number of results.",
    "namespace": "Only this namespace.",
    "per": "Time span of a row; days are in UTC.",
    "prefix": "Only names that start with this string.",
    "queue": "Number of the queue.",
    "state": "Only those in this state.",
    "target": "Only changes of this resource, by its name.",
    "to": "End of the range, RFC 3339; now by default.",
    "topic": "Only this topic.",
}


def _words_of(view: View) -> set[str]:
    """Texts and names in the code of a view, and of the helpers of its module that it calls."""
    module = inspect.getmodule(view)
    words = _words_in(inspect.unwrap(view).__code__)
    for name in tuple(words):
        helper = getattr(module, name, None) if name.startswith("_") else None
        if inspect.isfunction(helper):
            words |= _words_in(helper.__code__)
    return words


def _words_in(code: CodeType) -> set[str]:
    return {each for each in (*code.co_consts, *code.co_names) if isinstance(each, str)}
