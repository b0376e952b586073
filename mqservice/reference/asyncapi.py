"""The WebSocket protocol as an AsyncAPI 3 document, built from the structs that the sockets use.

    frames.COMMANDS ─┐
    frames.PUSHES ───┴─▶ payloads ──▶ messages ──▶ /v1/asyncapi.json

Each message has one payload: the JSON form or the MessagePack form, which is shown as the array
that it decodes to. The document describes the service's side: it receives commands.
"""

from __future__ import annotations

import typing
from functools import cache
from typing import Final

import msgspec
from django.conf import settings

from mqservice.protocol import frames
from mqservice.protocol.frames import Subprotocol
from mqservice.protocol.limits import FRAME_BYTES_MAX, FRAME_COMMANDS_MAX, PING_MS, PONG_MS
from mqservice.reference.openapi import VERSION
from mqservice.reference.parts import SCHEMAS, JsonObject, text_of
from mqservice.reference.struct_schemas import StructSchemas, StructType

JSON: Final = Subprotocol.JSON.value
MSGPACK: Final = Subprotocol.MSGPACK.value
_COMMANDS: Final = {frame.op: frame for frame in frames.COMMANDS}
_PUSHES: Final = {frame.op: frame for frame in frames.PUSHES}
_RESULTS: Final = (frames.Settled, frames.Subscribed, frames.Unsubscribed)

_TEXTS: Final = {
    "hello": "The first command, within 10 s: identifies the client and the session to resume.",
    "pub": "Produce a batch; `r` of the reply has a result for each message.",
    "sub": "Subscribe a group to a topic under a number of your choice, with the first credit.",
    "credit": "Add to the messages and bytes that may be pushed.",
    "ack": "Acknowledge messages.",
    "nack": "Return messages, to be redelivered.",
    "extend": "Extend leases.",
    "dlq": "Move messages to the group's dead letters.",
    "unsub": "End a subscription.",
    "ping": "Check the connection. In JSON `{}` from the service.",
    "pong": "Reply to a ping; in JSON `{}` from the client.",
    "welcome": "Reply to `hello`, with the limits of the connection.",
    "msgs": "Messages leased to the client from now on.",
    "lost": "These messages are no longer the client's.",
    "flow": "Why a subscription receives nothing, or that it can again.",
    "ok": "A command was executed; `r` depends on the command.",
    "err": "A command was rejected, or, without an id, a subscription has ended.",
    "goaway": "The service is about to close; settle, and reconnect after `retry_ms`.",
}
_EXAMPLES: Final[dict[str, JsonObject]] = {
    "hello": {"op": "hello", "id": 1, "client": "docs/1.0"},
    "pub": {"op": "pub", "id": 2, "topic": "orders", "m": [{"body": "hello"}]},
    "sub": {
        "op": "sub", "id": 3, "sid": 1, "topic": "orders", "group": "billing",
        "credit": {"msgs": 100, "bytes": 1_048_576},
    },
    "credit": {"op": "credit", "sid": 1, "msgs": 50, "bytes": 524_288},
    "ack": {"op": "ack", "id": 4, "sid": 1, "t": [17, 18]},
    "nack": {"op": "nack", "id": 5, "sid": 1, "t": [[19, 30_000, "db down"]]},
    "extend": {"op": "extend", "sid": 1, "t": [20], "ms": 60_000},
    "dlq": {"op": "dlq", "sid": 1, "t": [[21, "bad schema"]]},
    "unsub": {"op": "unsub", "id": 7, "sid": 1, "drain": True},
    "lost": {"op": "lost", "sid": 1, "t": [17], "why": "lease_expired", "generation": None},
    "flow": {"op": "flow", "sid": 1, "state": "credit"},
    "ok": {"op": "ok", "id": 4, "r": {"failed": [], "acked": 2}},
    "err": {
        "op": "err", "id": 4, "code": "BAD_REQUEST", "retryable": False, "msg": "Expected `int`",
    },
    "goaway": {"op": "goaway", "why": "drain", "grace_ms": 2_000, "retry_ms": 500},
}  # fmt: skip
# In JSON these two are empty objects: a ping of the service, a pong of the client.
_EMPTY: Final[JsonObject] = {"type": "object", "maxProperties": 0}

_HANDSHAKE: Final[JsonObject] = {
    "method": "GET",
    "query": {
        "type": "object",
        "properties": {
            "ns": {
                "type": "string",
                "description": "Required for a key that is not bound to one.",
            }
        },
    },
    "headers": {
        "type": "object",
        "properties": {
            "Authorization": {"type": "string"},
            "Sec-WebSocket-Protocol": {
                "type": "string",
                "description": f"`{JSON}` or `{MSGPACK}`; pages add "
                "`ticket.` with a ticket of `POST /v1/ws-tickets`.",
                "examples": [
                    JSON,
                    f"{JSON}, ticket.mqt_…",
                ],
            },
        },
    },
}
_SECURITY_SCHEMES: Final[JsonObject] = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "An API key of the tenant, in the handshake.",
    },
    "ticket": {
        "type": "httpApiKey",
        "name": "Sec-WebSocket-Protocol",
        "in": "header",
        "description": "`ticket.` and a ticket of `POST /v1/ws-tickets`, as one of the "
        "subprotocols offered: for pages, which cannot send a key. It opens one "
        "socket, within 30 s, from the origin that requested it.",
    },
}


@cache
def asyncapi_document() -> JsonObject:
    """The document. Do not change the result."""
    structs = StructSchemas(SCHEMAS + "{name}")
    for frame in (*frames.COMMANDS, *frames.PUSHES):
        structs.add((frame.json, frame.pack))
    structs.add(_RESULTS)
    schemas = structs.schemas()
    schemas["JsonPing"] = {"anyOf": [schemas["JsonPing"], _EMPTY]}
    schemas["JsonPong"] = {"anyOf": [schemas["JsonPong"], _EMPTY]}
    messages: JsonObject = {}
    for op, frame in {**_COMMANDS, **_PUSHES}.items():
        messages[f"{op}.json"] = _message(frame, "json", frame.json)
        messages[f"{op}.msgpack"] = _message(frame, "msgpack", frame.pack)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "mqservice WebSocket",
            "version": VERSION,
            "description": _description(),
        },
        "defaultContentType": "application/json",
        "servers": {"service": _server()},
        "channels": {
            "socket": {
                "address": "/v1/ws",
                "title": "One connection: many subscriptions, and producing",
                "servers": [{"$ref": "#/servers/service"}],
                "messages": {
                    name: {"$ref": f"#/components/messages/{name}"} for name in sorted(messages)
                },
                "bindings": {"ws": _HANDSHAKE},
            }
        },
        "operations": {
            **{f"take.{op}": _operation("receive", op) for op in _COMMANDS},
            **{f"push.{op}": _operation("send", op) for op in _PUSHES},
        },
        "components": {
            "messages": messages,
            "schemas": {name: schemas[name] for name in sorted(schemas)},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


@cache
def asyncapi_json() -> bytes:
    """The document as it is served."""
    return msgspec.json.encode(asyncapi_document())


def _server() -> JsonObject:
    scheme, _, host = settings.MQ_BASE_URL.partition("://")
    return {
        "host": host,
        "protocol": "wss" if scheme == "https" else "ws",
        "security": [
            {"$ref": "#/components/securitySchemes/apiKey"},
            {"$ref": "#/components/securitySchemes/ticket"},
        ],
    }


def _message(frame: frames.Frame, protocol: str, struct: StructType) -> JsonObject:
    op = frame.op
    detail = text_of(frame.fields.__doc__)
    built: JsonObject = {
        "name": op,
        "title": f"{op} ({'JSON' if protocol == 'json' else 'MessagePack'})",
        "summary": _TEXTS[op],
        "contentType": f"application/{protocol}",
        "payload": {"$ref": SCHEMAS + struct.__name__},
    }
    if detail:
        built["description"] = detail
    if protocol == "json" and op in _EXAMPLES:
        built["examples"] = [{"payload": _EXAMPLES[op]}]
    return built


def _operation(action: str, op: str) -> JsonObject:
    names = [f"{op}.json", f"{op}.msgpack"]
    built: JsonObject = {
        "action": action,
        "channel": {"$ref": "#/channels/socket"},
        "summary": _TEXTS[op],
        "messages": [{"$ref": f"#/channels/socket/messages/{name}"} for name in names],
    }
    command = _COMMANDS.get(op)
    if action == "receive" and command is not None and _has_id(command.fields):
        answers = ("welcome", "err") if op == "hello" else ("ok", "err")
        built["reply"] = {
            "channel": {"$ref": "#/channels/socket"},
            "messages": [
                {"$ref": f"#/channels/socket/messages/{each}.{protocol}"}
                for each in answers
                for protocol in ("json", "msgpack")
            ],
        }
    return built


def _has_id(struct: StructType) -> bool:
    return "id" in typing.get_type_hints(struct)


def _description() -> str:
    return (
        "Messages are pushed as long as the client has credit, and settled on the same "
        f"connection. Two subprotocols: `{JSON}`, one JSON object per frame or several "
        f"joined by newlines; `{MSGPACK}`, one array `[op, …]` per frame or an array of such "
        "arrays. A command with an `id` gets one `ok` or `err` with that id; frames without one "
        f"are pushes. A frame has at most {FRAME_BYTES_MAX} bytes and {FRAME_COMMANDS_MAX} "
        "commands. The service pings after "
        f"{PING_MS} ms of silence and waits {PONG_MS} ms for a reply.\n\n"
        "Close codes: 4400 an invalid frame, 4401 and 4403 the key, 4404 the path, 4408 the client "
        "did not reply or did not read, 4409 resumed elsewhere, 4410 closed by an administrator, "
        "4413 a frame that is too large, 4429 too many sockets, 1008 too much without effect, 1012 "
        "and 1013 restart and try later. After 1008, 4400, 4401, 4403, 4404 and 4413 do not "
        "reconnect; else reconnect with growing delays."
    )
