"""The one OpenAPI 3.1 document of the service: control plane and data plane.

    control_paths (framework's routes) ───┐
    delivery.operations ── delivery_paths ┼──▶ [openapi_document] ──▶ /v1/openapi.json, /docs
    service_paths ────────────────────────┘

Made once a process, from the code that serves; the same code makes the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec
from django.conf import settings

from mqservice.delivery.operations import OPERATIONS
from mqservice.lib.problem import CODES, CONTENT_TYPE, ProblemItem
from mqservice.reference import fields, service_paths
from mqservice.reference.control_paths import control_plane
from mqservice.reference.delivery_paths import operation_object
from mqservice.reference.parts import HEADERS, SCHEMAS, JsonObject, ref
from mqservice.reference.repeats import add_rates
from mqservice.reference.struct_schemas import StructSchemas, StructType

VERSION: Final = "1.0.0"
TAGS: Final = {
    "produce": "Store messages, one or many per request.",
    "consume": "Receive messages under a lease and settle them.",
    "read": "Read messages without affecting their delivery.",
    "schedule": "Scheduled messages: list, cancel, send now or reschedule.",
    "dead letters": "Messages that groups could not process.",
    "topics": "Topics and their settings.",
    "groups": "Consumer groups, their settings and their members.",
    "definitions": "All topics and groups of a namespace as one document.",
    "connections": "Open WebSockets and their owners.",
    "offsets": "Offsets and lag of groups, and how to change offsets.",
    "history": "Past lag, rates and offsets.",
    "tasks": "Long operations, such as redriving dead letters, and their progress.",
    "schedules": "Messages sent repeatedly, at the times of a cron expression.",
    "traces": "The path of a message.",
    "alerts": "Rules that watch groups and notify you.",
    "issues": "Failures by their cause: one issue for all dead letters with one reason.",
    "attention": "What is wrong now, the most urgent first.",
    "searches": "Searches for messages that a namespace shares under a name.",
    "masking": "Parts of messages that the console hides from users.",
    "sockets": "Tickets that open WebSockets from web pages.",
    "keys": "API keys for programs.",
    "people": "Namespaces, members and invitations of a tenant.",
    "audit": "Who changed what.",
    "quotas": "Limits of a tenant, and its current use.",
    "usage": "What a tenant has used, by hour or day.",
    "reports": "Nightly Spark reports about the day before.",
    "service": "Health, and the API's own description.",
}
_DESCRIPTION: Final = """\
A managed message queue with Apache RocketMQ's semantics: topics with queues, consumer groups with \
offsets, leases, delays, retries and dead letters.

* Send `Authorization: Bearer mqk_…` with each request.
* Paths name a namespace; with a key that is bound to one you can write `-` for it, and on the \
paths of messages, receive and settle also `/v1/-/…` instead of `/v1/ns/-/…`.
* A duration is a string such as `30s`, `15m` or `7d`, or milliseconds in the corresponding field \
that ends in `_ms`; pass one of the two. Times are RFC 3339.
* Each response has `x-request-id`, which identifies the request in the log.
* Errors are `application/problem+json`. Branch on `code`; `retryable` says whether the same \
request may succeed later, and `stored: false` that nothing of it will ever be delivered.
* Unknown JSON fields are rejected, with a pointer to each.
* `RateLimit-Policy` and `RateLimit` report what your tenant may use and what is left; a 429 has \
`Retry-After`.
* A W3C `traceparent` header of a produce is stored with its messages, as a property.
* A message with a `dedup_id`, and any `POST` that accepts an `Idempotency-Key`, can be sent \
again: it is executed once.
"""


@cache
def openapi_document() -> JsonObject:
    """The document. Do not change the result."""
    paths, schemas = control_plane()
    for operation in OPERATIONS:
        methods = paths.setdefault(operation.path, {})
        method = operation.method.lower()
        assert method not in methods, f"{method} {operation.path} is described twice"
        methods[method] = operation_object(operation)
    paths.update(service_paths.PATHS)
    structs = StructSchemas(SCHEMAS + "{name}")
    structs.add(_structs())
    for named in (structs.schemas(), service_paths.SCHEMAS, {"Problem": _problem()}):
        assert not schemas.keys() & named.keys(), sorted(schemas.keys() & named.keys())
        schemas.update(named)
    schemas["ProduceMessage"]["anyOf"] = _BODY_FORMS
    fields.describe(schemas)
    add_rates(paths)
    shared = _share_refusals(paths)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mqservice",
            "version": VERSION,
            "summary": "Messages over HTTP and WebSocket.",
            "description": _DESCRIPTION,
        },
        "servers": [{"url": settings.MQ_BASE_URL}],
        "security": [{"apiKey": []}],
        "tags": [{"name": name, "description": text} for name, text in _tags(paths).items()],
        "paths": {path: paths[path] for path in sorted(paths)},
        "components": {
            "schemas": {name: schemas[name] for name in sorted(schemas)},
            "responses": shared,
            "headers": HEADERS,
            "securitySchemes": {
                "apiKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "mqk_…",
                    "description": "An API key of the tenant, with the scopes it needs.",
                }
            },
        },
    }


@cache
def openapi_json() -> bytes:
    """The document as it is served."""
    return msgspec.json.encode(openapi_document())


def _structs() -> Iterator[StructType]:
    for operation in OPERATIONS:
        if operation.body is not None:
            yield operation.body.struct
        yield from (reply.struct for reply in operation.replies)
    yield ProblemItem


def _share_refusals(paths: JsonObject) -> JsonObject:
    """Errors that are the same for several operations, by name; each is then a reference."""
    shared: JsonObject = {}
    names: dict[bytes, str] = {}
    for path in sorted(paths):
        for operation in paths[path].values():
            responses = operation["responses"]
            for status, response in responses.items():
                if CONTENT_TYPE not in response.get("content", {}):
                    continue
                key = msgspec.json.encode(response)
                if key not in names:
                    place = sum(name.startswith(f"Refused{status}") for name in shared) + 1
                    names[key] = f"Refused{status}Form{place}"
                    shared[names[key]] = response
                responses[status] = {"$ref": f"#/components/responses/{names[key]}"}
    return {name: shared[name] for name in sorted(shared)}


def _tags(paths: JsonObject) -> dict[str, str]:
    """The tags in use, in the order of ``TAGS``; those nobody has described come last."""
    used = {
        tag
        for methods in paths.values()
        for operation in methods.values()
        for tag in operation["tags"]
    }
    known = {name: text for name, text in TAGS.items() if name in used}
    return known | {name: f"About {name}." for name in sorted(used - TAGS.keys())}


# Exactly one of the bodies; null is a value of ``body_json`` and none of the others.
_BODY_FORMS: Final = [
    {
        "required": [given],
        "properties": {given: {"type": "string"}, other: {"type": "null"}},
        "not": {"required": ["body_json"]},
    }
    for given, other in (("body", "body_b64"), ("body_b64", "body"))
] + [
    {
        "required": ["body_json"],
        "properties": {"body": {"type": "null"}, "body_b64": {"type": "null"}},
    }
]


def _problem() -> JsonObject:
    return {
        "type": "object",
        "title": "Problem",
        "description": "An error, as in RFC 9457. `type` leads to a page about the code.",
        "properties": {
            "type": {"type": "string", "pattern": "^/errors/[a-z-]+$"},
            "title": {"type": "string"},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "code": {"enum": sorted(CODES)},
            "detail": {"type": "string"},
            "instance": {"type": "string"},
            "request_id": {"type": "string"},
            "retryable": {"type": "boolean"},
            "retry_after_ms": {"type": ["integer", "null"]},
            "errors": {"type": "array", "items": ref("ProblemItem")},
            "stored": {"type": "boolean"},
        },
        "required": [
            "type", "title", "status", "code", "detail", "instance", "request_id", "retryable",
            "retry_after_ms", "errors",
        ],
        "example": {
            "type": "/errors/topic-not-found",
            "title": "Topic not found",
            "status": 404,
            "code": "TOPIC_NOT_FOUND",
            "detail": "orders does not exist in demo",
            "instance": "/v1/ns/demo/topics/orders",
            "request_id": "01M7YZZ1F61ZMDQA000000173B",
            "retryable": False,
            "retry_after_ms": None,
            "errors": [],
        },
    }  # fmt: skip
