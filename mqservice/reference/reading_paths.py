"""Requests and responses of the reading operations: browse, pull, dead letters, schedule.

None of them changes what is delivered, except cancelling, sending and rescheduling.
"""

from __future__ import annotations

from typing import Final

from mqservice.accounts.scopes import Scope
from mqservice.delivery import plane
from mqservice.delivery.limits import CONTAINS_BYTES_MAX, REASON_QUERY_CHARS_MAX
from mqservice.delivery.reading.same_cause import NO_REASON
from mqservice.reference.delivery_paths import (
    GROUP,
    GROUP_CODES,
    NAMESPACE,
    NAMESPACE_CODES,
    TOPIC,
    TOPIC_CODES,
    Operation,
    cursor_parameter,
)
from mqservice.reference.parts import (
    LIMIT_SCHEMA,
    TIME_SCHEMA,
    JsonObject,
    json_content,
    query_parameter,
    ref,
    response_object,
)

_OFFSET: Final = {"type": "integer", "minimum": 0, "maximum": (1 << 63) - 1}
_TAG: Final = query_parameter(
    "tag", "Only messages with this tag, or any of several: `created || paid`.", {"type": "string"}
)
_KEY: Final = query_parameter(
    "key", "Only messages with this key, newest first.", {"type": "string", "minLength": 1}
)
_LIMIT: Final = query_parameter("limit", "Maximum number of messages.", LIMIT_SCHEMA)
_FROM: Final = query_parameter("from", "Only messages stored at or after this time.", TIME_SCHEMA)
_TO: Final = query_parameter("to", "Only messages stored at or before this time.", TIME_SCHEMA)

_FILTER: Final = query_parameter(
    "filter",
    'Like `filter` of a receive: tags, `created || paid`, or `{"sql": "amount > 100"}`.',
    {"type": "string", "minLength": 1},
)
_SQL: Final = query_parameter(
    "sql",
    "Only messages whose properties match this SQL92 condition: `amount > 100`. Not with `key`.",
    {"type": "string", "minLength": 1},
)
_CONTAINS: Final = query_parameter(
    "contains",
    "Only messages whose body contains this string; exact match.",
    {"type": "string", "minLength": 1, "maxLength": CONTAINS_BYTES_MAX},
)
_REASON: Final = query_parameter(
    "reason",
    "Only dead letters with the cause of this reason, or with this cause of an issue: numbers, "
    f"ids and quoted values may differ. `{NO_REASON}`: those without a reason.",
    {"type": "string", "minLength": 1, "maxLength": REASON_QUERY_CHARS_MAX},
)

_ID: Final = "01679C42FC1C5916ED0B1323B800019A0A"
_AT: Final = "2026-11-21T12:08:24.757Z"
_MESSAGE: Final[JsonObject] = {
    "id": _ID, "tag": "created", "keys": ["order-42"], "message_group": None,
    "properties": {"source": "web"}, "queue": 0, "offset": 26146, "born_at": _AT,
    "stored_at": _AT, "body_json": {"order": 42},
}  # fmt: skip
_DEAD: Final = {
    **_MESSAGE, "topic": "orders", "reason": "db down", "attempts": 17,
    "first_delivered_at": _AT, "last_delivered_at": _AT,
}  # fmt: skip
_WAITING: Final = {
    **_MESSAGE,
    "deliver_at": "2026-12-01T08:00:00.000Z",
    "recall_handle": "rc_ARIAAAAAAAAAAESIwMUFDNkUz",
}
_DONE: Final = {"id": _ID, "topic": "orders", "state": "cancelled"}
_HANDLE_CODES: Final = (
    *NAMESPACE_CODES, "TOPIC_NOT_FOUND", "MESSAGE_NOT_FOUND", "ALREADY_DELIVERED", "STORAGE_FULL",
)  # fmt: skip


def _page(schema: str, message: JsonObject, *, has_completeness: bool = True) -> JsonObject:
    example: JsonObject = {"messages": [message], "next_cursor": None}
    if has_completeness:
        example["is_complete"] = True
    return {"200": response_object("A page; may be empty.", json_content(ref(schema), example))}


OPERATIONS: Final = [
    Operation(
        handler=plane.MESSAGES,
        method="GET",
        path=TOPIC + "/messages",
        operation_id="browseMessages",
        tag="read",
        summary="Browse or search a topic",
        description=(
            "Returns messages in pages, in the order they were stored, or with `key` the newest "
            "first. Delivery is not affected. Only `next_cursor` says whether there is more: any "
            "page may be short. `offset` requires `queue`, and cannot be combined with `key` or "
            "`from`. With `sql` or `contains` a page checks a bounded number of messages and "
            "returns that number in `scanned`. Unknown parameters are rejected."
        ),
        scope=Scope.CONSUME,
        parameters=[
            _KEY,
            _TAG,
            _FROM,
            _TO,
            query_parameter("queue", "Only this queue.", {"type": "integer", "minimum": 0}),
            query_parameter("offset", "Start at this offset of the queue.", _OFFSET),
            _FILTER,
            _SQL,
            _CONTAINS,
            _LIMIT,
            cursor_parameter(),
        ],
        answers=_page("BrowseResponse", _MESSAGE),
        codes=(
            *TOPIC_CODES,
            "QUEUE_NOT_FOUND",
            "ILLEGAL_FILTER",
            "ILLEGAL_KEY",
            "CURSOR_INVALID",
        ),
    ),
    Operation(
        handler=plane.MESSAGE,
        method="GET",
        path=TOPIC + "/messages/{message_id}",
        operation_id="readMessage",
        tag="read",
        summary="Read one message",
        description="Returns a message by its id.",
        scope=Scope.CONSUME,
        answers={
            "200": response_object("The message.", json_content(ref("StoredMessage"), _MESSAGE))
        },
        codes=(*TOPIC_CODES, "MESSAGE_NOT_FOUND"),
    ),
    Operation(
        handler=plane.QUEUE_MESSAGES,
        method="GET",
        path=TOPIC + "/queues/{queue}/messages",
        operation_id="pullMessages",
        tag="read",
        summary="Pull from a queue at an offset",
        description=(
            "For readers that store their own offset. `status` is RocketMQ's: `FOUND`, "
            "`NO_MATCHED_MSG`, `NO_NEW_MSG` or `OFFSET_ILLEGAL`; continue at `next_offset`."
        ),
        scope=Scope.CONSUME,
        parameters=[
            query_parameter("offset", "Where to read.", _OFFSET, is_required=True),
            query_parameter("max", "Maximum number of messages.", LIMIT_SCHEMA),
            _TAG,
        ],
        answers={
            "200": response_object(
                "The messages.",
                json_content(
                    ref("PullResponse"),
                    {
                        "status": "FOUND",
                        "min_offset": 0,
                        "max_offset": 26147,
                        "next_offset": 26147,
                        "messages": [_MESSAGE],
                    },
                ),
            )
        },
        codes=(*TOPIC_CODES, "QUEUE_NOT_FOUND", "ILLEGAL_FILTER"),
    ),
    Operation(
        handler=plane.QUEUE_OFFSET,
        method="GET",
        path=TOPIC + "/queues/{queue}/offset",
        operation_id="readOffsetAtTime",
        tag="read",
        summary="Find the offset of a time",
        description="Returns the offset of the first message stored at or after a time.",
        scope=Scope.CONSUME,
        parameters=[
            query_parameter("time", "The time, RFC 3339.", TIME_SCHEMA, is_required=True),
        ],
        answers={
            "200": response_object(
                "The offset, and the range that can be read.",
                json_content(
                    ref("OffsetResponse"), {"offset": 26100, "min_offset": 0, "max_offset": 26147}
                ),
            )
        },
        codes=(*TOPIC_CODES, "QUEUE_NOT_FOUND"),
    ),
    Operation(
        handler=plane.DEAD_LETTERS,
        method="GET",
        path=GROUP + "/dlq",
        operation_id="browseDeadLetters",
        tag="dead letters",
        summary="Browse dead letters",
        description=(
            "Returns a group's dead letters in pages, with reason and number of deliveries. "
            "Reading changes nothing. With `reason` a page checks a bounded number of dead letters "
            "and returns that number in `scanned`; only `next_cursor` says whether there is more."
        ),
        scope=Scope.CONSUME,
        parameters=[_KEY, _TAG, _REASON, _FROM, _TO, _LIMIT, cursor_parameter()],
        answers=_page("DeadLettersResponse", _DEAD),
        codes=(*GROUP_CODES, "ILLEGAL_FILTER", "ILLEGAL_KEY", "CURSOR_INVALID"),
    ),
    Operation(
        handler=plane.DEAD_LETTER,
        method="GET",
        path=GROUP + "/dlq/{message_id}",
        operation_id="readDeadLetter",
        tag="dead letters",
        summary="Read one dead letter",
        description="Returns a dead letter of the group by its id.",
        scope=Scope.CONSUME,
        answers={
            "200": response_object("The message.", json_content(ref("DeadLetterMessage"), _DEAD))
        },
        codes=(*GROUP_CODES, "MESSAGE_NOT_FOUND"),
    ),
    Operation(
        handler=plane.SCHEDULED,
        method="GET",
        path=TOPIC + "/scheduled",
        operation_id="listScheduled",
        tag="schedule",
        summary="List scheduled messages of a topic",
        description="Pending messages of a topic, by kind of delay, then by arrival.",
        scope=Scope.CONSUME,
        parameters=[_LIMIT, cursor_parameter()],
        answers=_page("ScheduledResponse", _WAITING, has_completeness=False),
        codes=(*TOPIC_CODES, "CURSOR_INVALID"),
    ),
    Operation(
        handler=plane.SCHEDULED_ONE,
        method="DELETE",
        path=NAMESPACE + "/scheduled/{recall_handle}",
        operation_id="cancelScheduled",
        tag="schedule",
        summary="Cancel a scheduled message",
        description="After a 200 the message is never delivered.",
        scope=Scope.PRODUCE,
        answers={
            "200": response_object(
                "The message is cancelled.", json_content(ref("ScheduledDone"), _DONE)
            )
        },
        codes=_HANDLE_CODES,
    ),
    Operation(
        handler=plane.SCHEDULED_SEND,
        method="POST",
        path=NAMESPACE + "/scheduled/{recall_handle}:send",
        operation_id="sendScheduled",
        tag="schedule",
        summary="Send a scheduled message now",
        description="Delivers it immediately instead of at its time.",
        scope=Scope.PRODUCE,
        answers={
            "200": response_object(
                "The message is on its way.",
                json_content(ref("ScheduledDone"), {**_DONE, "state": "sent"}),
            )
        },
        codes=_HANDLE_CODES,
    ),
    Operation(
        handler=plane.SCHEDULED_MOVE,
        method="POST",
        path=NAMESPACE + "/scheduled/{recall_handle}:reschedule",
        operation_id="reschedule",
        tag="schedule",
        summary="Reschedule a message",
        description=(
            "Changes its time, earlier or later, by `delay`, `delay_ms` or `deliver_at`; a time "
            "that has passed means immediately. With the response the old time no longer applies; "
            "a crash leaves one of the two."
        ),
        scope=Scope.PRODUCE,
        body={"required": True, "content": json_content(ref("RescheduleRequest"), {"delay": "2h"})},
        answers={
            "200": response_object(
                "The message is rescheduled.",
                json_content(
                    ref("Rescheduled"),
                    {
                        **_DONE,
                        "state": "rescheduled",
                        "deliver_at": _WAITING["deliver_at"],
                        "recall_handle": _WAITING["recall_handle"],
                    },
                ),
            )
        },
        codes=(*_HANDLE_CODES, "ILLEGAL_DELIVERY_TIME"),
    ),
    Operation(
        handler=plane.SCHEDULED_ALL,
        method="GET",
        path=NAMESPACE + "/scheduled",
        operation_id="listAllScheduled",
        tag="schedule",
        summary="List scheduled messages of all topics",
        description=(
            "Pending messages of a namespace, by kind of delay, then by arrival. A key that may "
            "consume only some of the topics is rejected."
        ),
        scope=Scope.CONSUME,
        parameters=[_LIMIT, cursor_parameter()],
        answers=_page(
            "NamespaceScheduledResponse", {**_WAITING, "topic": "orders"}, has_completeness=False
        ),
        codes=(*NAMESPACE_CODES, "CURSOR_INVALID"),
    ),
]
