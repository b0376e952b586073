"""All operations of the data plane: what produces, receives and settles. Others: ``reading``.

``plane`` serves what is listed in ``OPERATIONS`` and nothing else; ``reference`` describes it.
"""

from __future__ import annotations

from typing import Final

from mqservice.accounts.scopes import Scope
from mqservice.delivery.limits import BATCH_COUNT_MAX
from mqservice.delivery.operation import (
    GROUP,
    MESSAGE_ID,
    STORED_AT,
    TOPIC,
    Body,
    BodyHandler,
    Operation,
    Reply,
)
from mqservice.delivery.produce.produce import (
    begin_batch,
    begin_produce,
    produce_batch,
    produce_one,
)
from mqservice.delivery.produce.produce_responses import BatchResponse, StoredResponse
from mqservice.delivery.reading import browse, copy, dead_letters, pull, scheduled, search
from mqservice.delivery.receive.receive import (
    ReceiveOptions,
    ReceiveResponse,
    begin_receive,
    receive_messages,
)
from mqservice.delivery.settle.settle import SettleOptions, begin_settle, settle_messages
from mqservice.delivery.settle.settle_plan import SettleResponse
from mqservice.protocol.messages import ProduceMessage

_MESSAGE_CODES: Final = (
    "QUEUE_NOT_FOUND",
    "ILLEGAL_TAG", "ILLEGAL_KEY", "ILLEGAL_PROPERTY", "ILLEGAL_DELIVERY_TIME",
    "MESSAGE_TYPE_CONFLICT", "PROPERTIES_TOO_LARGE", "STORAGE_FULL", "QUOTA_EXCEEDED",
    "REPLICATION_UNAVAILABLE",
    "IDEMPOTENCY_IN_PROGRESS", "IDEMPOTENCY_KEY_REUSED", "CONFLICT",
)  # fmt: skip
_MESSAGE: Final = {
    "body_json": {"order": 42},
    "tag": "created",
    "keys": ["order-42"],
    "properties": {"source": "web"},
}
_STORED: Final = {
    "id": MESSAGE_ID, "topic": "orders", "queue": 0, "offset": 26146, "stored_at": STORED_AT,
    "durability": "synced", "deliver_at": None, "recall_handle": None, "duplicate": False,
}  # fmt: skip
_RESULT: Final = {
    "index": 0, "status": 201, "id": MESSAGE_ID, "queue": 0, "offset": 26146,
    "stored_at": STORED_AT, "durability": "synced", "duplicate": False, "deliver_at": None,
    "recall_handle": None,
}  # fmt: skip
_REFUSED: Final = {
    "index": 1, "status": 503, "code": "STORAGE_BUSY", "detail": "too much waits for the disk",
    "retryable": True, "stored": False,
}  # fmt: skip
_RECEIVED: Final = {
    "id": MESSAGE_ID, "receipt": "AQAAAAIAAAAAAAAABQ", "tag": "created", "keys": ["order-42"],
    "message_group": None, "properties": {"source": "web"}, "queue": 2, "offset": 26146,
    "attempt": 1, "max_attempts": 17, "born_at": STORED_AT, "stored_at": STORED_AT,
    "lease_until": "2026-11-21T12:09:24.785Z", "body_json": {"order": 42},
}  # fmt: skip
_BYTES: Final = {"schema": {"type": "string", "format": "binary", "minLength": 1}}

PRODUCE: Final = Operation(
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
    handler=BodyHandler(begin_produce, produce_one),
    takes_idempotency_key=True,
    headers={
        "mq-tag": "For raw messages: its tag.",
        "mq-keys": "For raw messages: its keys, separated by commas.",
        "mq-message-group": "For raw messages: its message group.",
        "mq-queue": "For raw messages: the queue it goes to.",
        "mq-delay": "For raw messages: how long to wait first, such as `30s`.",
        "mq-delay-level": "For raw messages: RocketMQ's delay level.",
        "mq-deliver-at": "For raw messages: when to deliver it, RFC 3339.",
        "mq-dedup-id": "For raw messages: a key under which it is stored once.",
    },
    body=Body(
        ProduceMessage,
        _MESSAGE,
        other_types={"application/octet-stream": _BYTES, "text/plain": _BYTES},
    ),
    replies=(
        Reply(
            "It was already stored by an earlier request with the same key.",
            StoredResponse,
            {**_STORED, "duplicate": True},
        ),
        Reply("The message is stored.", StoredResponse, _STORED, status=201),
    ),
    codes=_MESSAGE_CODES,
)
PRODUCE_BATCH: Final = Operation(
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
    handler=BodyHandler(begin_batch, produce_batch),
    takes_idempotency_key=True,
    body=Body(
        ProduceMessage,
        [{"body": "a"}, {"body_b64": "/wA="}],
        items_max=BATCH_COUNT_MAX,
        other_types={
            "application/x-ndjson": {
                "schema": {"type": "string", "minLength": 1},
                "example": '{"body": "a"}\n{"body": "b"}\n',
            }
        },
    ),
    replies=(
        Reply(
            "All were already stored by an earlier request with the same keys.",
            BatchResponse,
            {"results": [{**_RESULT, "status": 200, "duplicate": True}]},
        ),
        Reply("All are stored.", BatchResponse, {"results": [_RESULT]}, status=201),
        Reply(
            "Some are stored; each result says whether its message is.",
            BatchResponse,
            {"results": [_RESULT, _REFUSED]},
            status=207,
        ),
    ),
    codes=_MESSAGE_CODES,
)
RECEIVE: Final = Operation(
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
    handler=BodyHandler(begin_receive, receive_messages),
    body=Body(ReceiveOptions, {"max": 64, "wait": "5s", "lease": "60s"}, is_required=False),
    replies=(
        Reply(
            "The leased messages; the list may be empty.",
            ReceiveResponse,
            {"messages": [_RECEIVED]},
        ),
    ),
    codes=(
        "ILLEGAL_FILTER", "ILLEGAL_LEASE", "SUBSCRIPTION_CONFLICT", "QUOTA_EXCEEDED",
        "INFLIGHT_LIMIT", "CONFLICT",
    ),
)  # fmt: skip
SETTLE: Final = Operation(
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
    handler=BodyHandler(begin_settle, settle_messages),
    body=Body(
        SettleOptions,
        {
            "ack": ["AQAAAAIAAAAAAAAABQ"],
            "nack": [{"receipt": "AQAAAAIAAAAAAAAABg", "delay": "30s"}],
        },
    ),
    replies=(
        Reply(
            "The results, with the receipts that failed.",
            SettleResponse,
            {"acked": 1, "nacked": 1, "extended": [], "dead_lettered": 0, "failed": []},
        ),
    ),
    # With a colon in its name the path is that of a group, which takes no POST.
    codes=("ILLEGAL_LEASE", "CONFLICT", "STORAGE_FULL", "METHOD_NOT_ALLOWED"),
)

OPERATIONS: Final = (
    PRODUCE,
    PRODUCE_BATCH,
    RECEIVE,
    SETTLE,
    browse.BROWSE,
    browse.READ_MESSAGE,
    search.SEARCH,
    search.HISTOGRAM,
    copy.COPY,
    pull.PULL,
    pull.OFFSET_AT_TIME,
    dead_letters.BROWSE_DEAD_LETTERS,
    dead_letters.READ_DEAD_LETTER,
    scheduled.LIST_SCHEDULED,
    scheduled.CANCEL_SCHEDULED,
    scheduled.SEND_SCHEDULED,
    scheduled.RESCHEDULE,
    scheduled.LIST_ALL_SCHEDULED,
)
