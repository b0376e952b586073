"""Pieces of an OpenAPI document that operations of both planes share.

A document is plain JSON: what is built here are dicts as they are sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mqservice.lib.durations import DURATION_PATTERN as DURATION_PATTERN
from mqservice.lib.names import NAME_PATTERN as NAME_PATTERN
from mqservice.lib.problem import CODES, CONTENT_TYPE, RETRYABLE_CODES
from mqservice.lib.timestamps import TIME_PATTERN as TIME_PATTERN

JsonObject = dict[str, Any]  # Any: JSON as it is sent

SCHEMAS: Final = "#/components/schemas/"
# What any request may meet, whatever it asks for.
COMMON_CODES: Final = (
    "UNAUTHENTICATED", "FORBIDDEN", "RATE_LIMITED", "INTERNAL", "METADATA_UNAVAILABLE",
    "ENGINE_UNAVAILABLE", "OUTCOME_UNKNOWN", "STORAGE_BUSY", "NOT_LEADER", "DRAINING",
)  # fmt: skip

_COST: Final = re.compile(
    r"\b(?:quer(?:y|ies)|calls? to the engine|one call|an audit entry|the framework|As ``)",
    re.IGNORECASE,
)
_CODE: Final = re.compile(r"`([^`]*)`")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")


def ref(name: str) -> JsonObject:
    """A reference to the schema ``name``."""
    return {"$ref": SCHEMAS + name}


def text_of(docstring: str | None) -> str:
    """A docstring as readers of the document see it: Markdown, without what a call costs us."""
    paragraphs = re.split(r"\n\s*\n", (docstring or "").strip())
    kept = []
    for paragraph in paragraphs:
        sentences = _SENTENCE.split(" ".join(paragraph.split()))
        told = " ".join(sentence for sentence in sentences if not _COST.search(sentence))
        if told:
            kept.append(told.replace("``", "`"))
    return "\n\n".join(kept)


def summary_of(text: str) -> str:
    """The first clause of a description."""
    return re.split(r"[.:;](?:\s|$)", text.strip(), maxsplit=1)[0]


def table_cell(text: str) -> str:
    """Markdown as a cell of a table: renderings disagree about bars within code."""
    barred = _CODE.sub(
        lambda code: (
            f"<code>{code[1].replace('|', '&#124;')}</code>" if "|" in code[1] else code[0]
        ),
        text.replace("\n", " "),
    )
    return barred.replace("|", "\\|")


def path_parameter(name: str, description: str, example: str) -> JsonObject:
    """A part of the path that is a name."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": NAME_PATTERN},
        "example": example,
    }


def opaque_parameter(name: str, description: str, example: str) -> JsonObject:
    """A part of the path that only the service can create."""
    schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-.0-9;-~]+$"}
    return {**path_parameter(name, description, example), "schema": schema}


def query_parameter(
    name: str, description: str, schema: JsonObject, *, is_required: bool = False
) -> JsonObject:
    """A parameter of the query."""
    return {
        "name": name,
        "in": "query",
        "required": is_required,
        "description": description,
        "schema": schema,
    }


def header_parameter(
    name: str, description: str, *, pattern: str = "", example: str = ""
) -> JsonObject:
    """A header of the request, which may be omitted."""
    built: JsonObject = {
        "name": name,
        "in": "header",
        "required": False,
        "description": description,
        "schema": {"type": "string", **({"pattern": pattern} if pattern else {})},
    }
    return {**built, "example": example} if example else built


PATH_PARAMETERS: Final[dict[str, JsonObject]] = {
    "ns": path_parameter(
        "ns", "The namespace; `-` stands for the one that the key is bound to.", "demo"
    ),
    "topic": path_parameter("topic", "Name of a topic.", "orders"),
    "group": path_parameter("group", "Name of a consumer group.", "billing"),
    "queue": {
        **path_parameter("queue", "Number of a queue of the topic, from 0.", "0"),
        "schema": {"type": "integer", "minimum": 0, "maximum": 255},
        "example": 0,
    },
    "message_id": opaque_parameter(
        "message_id", "Id of a message.", "01679C42FC1C5916ED0B1323B800019A0A"
    ),
    "recall_handle": opaque_parameter(
        "recall_handle",
        "The `recall_handle` of a scheduled message.",
        "rc_ARIAAAAAAAAAAESIwMUFDNkUz",
    ),
    "issue_id": opaque_parameter("issue_id", "Id of an issue.", "iss_5f0c3d9a1b2e4c6d7a8b9c0d"),
    "task_id": opaque_parameter("task_id", "Id of a task.", "task_01M7YZZ1F61ZMDQA"),
}

TIME_SCHEMA: Final = {"type": "string", "format": "date-time", "pattern": TIME_PATTERN}

_POLICY: Final = r'"[a-z-]+";q=[0-9]+(;qu="[a-z-]+")?;w=[0-9]+'
_STATE: Final = r'"[a-z-]+";r=[0-9]+;t=[0-9]+'
HEADERS: Final[JsonObject] = {
    "RequestId": {
        "description": "Identifies the request in the log: your own `x-request-id`, or a new one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$"},
    },
    "ETag": {
        "description": "Revision of the resource; send it as `If-Match` with a change.",
        "schema": {"type": "string", "pattern": '^"[0-9]{1,9}"$'},
    },
    "RetryAfter": {
        "description": "Seconds to wait before the same request can succeed.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "RateLimitPolicy": {
        "description": "The tenant's rates, as in the IETF draft ratelimit-headers: `q` may be "
        "used in `w` seconds, over all processes.",
        "schema": {"type": "string", "pattern": f"^{_POLICY}(, {_POLICY})*$"},
    },
    "RateLimit": {
        "description": "What is left now, `r`, and the seconds until it is full again, `t`. "
        "Omitted if unknown.",
        "schema": {"type": "string", "pattern": f"^{_STATE}(, {_STATE})*$"},
    },
    "IdempotencyReplayed": {
        "description": "`true` if this is the response of an earlier request with the same key.",
        "schema": {"const": "true"},
    },
    "Location": {"description": "Path of the new resource.", "schema": {"type": "string"}},
    "Authenticate": {
        "description": "How to authenticate.",
        "schema": {"type": "string"},
    },
}
IF_MATCH: Final = header_parameter(
    "If-Match",
    "Reject with 412 unless this is the current revision: an `ETag` of a response.",
    example='"7"',
)
REQUEST_ID: Final = header_parameter(
    "x-request-id", "Your own id, 8 to 64 of `A-Z a-z 0-9 _ -`; invalid ids are ignored."
)
IDEMPOTENCY_KEY: Final = header_parameter(
    "Idempotency-Key",
    "Your own key for this request, 1 to 128 visible ASCII characters. The same "
    "request sent again with it is executed once and gets the first response.",
    pattern="^[!-~]{1,128}$",
)


def header_refs(*names: str) -> JsonObject:
    """Headers of a response; ``x-request-id`` is always among them."""
    shown = {
        "ETag": "etag",
        "RetryAfter": "retry-after",
        "Location": "location",
        "Authenticate": "www-authenticate",
        "RateLimit": "ratelimit",
        "RateLimitPolicy": "ratelimit-policy",
        "IdempotencyReplayed": "idempotency-replayed",
    }
    return {
        "x-request-id": {"$ref": "#/components/headers/RequestId"},
        **{shown[name]: {"$ref": f"#/components/headers/{name}"} for name in names},
    }


def response_object(description: str, content: JsonObject | None, *headers: str) -> JsonObject:
    """One response; ``content`` is by media type, None for an empty body."""
    built: JsonObject = {"description": description, "headers": header_refs(*headers)}
    if content is not None:
        built["content"] = content
    return built


def json_content(schema: JsonObject, example: object | None = None) -> JsonObject:
    """A body in JSON."""
    media: JsonObject = {"schema": schema}
    if example is not None:
        media["example"] = example
    return {"application/json": media}


def problems(codes: Iterable[str]) -> JsonObject:
    """Responses for all error codes in ``codes``, by status as a string, in order."""
    by_status: dict[int, list[str]] = {}
    for code in sorted(set(codes)):
        by_status.setdefault(CODES[code][0], []).append(code)
    return {str(status): _problem(status, by_status[status]) for status in sorted(by_status)}


def codes_of_statuses(*statuses: int) -> tuple[str, ...]:
    """All codes that go with one of ``statuses``."""
    return tuple(code for code, (status, _) in CODES.items() if status in statuses)


def _problem(status: int, codes: list[str]) -> JsonObject:
    names = [f"`{code}`" for code in codes]
    headers = []
    if status == 401:
        headers.append("Authenticate")
    if RETRYABLE_CODES.intersection(codes):
        headers.append("RetryAfter")
    title = CODES[codes[0]][1] if len(codes) == 1 else "One of"
    return {
        "description": f"{title}: {', '.join(names)}",
        "headers": header_refs(*headers),
        "content": {
            CONTENT_TYPE: {
                "schema": {
                    "allOf": [
                        ref("Problem"),
                        {
                            "type": "object",
                            "properties": {
                                "status": {"const": status},
                                "code": {"enum": codes},
                            },
                        },
                    ]
                }
            }
        },
    }
