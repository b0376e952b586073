"""What each error code means and what its reader can do: one table for the API, pages and docs.

    CODES (status, title) ─┐
    MEANINGS ──────────────┴─▶ docs/errors.md, /errors/<slug>, OpenAPI document, llms.txt

``RESERVED`` are codes of the contract that no part of this version sends; a client may know them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """``meaning``: what is wrong. ``remedy``: what the caller can do about it."""

    meaning: str
    remedy: str


MEANINGS: Final[dict[str, Meaning]] = {
    "BAD_REQUEST": Meaning(
        "The request is invalid: it is not valid JSON, or has an unknown field, a value of the "
        "wrong type, or two fields that exclude each other.",
        "See `errors`: each entry points to one place. Correct them and send the request again.",
    ),
    "ILLEGAL_NAMESPACE": Meaning(
        "The name of the namespace is not valid.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_TOPIC": Meaning(
        "The name of the topic is not valid.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_GROUP": Meaning(
        "The name of the consumer group is not valid.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_ALERT": Meaning(
        "The name of the alert is not valid.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_SCHEDULE": Meaning(
        "The name of the schedule is not valid.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_TAG": Meaning(
        "The tag is blank, too long, or contains a control character or a `|`.",
        "Use at most 255 bytes without those.",
    ),
    "ILLEGAL_KEY": Meaning(
        "A message key is blank, too long, contains white space or a control character, or there "
        "are too many keys.",
        "Use at most 16 keys of 255 bytes each, without white space.",
    ),
    "ILLEGAL_PROPERTY": Meaning(
        "A property has a reserved or blank name, or a control character in its name or value.",
        "Rename it; send bytes in the body instead.",
    ),
    "ILLEGAL_FILTER": Meaning(
        "The filter does not compile, is empty, or is too long.",
        "Correct it at the position that `detail` names. Omit the filter for all messages.",
    ),
    "ILLEGAL_DELIVERY_TIME": Meaning(
        "The delay or delivery time is not valid, negative, or more than 365 days in the future.",
        "Pass exactly one of `delay`, `delay_ms`, `delay_level` and `deliver_at`.",
    ),
    "ILLEGAL_LEASE": Meaning(
        "The lease, or the time to extend it to, is out of range.",
        "Use 1 s to 12 h; `auto_extend` must be longer than the lease and at most 3 h.",
    ),
    "ILLEGAL_SETTING": Meaning(
        "A setting of a topic, group, alert or schedule is out of range or cannot be combined "
        "with another one.",
        "See `errors`: it names each setting with its valid range.",
    ),
    "RECEIPT_INVALID": Meaning(
        "The receipt was not issued by this service for this group, or is too old.",
        "Settle with the receipt exactly as it was received, in the group that received it.",
    ),
    "CURSOR_INVALID": Meaning(
        "The cursor belongs to another query, or was not issued by this service.",
        "Repeat all parameters except `limit` unchanged, or start again without a cursor.",
    ),
    "UNAUTHENTICATED": Meaning(
        "There is no API key, or the key is not valid. The response does not say why.",
        "Send `Authorization: Bearer mqk_...` with a key that is neither revoked nor expired.",
    ),
    "PLAN_LIMIT": Meaning(
        "The plan of the tenant does not include this.",
        "Change the plan.",
    ),
    "FORBIDDEN": Meaning(
        "The key is valid but may not do this.",
        "Use a key with the scope that `detail` names.",
    ),
    "QUOTA_EXCEEDED": Meaning(
        "The tenant, namespace or group has reached its maximum.",
        "Delete what is not needed, or request a larger quota.",
    ),
    "NOT_FOUND": Meaning(
        "This path does not exist.",
        "Compare the path with the reference; it has no trailing slash.",
    ),
    "NAMESPACE_NOT_FOUND": Meaning(
        "The namespace does not exist, or belongs to another tenant.",
        "Use the namespace of the key; a key that is bound to one can write `-` for it.",
    ),
    "TOPIC_NOT_FOUND": Meaning(
        "The namespace has no topic of this name.",
        "Create it with `PUT`, or correct the name.",
    ),
    "GROUP_NOT_FOUND": Meaning(
        "The namespace has no consumer group of this name.",
        "Create it with `PUT`, or correct the name.",
    ),
    "QUEUE_NOT_FOUND": Meaning(
        "The topic does not have this queue.",
        "Use a number below the topic's `queues`.",
    ),
    "MESSAGE_NOT_FOUND": Meaning(
        "The message does not exist: there was none of this id, or it has expired or was "
        "cancelled.",
        "Check the id; an expired or cancelled message cannot be restored.",
    ),
    "TASK_NOT_FOUND": Meaning(
        "The namespace has no such task, or no longer.",
        "List the tasks.",
    ),
    "REPORT_NOT_FOUND": Meaning(
        "There is no report of this name, no run of this id, or no report yet.",
        "List the reports and the runs.",
    ),
    "KEY_NOT_FOUND": Meaning(
        "The tenant has no such API key.",
        "List the keys.",
    ),
    "MEMBER_NOT_FOUND": Meaning(
        "The tenant has no such member.",
        "List the members.",
    ),
    "INVITATION_NOT_FOUND": Meaning(
        "The invitation does not exist, or was used, withdrawn, or has expired.",
        "Ask an admin of the tenant for another one.",
    ),
    "ALERT_NOT_FOUND": Meaning(
        "The namespace has no alert of this name.",
        "List the alerts.",
    ),
    "ISSUE_NOT_FOUND": Meaning(
        "The namespace has no such issue, or it was deleted because of its age.",
        "List the issues.",
    ),
    "SCHEDULE_NOT_FOUND": Meaning(
        "The namespace has no schedule of this name.",
        "List the schedules.",
    ),
    "MASK_NOT_FOUND": Meaning(
        "The namespace has no masking rule of this name.",
        "Read the masking settings of the namespace.",
    ),
    "SEARCH_NOT_FOUND": Meaning(
        "The namespace has no shared search of this name.",
        "List the shared searches.",
    ),
    "SCHEMA_NOT_FOUND": Meaning(
        "The topic has no schema.",
        "Upload one if you want the console to decode bodies.",
    ),
    "METHOD_NOT_ALLOWED": Meaning(
        "The path exists, but not for this method.",
        "Use one of the methods in the header `Allow`.",
    ),
    "NOT_ACCEPTABLE": Meaning(
        "The response is not available in a form that `Accept` allows.",
        "Accept `application/json`.",
    ),
    "REQUEST_TIMEOUT": Meaning(
        "The request did not arrive completely in time. Nothing of it was stored.",
        "Send it again, over a faster connection or in smaller parts.",
    ),
    "NAMESPACE_READ_ONLY": Meaning(
        "The namespace is read-only: changes are rejected, including dry runs. Producing and "
        "consuming continue.",
        "Wait, or have an admin end it: `PATCH /v1/namespaces/{name}`. `detail` says since when.",
    ),
    "CONFLICT": Meaning(
        "The request conflicts with the current state.",
        "Read the current state, and decide again.",
    ),
    "MESSAGE_TYPE_CONFLICT": Meaning(
        "The topic's type does not allow this message, for example a delayed message in a topic "
        "of type `normal`.",
        "Produce to a topic of the right type, or omit the field.",
    ),
    "ALREADY_DELIVERED": Meaning(
        "The scheduled message has been delivered, so it can no longer be cancelled or sent.",
        "Nothing: its consumers have it.",
    ),
    "IDEMPOTENCY_IN_PROGRESS": Meaning(
        "The first request with this idempotency key is still in progress.",
        "Repeat the request later to get the response of the first one.",
    ),
    "SUBSCRIPTION_CONFLICT": Meaning(
        "Other members of the group read the topic through another filter.",
        "Use the same filter for all members of a group, or another group. While members change "
        "to another filter, try again: `retry_after_ms` says when the other members will be gone "
        "if they stop reading now.",
    ),
    "LEASE_EXPIRED": Meaning(
        "The lease expired, and the message was delivered to another consumer or settled since.",
        "Drop the message: it is no longer yours. Use a longer lease, or extend it in time.",
    ),
    "PRECONDITION_FAILED": Meaning(
        "`If-Match` does not name the current revision: it was changed in the meantime.",
        "Read it again, and repeat the change with the new `ETag`.",
    ),
    "BODY_TOO_LARGE": Meaning(
        "The body, or all bodies of a batch together, are too large.",
        "Send less per request; store large data elsewhere and send its address.",
    ),
    "PROPERTIES_TOO_LARGE": Meaning(
        "Properties, tag and keys together are too large for a message.",
        "Use at most 128 properties and 16 KiB; put the rest into the body.",
    ),
    "UNSUPPORTED_MEDIA_TYPE": Meaning(
        "The content type or the encoding of the body is not supported here.",
        "Send JSON (batches also as `application/x-ndjson`) without a content encoding.",
    ),
    "SCHEMA_REJECTED": Meaning(
        "The body does not match the schema of the topic.",
        "Correct the message, or register a version of the schema that allows it.",
    ),
    "IDEMPOTENCY_KEY_REUSED": Meaning(
        "The idempotency key was used with another request.",
        "Use a new key for each request that is not a repeat.",
    ),
    "RATE_LIMITED": Meaning(
        "Too many requests, bytes or connections at a time. Nothing was stored.",
        "Wait for `Retry-After`, and then send more slowly.",
    ),
    "INFLIGHT_LIMIT": Meaning(
        "Too many messages are in flight.",
        "Settle some of them first.",
    ),
    "HEADERS_TOO_LARGE": Meaning(
        "The head of the request is larger than 64 KiB.",
        "Send fewer or shorter headers; put long properties into JSON.",
    ),
    "INTERNAL": Meaning(
        "The service failed. A message in the request may be stored, unless `stored` is false.",
        "Report `request_id`: it finds the cause in the log.",
    ),
    "ENGINE_UNAVAILABLE": Meaning(
        "The storage engine is not responding. Nothing was stored or changed.",
        "Send it again after `retry_after_ms`, with growing delays.",
    ),
    "REPLICATION_UNAVAILABLE": Meaning(
        "The replicated log of the storage engine is not responding, or the engine runs without "
        "one, and the topic is replicated. Nothing was stored or changed. Other topics are served.",
        "Send it again after `retry_after_ms`, with growing delays.",
    ),
    "OUTCOME_UNKNOWN": Meaning(
        "The storage engine became unavailable, or did not respond for some seconds, before it "
        "had replied: the request may have been executed.",
        "Send it again if executing it twice is better than not at all.",
    ),
    "METADATA_UNAVAILABLE": Meaning(
        "The database of keys and settings is not responding. Nothing was stored.",
        "Send it again after `retry_after_ms`, with growing delays.",
    ),
    "TICKETS_UNAVAILABLE": Meaning(
        "Valkey, which stores tickets for sockets, is not responding.",
        "Repeat after `retry_after_ms` with a new ticket. Keys in the handshake need no Valkey.",
    ),
    "CONNECTIONS_UNKNOWN": Meaning(
        "Valkey, over which web processes exchange the list of their open sockets, is not "
        "responding.",
        "Repeat after `retry_after_ms`. The sockets themselves are not affected.",
    ),
    "NOT_LEADER": Meaning(
        "Another node has the topic.",
        "Send it again; it is routed again.",
    ),
    "DRAINING": Meaning(
        "This process is about to stop.",
        "Reconnect: another process takes over.",
    ),
    "STORAGE_BUSY": Meaning(
        "Too much data is waiting for the disk, or old messages cannot be fetched from the bucket "
        "that has them. Nothing was stored.",
        "Send it again after `retry_after_ms`, and more slowly.",
    ),
    "HTTP_VERSION_UNSUPPORTED": Meaning(
        "The request is not HTTP/1.1 or 1.0.",
        "Send HTTP/1.1; a proxy may use other versions with clients.",
    ),
    "STORAGE_FULL": Meaning(
        "The disk of the storage engine is full. Nothing was stored; receiving and settling "
        "continue.",
        "Wait until the operator has freed space.",
    ),
}

RESERVED: Final = frozenset({
    "NOT_LEADER", "PLAN_LIMIT", "SCHEMA_REJECTED",
})  # fmt: skip

# Codes that occur only in ``errors[].code``, where they are more specific than the main code.
ITEM_MEANINGS: Final = {
    "BATCH_EMPTY": "a batch without a message",
    "BATCH_TOO_LONG": "a batch of more than 1,000 messages",
    "BODY_COUNT": "not exactly one of `body`, `body_json` and `body_b64`",
    "BODY_EMPTY": "a message with an empty body",
    "BODY_NOT_BASE64": "a string that is not base64",
    "IDEMPOTENCY_KEY": "an idempotency key that is blank, too long, or has invalid characters",
    "ILLEGAL_MESSAGE_GROUP": "a message group that is blank, too long, or has control characters",
    "INVALID_JSON": "bytes that are not JSON, or not UTF-8",
    "INVALID_VALUE": "a value of the wrong type, a missing field or an unknown field",
}

# Codes of ``err`` and ``lost`` frames and of ``failed`` on a WebSocket, in addition to the above.
FRAME_MEANINGS: Final = {
    "UNKNOWN_OP": "a command that the protocol does not have",
    "UNKNOWN_TAG": "a tag that the subscription never had, or that is already settled",
}
