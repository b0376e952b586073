"""What fields mean and which values they may have, besides what their types say.

``TEXTS`` are meanings by name: one name means one thing in all of the API. ``RULES`` are limits by
schema and field; a rule of ``*`` holds in all schemas that ask for something.
"""

from __future__ import annotations

from typing import Any, Final

from mqservice.delivery import limits
from mqservice.reference.parts import (
    DURATION_PATTERN,
    NAME_PATTERN,
    TIME_PATTERN,
    JsonObject,
)

TEXTS: Final = {
    "ack": "Receipts of messages that are done.",
    "ack_upto": "Receipts that stand for their message and all before it in the same answer.",
    "after": "The name or number after which a page begins.",
    "attempt": "Which delivery of the message to the group this is, from 1.",
    "attempt_id": "Your name for this receive: repeated with it, the same messages come again.",
    "attempts": "How often it was tried.",
    "auto_extend": "How long leases last while the consumer is heard of; needs `consumer_id`.",
    "backlog_hint": "How much more there is; null while the engine does not tell.",
    "batch_per_group": "Messages of one message group that one receive may bring.",
    "body": "The body as text.",
    "body_b64": "The body as bytes, in base64.",
    "body_bytes_max": "The largest body that the topic takes.",
    "body_json": "The body as a JSON value, kept as it was written.",
    "born_at": "When the producer's request came in.",
    "client_id": "Which client of a broadcast group; needed there, refused elsewhere.",
    "code": "What programs branch on; see the table of codes.",
    "consumer_id": "Your name for the consumer: receives with one name are one member.",
    "consumer_offset": "The next offset to deliver.",
    "consumer_zone": "Where the consumer is, for groups that assign queues by machine rooms.",
    "consume_timeout": "The longest that one delivery can last.",
    "created_at": "When it was made.",
    "dead_letter": "Messages to give up at once: they go to the group's dead letters.",
    "deliver_at": "When it is delivered at the earliest; null for at once.",
    "delay": "A duration to wait first, such as `30s`.",
    "delay_level": "RocketMQ's delay level: 1 to 18, above counts as 18.",
    "delay_ms": "A duration to wait first, in milliseconds.",
    "detail": "What is wrong in this case, with places and numbers.",
    "dispatch": "Who reads a queue: any consumer, the assigned one, or each client all of them.",
    "dry_run": "Only say what would be done.",
    "duplicate": "Whether the message had been stored by an earlier request.",
    "durability": "Whether the disk has the message (`synced`) or has yet to get it (`buffered`).",
    "errors": "Each fault with its place.",
    "extend": "Leases to let end later.",
    "failed": "Receipts that had no effect, and why.",
    "filter": "Tags as in `created || paid`, or `{\"sql\": …}`, an SQL92 condition on properties.",
    "id": "Id of the thing, unique and for ever the same.",
    "index": "Place of the message in the request, from 0.",
    "inflight": "Messages that are leased and not settled.",
    "instance": "Path of the request that was refused.",
    "is_complete": "False while the key index lacks the newest messages.",
    "keys": "Business keys that the message is found by.",
    "lag": "Messages still to do: ready + inflight + waiting_retry; null where that is unknown.",
    "lag_is": "exact, or estimated from a sample where a filter has too much to look through.",
    "lag_ms": "Age of the oldest of them, since it was first stored in its topic.",
    "offset_lag": "max_offset - consumer_offset, which RocketMQ calls lag.",
    "waiting_retry": "Failed messages to be delivered again, now or later.",
    "lease": "How long messages are yours, such as `60s`.",
    "lease_ms": "How long messages are yours, in milliseconds.",
    "lease_until": "When the lease ends if nothing more is heard.",
    "max": "How many messages at most.",
    "max_attempts": "Deliveries before a message is given up; null for no limit.",
    "max_offset": "The offset that the next message gets.",
    "message_group": "Messages of one message group go to one queue and keep their order.",
    "messages": "The messages; may be empty.",
    "min_offset": "The first offset that can be read.",
    "nack": "Messages to give back, to be delivered again.",
    "name": "Its name in the namespace.",
    "namespace": "The namespace it belongs to.",
    "next": "What to give as `after` or `before` for the following page; null on the last one.",
    "next_cursor": "Give it as `cursor` for the following page; null on the last one.",
    "next_offset": "Where to go on.",
    "offset": "Place in the queue, from 0.",
    "ordered": "Whether the group gets messages in order.",
    "paused": "Whether the group gets nothing until it is resumed.",
    "pointer": "JSON pointer to the place in the body; `?name` for a parameter of the query.",
    "properties": "Names and values that travel with the message.",
    "queue": "Number of the queue, from 0.",
    "queues": "How many queues there are, or which.",
    "reason": "Why, in your words; kept with the message's trace and dead letter.",
    "receipt": "What the message is settled with.",
    "recall_handle": "Cancels the message, or sends it now, until it is delivered.",
    "request_id": "Finds the request in the log.",
    "retention": "How long messages are kept, such as `3d`.",
    "retention_ms": "How long messages are kept, in milliseconds.",
    "retry_after_ms": "How long to wait before the same request can succeed; null if unknown.",
    "retryable": "Whether the same request may succeed later.",
    "scanned": "How many messages were looked at for this page.",
    "settle": "What becomes of messages that were received before; done first.",
    "settled": "What became of what was to be settled.",
    "start_from": "Where the group begins on a topic that it has never read: `earliest` by "
    "default.",
    "state": "How it stands.",
    "status": "The status of this answer or part of it.",
    "stored": "False promises that nothing of the request will ever be delivered.",
    "stored_at": "When the engine stored it.",
    "tag": "What consumers filter by.",
    "target": "A topic to send to instead of the one each message came from.",
    "title": "The code in words.",
    "topic": "Name of the topic.",
    "transaction_id": "Always null: transactions are not there yet.",
    "type": "Which kind it is.",
    "updated_at": "When it was last changed.",
    "wait": "Answer as soon as there is a message, at the latest after this, such as `20s`.",
    "wait_ms": "Answer as soon as there is a message, at the latest after this many milliseconds.",
}  # fmt: skip

_DURATION: Final = {"pattern": DURATION_PATTERN}
_NAME: Final = {"pattern": NAME_PATTERN}
_TIME: Final = {"format": "date-time", "pattern": TIME_PATTERN}


def _range(low: int, high: int) -> JsonObject:
    return {"minimum": low, "maximum": high}


_SETTLEMENT: Final[dict[str, JsonObject]] = {
    "ack": {"maxItems": limits.SETTLE_COUNT_MAX},
    "ack_upto": {"maxItems": limits.ACK_UPTO_COUNT_MAX},
    "nack": {"maxItems": limits.SETTLE_COUNT_MAX},
    "extend": {"maxItems": limits.SETTLE_COUNT_MAX},
    "dead_letter": {"maxItems": limits.SETTLE_COUNT_MAX},
}

# By name, in every answer.
ANSWER_RULES: Final[dict[str, JsonObject]] = {
    name: {"format": "date-time"}
    for name in ("born_at", "created_at", "deliver_at", "lease_until", "stored_at", "updated_at")
}

RULES: Final[dict[str, dict[str, Any]]] = {  # Any: JSON
    "FilterIn": {"reason": {"minLength": 1, "maxLength": limits.REASON_ASKED_CHARS_MAX}},
    "ProduceMessage": {
        "body": {"minLength": 1},
        "tag": {"minLength": 1, "maxLength": limits.TAG_BYTES_MAX},
        "keys": {
            "maxItems": limits.KEY_COUNT_MAX,
            "items": {"type": "string", "minLength": 1, "maxLength": limits.KEY_BYTES_MAX},
        },
        "message_group": {"minLength": 1, "maxLength": limits.MESSAGE_GROUP_CHARS_MAX},
        "properties": {"maxProperties": limits.PROPERTY_COUNT_MAX},
        "queue": _range(0, 255),
        "delay_level": _range(1, (1 << 31) - 1),
        "delay": _DURATION,
        "delay_ms": _range(1, limits.NACK_DELAY_MS_MAX),
        "deliver_at": _TIME,
    },
    "ReceiveOptions": {
        "max": _range(1, limits.RECEIVE_COUNT_MAX),
        "wait": _DURATION,
        "wait_ms": _range(0, limits.WAIT_MS_MAX),
        "lease": _DURATION,
        "lease_ms": _range(limits.LEASE_MS_MIN, limits.LEASE_MS_MAX),
        "consumer_id": _NAME,
        "attempt_id": {"pattern": rf"^[!-~]{{1,{limits.ATTEMPT_ID_CHARS_MAX}}}$"},
        "auto_extend": _DURATION,
        "auto_extend_ms": _range(0, limits.AUTO_EXTEND_MS_MAX),
        "consumer_zone": _NAME,
    },
    "Settlement": _SETTLEMENT,
    "SettleOptions": {**_SETTLEMENT, "consumer_id": _NAME},
    "NackItem": {
        "delay": _DURATION,
        "delay_ms": _range(0, limits.NACK_DELAY_MS_MAX),
        "reason": {"maxLength": limits.NACK_REASON_CHARS_MAX},
    },
    "DeadLetterItem": {"reason": {"maxLength": limits.NACK_REASON_CHARS_MAX}},
    "ExtendItem": {
        "lease": _DURATION,
        "lease_ms": _range(limits.LEASE_MS_MIN, limits.LEASE_MS_MAX),
    },
    "SqlFilter": {"sql": {"minLength": 1}},
}


def describe(schemas: dict[str, JsonObject]) -> None:
    """Add meanings and rules to the properties of ``schemas``, in place."""
    for name, schema in schemas.items():
        rules = RULES.get(name, {})
        for field, prop in schema.get("properties", {}).items():
            rule = rules.get(field)
            if rule is None and name not in RULES:
                rule = ANSWER_RULES.get(field)
            if rule is not None:
                _constrain(prop, rule)
            if field in TEXTS and "$ref" not in prop:
                prop.setdefault("description", TEXTS[field])
            prop.pop("title", None)


def _constrain(prop: JsonObject, rule: JsonObject) -> None:
    """Into the part of a nullable property that is not null."""
    for part in prop.get("anyOf", [prop]):
        if part.get("type") != "null":
            part.update(rule)
