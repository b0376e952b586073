"""Requests and responses of the data plane's operations: produce, receive, settle.

Each one names its handler in ``delivery.plane.HANDLERS``; a test holds the two against each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from mqservice.accounts.scopes import Scope
from mqservice.delivery import plane
from mqservice.reference.parts import (
    COMMON_CODES,
    IDEMPOTENCY_KEY,
    PATH_PARAMETERS,
    REQUEST_ID,
    JsonObject,
    json_content,
    problems,
    query_parameter,
    ref,
    response_object,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one path. ``handler`` is its key in ``HANDLERS``, ``codes`` its error codes."""

    handler: str
    method: str
    path: str
    operation_id: str
    tag: str
    summary: str
    description: str
    scope: Scope
    codes: tuple[str, ...]
    answers: dict[str, JsonObject]
    parameters: list[JsonObject] = field(default_factory=list)
    body: JsonObject | None = None

    def document(self) -> JsonObject:
        """The operation object of the OpenAPI document."""
        names = [part.partition("}")[0] for part in self.path.split("{")[1:]]
        built: JsonObject = {
            "operationId": self.operation_id,
            "tags": [self.tag],
            "summary": self.summary,
            "description": f"{self.description}\n\nNeeds a key with the scope `{self.scope}`.",
            "parameters": [PATH_PARAMETERS[n] for n in names] + self.parameters + [REQUEST_ID],
            "responses": {**self.answers, **problems((*COMMON_CODES, *self.codes))},
        }
        if self.body is not None:
            built["requestBody"] = self.body
        return built


NAMESPACE: Final = "/v1/ns/{ns}"
TOPIC: Final = NAMESPACE + "/topics/{topic}"
GROUP: Final = NAMESPACE + "/groups/{group}"
# NOT_FOUND: of a path that, with a colon in a name, is none.
NAMESPACE_CODES: Final = ("NOT_FOUND", "NAMESPACE_NOT_FOUND", "BAD_REQUEST")
TOPIC_CODES: Final = (*NAMESPACE_CODES, "TOPIC_NOT_FOUND", "ILLEGAL_TOPIC")
GROUP_CODES: Final = (*NAMESPACE_CODES, "GROUP_NOT_FOUND", "ILLEGAL_GROUP")
BODY_CODES: Final = ("BODY_TOO_LARGE", "UNSUPPORTED_MEDIA_TYPE", "REQUEST_TIMEOUT")
_MESSAGE_CODES: Final = (
    "QUEUE_NOT_FOUND",
    "ILLEGAL_TAG", "ILLEGAL_KEY", "ILLEGAL_PROPERTY", "ILLEGAL_DELIVERY_TIME",
    "MESSAGE_TYPE_CONFLICT", "PROPERTIES_TOO_LARGE", "STORAGE_FULL", "QUOTA_EXCEEDED",
    "IDEMPOTENCY_IN_PROGRESS", "IDEMPOTENCY_KEY_REUSED", "CONFLICT",
)  # fmt: skip

_ID: Final = "01679C42FC1C5916ED0B1323B800019A0A"
_AT: Final = "2026-11-21T12:08:24.757Z"
_MESSAGE: Final = {
    "body_json": {"order": 42},
    "tag": "created",
    "keys": ["order-42"],
    "properties": {"source": "web"},
}
_STORED: Final = {
    "id": _ID, "topic": "orders", "queue": 0, "offset": 26146, "stored_at": _AT,
    "durability": "synced", "deliver_at": None, "recall_handle": None, "transaction_id": None,
    "duplicate": False,
}  # fmt: skip
_RESULT: Final = {
    "index": 0, "status": 201, "id": _ID, "queue": 0, "offset": 26146, "stored_at": _AT,
    "durability": "synced", "duplicate": False, "deliver_at": None, "recall_handle": None,
}  # fmt: skip
_REFUSED: Final = {
    "index": 1, "status": 503, "code": "STORAGE_BUSY", "detail": "too much waits for the disk",
    "retryable": True, "stored": False,
}  # fmt: skip
_RECEIVED: Final = {
    "id": _ID, "receipt": "AQAAAAIAAAAAAAAABQ", "tag": "created", "keys": ["order-42"],
    "message_group": None, "properties": {"source": "web"}, "queue": 2, "offset": 26146,
    "attempt": 1, "max_attempts": 17, "born_at": _AT, "stored_at": _AT,
    "lease_until": "2026-11-21T12:09:24.785Z", "body_json": {"order": 42},
}  # fmt: skip

_RAW_HEADERS: Final = [
    {
        "name": name,
        "in": "header",
        "required": False,
        "description": f"For raw messages: {text}",
        "schema": schema,
    }
    for name, text, schema in (
        ("mq-tag", "its tag.", {"type": "string"}),
        ("mq-keys", "its keys, separated by commas.", {"type": "string"}),
        ("mq-message-group", "its message group.", {"type": "string"}),
        ("mq-queue", "the queue it goes to.", {"type": "string"}),
        ("mq-delay", "how long to wait first, such as `30s`.", {"type": "string"}),
        ("mq-delay-level", "RocketMQ's delay level.", {"type": "string"}),
        ("mq-deliver-at", "when to deliver it, RFC 3339.", {"type": "string"}),
        ("mq-dedup-id", "a key under which it is stored once.", {"type": "string"}),
    )
]
_BYTES: Final = {"schema": {"type": "string", "format": "binary", "minLength": 1}}

OPERATIONS: Final = [
    Operation(
        handler=plane.MESSAGES,
        method="POST",
        path=TOPIC + "/messages",
        operation_id="produceMessage",
        tag="produce",
        summary="Produce one message",
        description=(
            "Stores a message and responds when it is as durable as the topic promises. In JSON it "
            "has exactly one of `body`, `body_json` and `body_b64`, and at most one of `delay`, "
            "`delay_ms`, `delay_level` and `deliver_at`. With any other content type the body of "
            "the request is the body of the message, and the rest is in headers `mq-…`, each "
            "property as `mq-prop-NAME`."
        ),
        scope=Scope.PRODUCE,
        parameters=[IDEMPOTENCY_KEY, *_RAW_HEADERS],
        body={
            "required": True,
            "content": {
                **json_content(ref("ProduceMessage"), _MESSAGE),
                "application/octet-stream": _BYTES,
                "text/plain": _BYTES,
            },
        },
        answers={
            "200": response_object(
                "It was already stored by an earlier request with the same key.",
                json_content(ref("StoredResponse"), {**_STORED, "duplicate": True}),
            ),
            "201": response_object(
                "The message is stored.", json_content(ref("StoredResponse"), _STORED)
            ),
        },
        codes=(*TOPIC_CODES, *BODY_CODES, *_MESSAGE_CODES),
    ),
    Operation(
        handler=plane.MESSAGES_BATCH,
        method="POST",
        path=TOPIC + "/messages:batch",
        operation_id="produceBatch",
        tag="produce",
        summary="Produce up to 1,000 messages",
        description=(
            "A JSON array, or one object per line as NDJSON; 4 MiB of bodies at most. Results are "
            "in the order of the request. A batch with a malformed message is rejected as a whole, "
            "with a pointer to each fault, and nothing of it is stored."
        ),
        scope=Scope.PRODUCE,
        parameters=[IDEMPOTENCY_KEY],
        body={
            "required": True,
            "content": {
                **json_content(
                    {
                        "type": "array",
                        "items": ref("ProduceMessage"),
                        "minItems": 1,
                        "maxItems": 1_000,
                    },
                    [{"body": "a"}, {"body_b64": "/wA="}],
                ),
                "application/x-ndjson": {
                    "schema": {"type": "string", "minLength": 1},
                    "example": '{"body": "a"}\n{"body": "b"}\n',
                },
            },
        },
        answers={
            "200": response_object(
                "All were already stored by an earlier request with the same keys.",
                json_content(
                    ref("BatchResponse"),
                    {"results": [{**_RESULT, "status": 200, "duplicate": True}]},
                ),
            ),
            "201": response_object(
                "All are stored.", json_content(ref("BatchResponse"), {"results": [_RESULT]})
            ),
            "207": response_object(
                "Some are stored; each result says whether its message is.",
                json_content(ref("BatchResponse"), {"results": [_RESULT, _REFUSED]}),
            ),
        },
        codes=(*TOPIC_CODES, *BODY_CODES, *_MESSAGE_CODES),
    ),
    Operation(
        handler=plane.RECEIVE,
        method="POST",
        path=TOPIC + "/groups/{group}:receive",
        operation_id="receiveMessages",
        tag="consume",
        summary="Receive messages under a lease",
        description=(
            "Waits until there is a message for the group, at most for `wait`, and leases the "
            "available messages. The response is 200 with an empty list if there are none. An "
            "empty body means all defaults. With `settle` it first settles messages received "
            "before, even if the receive itself is then rejected. With "
            "`Accept: application/msgpack` the response is MessagePack, and bodies are bytes."
        ),
        scope=Scope.CONSUME,
        body={
            "required": False,
            "content": json_content(
                ref("ReceiveOptions"), {"max": 64, "wait": "5s", "lease": "60s"}
            ),
        },
        answers={
            "200": response_object(
                "The leased messages; the list may be empty.",
                json_content(
                    ref("ReceiveResponse"), {"messages": [_RECEIVED], "backlog_hint": None}
                ),
            )
        },
        codes=(
            *TOPIC_CODES, *GROUP_CODES, *BODY_CODES, "ILLEGAL_FILTER", "ILLEGAL_LEASE",
            "SUBSCRIPTION_CONFLICT", "QUOTA_EXCEEDED", "INFLIGHT_LIMIT", "CONFLICT",
        ),
    ),
    Operation(
        handler=plane.SETTLE,
        method="POST",
        path=GROUP + ":settle",
        operation_id="settleMessages",
        tag="consume",
        summary="Acknowledge, nack, extend or dead-letter messages",
        description=(
            "Up to 1,000 receipts of a group in one request. The response is always 200: receipts "
            "without effect are in `failed`. Without receipts, and with a `consumer_id`, it is a "
            "heartbeat."
        ),
        scope=Scope.CONSUME,
        body={
            "required": True,
            "content": json_content(
                ref("SettleOptions"),
                {
                    "ack": ["AQAAAAIAAAAAAAAABQ"],
                    "nack": [{"receipt": "AQAAAAIAAAAAAAAABg", "delay": "30s"}],
                },
            ),
        },
        answers={
            "200": response_object(
                "The results, with the receipts that failed.",
                json_content(
                    ref("SettleResponse"),
                    {"acked": 1, "nacked": 1, "extended": [], "dead_lettered": 0, "failed": []},
                ),
            )
        },
        # With a colon in its name the path is that of a group, which takes no POST.
        codes=(
            *GROUP_CODES, *BODY_CODES, "ILLEGAL_LEASE", "CONFLICT", "STORAGE_FULL",
            "METHOD_NOT_ALLOWED",
        ),
    ),
]  # fmt: skip


def cursor_parameter() -> JsonObject:
    return query_parameter(
        "cursor",
        "`next_cursor` of the previous page, with all other parameters except `limit` unchanged.",
        {"type": "string", "minLength": 1},
    )
