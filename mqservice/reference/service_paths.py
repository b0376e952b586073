"""Paths outside of namespaces: health, the documents themselves, the WebSocket handshake.

They ask for no key, but the WebSocket.
"""

from __future__ import annotations

from typing import Final

from mqservice.monitoring.health import PartState
from mqservice.reference.parts import (
    REQUEST_ID,
    JsonObject,
    answer,
    json_content,
    problems,
    query_parameter,
    ref,
)

SCHEMAS: Final[dict[str, JsonObject]] = {
    "Health": {
        "type": "object",
        "description": "`degraded` names what works less well than it should.",
        "properties": {
            "status": {"type": "string"},
            "degraded": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["status", "degraded"],
    },
    "Readiness": {
        "type": "object",
        "description": "As `Health`, with the state of each part.",
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
    return {"200": answer(description, {media_type: {"schema": schema}})}


PATHS: Final[JsonObject] = {
    "/healthz": _open(
        "readHealth",
        "Is the process up",
        "Answers as long as the process does; waits for nobody.",
        {"200": answer("It is up.", json_content(ref("Health"), {"status": "ok", "degraded": []}))},
    ),
    "/readyz": _open(
        "readReadiness",
        "Can the service do its work",
        "200 when database and engine answer, else 503; either way the state of each part.",
        {
            "200": answer("It can.", json_content(ref("Readiness"), _READY)),
            "503": answer(
                "It cannot.",
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
        "What a program that writes clients has to know, as Markdown.",
        _document("text/markdown", "The text."),
    ),
    "/v1/ws": {
        "get": {
            "operationId": "openSocket",
            "tags": ["service"],
            "summary": "Open a WebSocket",
            "description": (
                "The handshake of the push protocol, which `/v1/asyncapi.json` describes. Offer "
                "`mq.v1.json` or `mq.v1.msgpack` as subprotocol. What is wrong before the upgrade "
                "is answered by a problem document. A browser's `Origin` must be one that the "
                "service allows."
            ),
            "parameters": [
                query_parameter(
                    "ns",
                    "The namespace; needed by a key that is bound to none.",
                    {"type": "string"},
                ),
                REQUEST_ID,
            ],
            "responses": {
                "101": {"description": "The connection is a WebSocket now."},
                "404": {"description": "The request asked for no upgrade."},
                **problems(_SOCKET_CODES),
            },
        }
    },
}
