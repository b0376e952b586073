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
    "ack": "Receipts of processed messages.",
    "ack_upto": "Receipts that ack their message and all before it in the same response.",
    "after": "The name or number after which a page starts.",
    "attempt": "Which delivery of the message to the group this is, from 1.",
    "attempt_id": "Your id for this receive: repeated with it, it returns the same messages.",
    "attempts": "Number of attempts.",
    "auto_extend": "How long leases are extended while the consumer is alive; needs `consumer_id`.",
    "batch_per_group": "Maximum number of messages of one message group per receive.",
    "body": "The body as text.",
    "body_b64": "The body as bytes, in base64.",
    "body_bytes_max": "The largest body that the topic accepts.",
    "body_json": "The body as a JSON value, stored as written.",
    "born_at": "When the producer's request arrived.",
    "client_id": "The client of a broadcast group; required there, rejected elsewhere.",
    "code": "Error code for programs to branch on; see the table of codes.",
    "consumer_id": "Your id for the consumer: receives with the same id are one member.",
    "consumer_offset": "The next offset to deliver.",
    "consumer_zone": "Where the consumer is, for groups that assign queues by machine rooms.",
    "consume_timeout": "The maximum duration of one delivery.",
    "created_at": "When it was created.",
    "dead_letter": "Messages to move to the group's dead letters immediately.",
    "deliver_at": "The earliest time of delivery; null for immediately.",
    "delay": "A duration to wait before delivery, such as `30s`.",
    "delay_level": "RocketMQ's delay level: 1 to 18, above counts as 18.",
    "delay_ms": "A duration to wait before delivery, in milliseconds.",
    "detail": "What is wrong in this case, with places and numbers.",
    "dispatch": "Who reads a queue: any consumer, the assigned one, or every client.",
    "dry_run": "Whether this is only a preview.",
    "duplicate": "Whether an earlier request had already stored the message.",
    "durability": (
        "Whether the message is on disk (`synced`), not yet (`buffered`), or in the replicated log "
        "(`replicated`)."
    ),
    "errors": "Each fault with its place.",
    "extend": "Leases to extend.",
    "failed": "Receipts that had no effect, and why.",
    "filter": "Tags as in `created || paid`, or `{\"sql\": …}`, an SQL92 condition on properties.",
    "id": "Unique id that never changes.",
    "index": "Place of the message in the request, from 0.",
    "inflight": "Messages in flight: leased and not settled.",
    "instance": "Path of the rejected request.",
    "is_complete": "False while the key index lacks the newest messages.",
    "keys": "Business keys to find the message by.",
    "lag": "Messages still to do: ready + inflight + waiting_retry; null if unknown.",
    "lag_is": "exact, or estimated from a sample if a filter has too many messages to check.",
    "lag_ms": "Age of the oldest of them, since it was first stored in its topic.",
    "offset_lag": "max_offset - consumer_offset, which RocketMQ calls lag.",
    "waiting_retry": "Failed messages to be redelivered, now or later.",
    "lease": "How long messages are leased, such as `60s`.",
    "lease_ms": "How long messages are leased, in milliseconds.",
    "lease_until": "When the lease expires unless it is extended.",
    "max": "Maximum number of messages.",
    "max_attempts": "Deliveries before a message becomes a dead letter; null for no limit.",
    "max_offset": "The offset of the next message to be stored.",
    "message_group": "Messages of one message group go to one queue and keep their order.",
    "messages": "The messages; may be empty.",
    "min_offset": "The first offset that can be read.",
    "nack": "Messages to return, to be redelivered.",
    "name": "Its name in the namespace.",
    "namespace": "The namespace it belongs to.",
    "next": "Pass it as `after` or `before` for the following page; null on the last one.",
    "next_cursor": "Pass it as `cursor` for the following page; null on the last one.",
    "next_offset": "Where to continue.",
    "offset": "Position in the queue, from 0.",
    "ordered": "Whether the group gets messages in order.",
    "paused": "Whether the group is paused.",
    "pointer": "JSON pointer to the place in the body; `?name` for a query parameter.",
    "properties": "Names and values sent with the message.",
    "queue": "Number of the queue, from 0.",
    "queues": "The number of queues.",
    "reason": "Your reason; stored with the message's trace and dead letter.",
    "receipt": "The receipt to settle the message with.",
    "recall_handle": "Cancels the message, or sends it now, until it is delivered.",
    "request_id": "Identifies the request in the log.",
    "retention": "How long messages are retained, such as `3d`.",
    "retention_ms": "How long messages are retained, in milliseconds.",
    "retry_after_ms": "How long to wait before the same request can succeed; null if unknown.",
    "retryable": "Whether the same request may succeed later.",
    "scanned": "How many messages were checked for this page.",
    "settle": "Settles messages received before; executed first.",
    "settled": "The result of `settle`.",
    "start_from": "Where the group starts on a topic that it has never read: `earliest` by "
    "default.",
    "state": "Its state.",
    "status": "The status of this response or part of it.",
    "stored": "False promises that nothing of the request will ever be delivered.",
    "stored_at": "When the engine stored it.",
    "tag": "What consumers filter by.",
    "target": "A topic to send to instead of each message's own.",
    "title": "The code in words.",
    "topic": "Name of the topic.",
    "type": "Its type.",
    "updated_at": "When it was last changed.",
    "wait": "How long to wait for a message before returning an empty list, such as `20s`.",
    "wait_ms": "The same in milliseconds.",
}  # fmt: skip

# Fields that mean something else in one shape: (shape, field) -> meaning.
SPECIAL_TEXTS: Final = {
    ("AuditEntryOut", "after"): "The changed fields after the change.",
    ("AuditEntryOut", "target"): "The changed resource, such as `topics/orders`.",
    ("ClientOut", "client_id"): "The client of a broadcast group; null in others.",
    ("ClientOut", "queues"): "The queues assigned to it.",
    ("ConnectedSubscriptionOut", "filter"): "Its filter; null for all messages.",
    ("DeadLetterMessage", "reason"): "The reason of the last failure.",
    ("DryRunOut", "is_complete"): "False if counting stopped early.",
    ("EventOut", "reason"): "The reason of the failure.",
    ("GroupStateOut", "client_id"): "The client of a broadcast group; null in others.",
    ("ImportedOut", "after"): "The changed settings after the change.",
    ("IssueDetailOut", "messages"): "The newest messages.",
    ("IssueDetailOut", "reason"): "The cause, with placeholders for what differs.",
    ("IssueOut", "reason"): "The cause, with placeholders for what differs.",
    ("KeyListOut", "keys"): "The API keys of the page.",
    ("KeyOut", "name"): "What the key is for.",
    ("KeyOut", "namespace"): "The namespace it is bound to; null for the whole tenant.",
    ("LagOut", "queues"): "Each queue with its lag.",
    ("NamespaceIn", "reason"): "Why it is read-only.",
    ("NamespaceOut", "name"): "Its name, unique in the service.",
    ("NewKeyOut", "name"): "What the key is for.",
    ("NewKeyOut", "namespace"): "The namespace it is bound to; null for the whole tenant.",
    ("NotificationOut", "target"): "The email address or the URL.",
    ("PullResponse", "status"): "RocketMQ's pull status.",
    ("PurgeIn", "filter"): "Conditions that dead letters must match.",
    ("PurgeOut", "messages"): "How many messages were or would be deleted.",
    ("PurgeOut", "queues"): "Each queue with the deleted range.",
    ("QueueProgressOut", "lag_ms"): "Age of the first unsettled message.",
    ("RatePointOut", "stored"): "All messages stored so far.",
    ("ReadOnlyOut", "reason"): "Why it is read-only.",
    ("RedriveIn", "filter"): "Conditions that dead letters must match.",
    ("ReportOut", "name"): "The name of the report.",
    ("ReportOut", "title"): "The title of the report.",
    ("SeekIn", "queues"): "The queues to move; all by default.",
    ("SeekOut", "queues"): "Each queue with its old and new offset.",
    ("TaskOut", "failed"): "Messages that could not be moved.",
    ("TaskOut", "filter"): "The conditions of the request.",
    ("TopicClientsOut", "filter"): "The filter of all members; null for all messages.",
    ("TopicClientsOut", "is_complete"): "Whether `clients` are all.",
    ("TopicProgressOut", "queues"): "Each queue with its progress.",
    ("TraceOut", "is_complete"): "False if events or groups may be missing.",
}

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
    for name in (
        "at", "born_at", "changed_at", "connected_at", "created_at", "deliver_at", "delivered_at",
        "due_at", "evaluated_at", "expires_at", "finished_at", "first_delivered_at", "first_seen",
        "heard_at", "last_delivered_at", "last_seen", "last_used_at", "lease_until", "missed_at",
        "muted_until", "next_run_at", "oldest_stored_at", "planned_at", "revoked_at", "seen_at",
        "since", "start_time", "started_at", "stored_at", "until", "updated_at",
    )
}  # fmt: skip

RULES: Final[dict[str, dict[str, Any]]] = {  # Any: JSON
    "FilterIn": {"reason": {"minLength": 1, "maxLength": limits.REASON_QUERY_CHARS_MAX}},
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
    "RescheduleRequest": {
        "delay": _DURATION,
        "delay_ms": _range(0, limits.NACK_DELAY_MS_MAX),
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
    "SettleItems": _SETTLEMENT,
    "SettleOptions": {**_SETTLEMENT, "consumer_id": _NAME},
    "NackItem": {
        "delay": _DURATION,
        "delay_ms": _range(0, limits.NACK_DELAY_MS_MAX),
        "reason": {"maxLength": limits.NACK_REASON_CHARS_MAX},
    },
    "ReportListOut": {"at": {"pattern": "^[0-9]{2}:[0-9]{2}$"}},  # a time of day
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
            text = SPECIAL_TEXTS.get((name, field), TEXTS.get(field))
            if text is not None and "$ref" not in prop:
                prop.setdefault("description", text)
            prop.pop("title", None)


def _constrain(prop: JsonObject, rule: JsonObject) -> None:
    """Into the part of a nullable property that is not null."""
    for part in prop.get("anyOf", [prop]):
        if part.get("type") != "null":
            part.update(rule)
