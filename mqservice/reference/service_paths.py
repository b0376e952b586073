"""Paths outside of namespaces: health, the documents themselves, the WebSocket handshake.

Only the WebSocket needs a key.
"""

from __future__ import annotations

from typing import Final

from mqservice.monitoring.health import PartState
from mqservice.reference.parts import (
    REQUEST_ID,
    JsonObject,
    json_content,
    problems,
    query_parameter,
    ref,
    response_object,
)

SCHEMAS: Final[dict[str, JsonObject]] = {
    "Health": {
        "type": "object",
        "description": "`degraded` lists parts that do not work fully.",
        "properties": {
            "status": {"type": "string"},
            "degraded": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["status", "degraded"],
    },
    "Readiness": {
        "type": "object",
        "description": "Like `Health`, with the state of each part.",
        "properties": {
            "status": {"type": "string"},
            "parts": {
                "type": "object",
                "additionalProperties": {"enum": [state.value for state in PartState]},
            },
            "degraded": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["status", "parts", "degraded"],
    },
}

_PARTS: Final = {"database": "up", "engine": "up", "worker": "up", "beat": "up"}
_READY: Final = {"status": "ready", "parts": _PARTS, "degraded": []}
_SOCKET_CODES: Final = (
    "BAD_REQUEST", "UNAUTHENTICATED", "FORBIDDEN", "NAMESPACE_NOT_FOUND", "RATE_LIMITED",
    "DRAINING", "METADATA_UNAVAILABLE",
)  # fmt: skip


def _open(operation_id: str, summary: str, description: str, answers: JsonObject) -> JsonObject:
    return {
        "get": {
            "operationId": operation_id,
            "tags": ["service"],
            "summary": summary,
            "description": description,
            "security": [],
            "parameters": [REQUEST_ID],
            "responses": answers,
        }
    }


def _document(media_type: str, description: str) -> JsonObject:
    schema = {"type": "object"} if media_type == "application/json" else {"type": "string"}
    return {"200": response_object(description, {media_type: {"schema": schema}})}


PATHS: Final[JsonObject] = {
    "/healthz": _open(
        "readHealth",
        "Check that the process is up",
        "Responds as long as the process works, without waiting for anything.",
        {
            "200": response_object(
                "The process is up.", json_content(ref("Health"), {"status": "ok", "degraded": []})
            )
        },
    ),
    "/readyz": _open(
        "readReadiness",
        "Check that the service is ready",
        "200 if database and engine respond, else 503; in both cases the state of each part.",
        {
            "200": response_object("The service is ready.", json_content(ref("Readiness"), _READY)),
            "503": response_object(
                "The service is not ready.",
                json_content(
                    ref("Readiness"),
                    {**_READY, "status": "not_ready", "parts": {**_PARTS, "engine": "down"}},
                ),
            ),
        },
    ),
    "/v1/openapi.json": _open(
        "readOpenapi",
        "This document",
        "The HTTP part of the API as OpenAPI 3.1.",
        _document("application/json", "The document."),
    ),
    "/v1/asyncapi.json": _open(
        "readAsyncapi",
        "The WebSocket protocol",
        "The WebSocket part of the API as AsyncAPI 3.",
        _document("application/json", "The document."),
    ),
    "/llms.txt": _open(
        "readLlmsText",
        "The API in short, for language models",
        "What a program needs to know to write a client, as Markdown.",
        _document("text/markdown", "The text."),
    ),
    "/v1/ws": {
        "get": {
            "operationId": "openSocket",
            "tags": ["service"],
            "summary": "Open a WebSocket",
            "description": (
                "The handshake of the push protocol, which `/v1/asyncapi.json` describes. Offer "
                "`mq.v1.json` or `mq.v1.msgpack` as subprotocol. Errors before the upgrade are "
                "problem documents. A browser's `Origin` must be one that the service allows."
            ),
            "parameters": [
                query_parameter(
                    "ns",
                    "The namespace; required for a key that is not bound to one.",
                    {"type": "string"},
                ),
                REQUEST_ID,
            ],
            "responses": {
                "101": {"description": "The connection is a WebSocket now."},
                "404": {"description": "The request did not request an upgrade."},
                **problems(_SOCKET_CODES),
            },
        }
    },
}
