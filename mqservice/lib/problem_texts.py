"""What each code of a refusal means and what its reader can do: one table for all faces.

    CODES (status, title) ─┐
    MEANINGS ──────────────┴─▶ docs/errors.md, /errors/<slug>, OpenAPI document, llms.txt

``RESERVED`` are codes of the contract that no part of this version sends; a client may know them.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """``meaning``: what is the case. ``remedy``: what the caller can do about it."""

    meaning: str
    remedy: str


MEANINGS: Final[dict[str, Meaning]] = {
    "BAD_REQUEST": Meaning(
        "The request cannot be understood: it is not valid JSON, has a field nobody knows, a value "
        "of the wrong kind, or two fields that exclude each other.",
        "Look at `errors`: each entry points at one place. Correct them and send it again.",
    ),
    "ILLEGAL_NAMESPACE": Meaning(
        "A namespace cannot have this name.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_TOPIC": Meaning(
        "A topic cannot have this name.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_GROUP": Meaning(
        "A consumer group cannot have this name.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_ALERT": Meaning(
        "An alert cannot have this name.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_SCHEDULE": Meaning(
        "A schedule cannot have this name.",
        "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
    ),
    "ILLEGAL_TAG": Meaning(
        "The tag is blank, too long, or has a control character or a `|`.",
        "Use at most 255 bytes without those.",
    ),
    "ILLEGAL_KEY": Meaning(
        "A message key is blank, too long, has white space or a control character, or there are "
        "too many.",
        "Use at most 16 keys of 255 bytes each, without white space.",
    ),
    "ILLEGAL_PROPERTY": Meaning(
        "A property has a reserved or blank name, or a control character in name or value.",
        "Rename it; send bytes in the body instead.",
    ),
    "ILLEGAL_FILTER": Meaning(
        "The filter cannot be compiled, is empty or too long.",
        "`detail` gives the place in its text. Leave the filter out for all messages.",
    ),
    "ILLEGAL_DELIVERY_TIME": Meaning(
        "The delay or delivery time is no such thing, not positive, or more than 365 days ahead.",
        "Give exactly one of `delay`, `delay_ms`, `delay_level` and `deliver_at`.",
    ),
    "ILLEGAL_LEASE": Meaning(
        "The lease, or the time it is to be extended to, is out of range.",
        "Use 1 s to 12 h; `auto_extend` is longer than the lease and at most 3 h.",
    ),
    "ILLEGAL_SETTING": Meaning(
        "A setting of a topic, group, alert or schedule is out of its range or does not go with "
        "another one.",
        "`errors` names each setting with the range it must be in.",
    ),
    "RECEIPT_INVALID": Meaning(
        "The receipt was not made by this service for this group, or is too old.",
        "Settle with the receipt exactly as it was received, in the group that received it.",
    ),
    "CURSOR_INVALID": Meaning(
        "The cursor was made for another question, or by somebody else.",
        "Repeat all parameters but `limit` as they were, or begin again without a cursor.",
    ),
    "UNAUTHENTICATED": Meaning(
        "There is no API key, or none that is valid now. It is not said what is wrong with it.",
        "Send `Authorization: Bearer mqk_...` with a key that is neither revoked nor expired.",
    ),
    "PLAN_LIMIT": Meaning(
        "The plan of the tenant does not include this.",
        "Change the plan, or do without.",
    ),
    "FORBIDDEN": Meaning(
        "The key is valid and may not do this.",
        "Use a key with the scope that `detail` names.",
    ),
    "QUOTA_EXCEEDED": Meaning(
        "One more of this would be more than the tenant, namespace or group may have.",
        "Delete what is not needed, or ask for a larger quota.",
    ),
    "NOT_FOUND": Meaning(
        "There is nothing at this path.",
        "Compare the path with the reference; it has no slash at its end.",
    ),
    "NAMESPACE_NOT_FOUND": Meaning(
        "The key has no such namespace. One of somebody else looks the same.",
        "Use the namespace of the key; a key that is bound to one can write `-` for it.",
    ),
    "TOPIC_NOT_FOUND": Meaning(
        "The namespace has no such topic.",
        "Create it with `PUT`, or correct the name.",
    ),
    "GROUP_NOT_FOUND": Meaning(
        "The namespace has no such consumer group.",
        "Create it with `PUT`, or correct the name.",
    ),
    "QUEUE_NOT_FOUND": Meaning(
        "The topic has fewer queues.",
        "Use a number below the topic's `queues`.",
    ),
    "MESSAGE_NOT_FOUND": Meaning(
        "There is no such message: it never was, has expired, or was cancelled.",
        "Nothing, unless the id is misspelt.",
    ),
    "TASK_NOT_FOUND": Meaning(
        "The namespace has no such task, or not any more.",
        "List the tasks to see which there are.",
    ),
    "REPORT_NOT_FOUND": Meaning(
        "There is no report of this name, no run of this id, or nothing reported yet.",
        "List the reports and the runs to see which there are.",
    ),
    "KEY_NOT_FOUND": Meaning(
        "The tenant has no such API key.",
        "List the keys to see which there are.",
    ),
    "MEMBER_NOT_FOUND": Meaning(
        "The tenant has no such member.",
        "List the members to see who there is.",
    ),
    "INVITATION_NOT_FOUND": Meaning(
        "There is no such invitation: it never was, was used, taken back, or has expired.",
        "Ask an admin of the tenant for another one.",
    ),
    "ALERT_NOT_FOUND": Meaning(
        "The namespace has no such alert.",
        "List the alerts to see which there are.",
    ),
    "ISSUE_NOT_FOUND": Meaning(
        "The namespace has no such issue: it never had, or it is too old.",
        "List the issues to see which there are.",
    ),
    "SCHEDULE_NOT_FOUND": Meaning(
        "The namespace has no such schedule.",
        "List the schedules to see which there are.",
    ),
    "MASK_NOT_FOUND": Meaning(
        "The namespace has no such masking rule.",
        "Read the masking of the namespace to see which there are.",
    ),
    "METHOD_NOT_ALLOWED": Meaning(
        "The path is right and takes another method.",
        "Use one of those in the header `Allow`.",
    ),
    "NOT_ACCEPTABLE": Meaning(
        "No form of the answer is one that `Accept` allows.",
        "Accept `application/json`.",
    ),
    "REQUEST_TIMEOUT": Meaning(
        "The request did not arrive completely in time. Nothing of it was stored.",
        "Send it again, over a better line or in smaller parts.",
    ),
    "NAMESPACE_READ_ONLY": Meaning(
        "Somebody has made the namespace read-only: nothing of it is changed, dry runs included. "
        "Producing and consuming go on.",
        "Wait, or have an admin end it: `PATCH /v1/namespaces/{name}`. `detail` says since when.",
    ),
    "CONFLICT": Meaning(
        "What is asked for does not go with the present state.",
        "Read the present state, and decide anew.",
    ),
    "MESSAGE_TYPE_CONFLICT": Meaning(
        "The topic's type does not take such a message, as one with a delay in a topic of type "
        "`normal`.",
        "Produce to a topic of the right type, or leave the field out.",
    ),
    "ALREADY_DELIVERED": Meaning(
        "The scheduled message has been delivered, so that it cannot be cancelled or sent.",
        "Nothing: it is with its consumers.",
    ),
    "IDEMPOTENCY_IN_PROGRESS": Meaning(
        "The first request with this idempotency key has not been answered yet.",
        "Ask again after a pause; the answer of the first one comes then.",
    ),
    "SUBSCRIPTION_CONFLICT": Meaning(
        "Other members of the group read the topic through another filter.",
        "Let all members of a group have the same filter, or use a group of its own. While they "
        "change to another one, try again: `retry_after_ms` says when the others are gone if they "
        "stop reading now.",
    ),
    "LEASE_EXPIRED": Meaning(
        "The lease ended, and the message was given to somebody else or settled since.",
        "Forget the message: it is no longer yours. Lease longer, or extend in time.",
    ),
    "PRECONDITION_FAILED": Meaning(
        "What `If-Match` names is not the present revision: somebody has changed it.",
        "Read it again, and repeat the change with the new `ETag`.",
    ),
    "BODY_TOO_LARGE": Meaning(
        "The body, or all bodies of a batch together, are larger than may be.",
        "Send less at a time; keep large things elsewhere and send where they are.",
    ),
    "PROPERTIES_TOO_LARGE": Meaning(
        "Properties, tag and keys together are larger than a message holds.",
        "At most 128 properties and 16 KiB; put the rest into the body.",
    ),
    "UNSUPPORTED_MEDIA_TYPE": Meaning(
        "The body has a content type, or an encoding, that is not taken here.",
        "Send JSON (batches also as `application/x-ndjson`) without a content encoding.",
    ),
    "SCHEMA_REJECTED": Meaning(
        "The body does not fit the schema of the topic.",
        "Correct the message, or register a version of the schema that allows it.",
    ),
    "IDEMPOTENCY_KEY_REUSED": Meaning(
        "The idempotency key was used with another request.",
        "Use a new key for each request that is not a repeat.",
    ),
    "RATE_LIMITED": Meaning(
        "Too many requests, bytes or connections at a time. Nothing was stored.",
        "Wait for `Retry-After`, and then go slower.",
    ),
    "INFLIGHT_LIMIT": Meaning(
        "Too many messages are leased and not settled.",
        "Settle some of them first.",
    ),
    "HEADERS_TOO_LARGE": Meaning(
        "The head of the request is larger than 64 KiB.",
        "Send fewer or shorter headers; long properties belong into JSON.",
    ),
    "INTERNAL": Meaning(
        "The service has failed. If a message was offered it may be stored, unless `stored` is "
        "false.",
        "Report `request_id`: it finds the cause in the log.",
    ),
    "ENGINE_UNAVAILABLE": Meaning(
        "The storage engine does not answer. Nothing was stored or changed.",
        "Send it again after `retry_after_ms`, with growing pauses.",
    ),
    "OUTCOME_UNKNOWN": Meaning(
        "The storage engine went away, or said nothing for some seconds, before it had answered: "
        "what was asked may have been done.",
        "Send it again if doing it twice is better than not at all.",
    ),
    "METADATA_UNAVAILABLE": Meaning(
        "The database of keys and settings does not answer. Nothing was stored.",
        "Send it again after `retry_after_ms`, with growing pauses.",
    ),
    "TICKETS_UNAVAILABLE": Meaning(
        "Valkey, where tickets for sockets are kept, does not answer.",
        "Repeat after `retry_after_ms` with a new ticket. Keys in the handshake need no Valkey.",
    ),
    "CONNECTIONS_UNKNOWN": Meaning(
        "Valkey does not answer, over which web processes tell each other of their open sockets.",
        "Repeat after `retry_after_ms`. The sockets themselves go on.",
    ),
    "NOT_LEADER": Meaning(
        "Another node has the topic.",
        "Send it again; it is routed anew.",
    ),
    "DRAINING": Meaning(
        "This process is about to stop.",
        "Connect again: another process takes over.",
    ),
    "STORAGE_BUSY": Meaning(
        "More waits for the disk than may. Nothing was stored.",
        "Send it again after `retry_after_ms`, and slower.",
    ),
    "HTTP_VERSION_UNSUPPORTED": Meaning(
        "The request is not HTTP/1.1 or 1.0.",
        "Send HTTP/1.1; a proxy may speak other versions with clients.",
    ),
    "STORAGE_FULL": Meaning(
        "The disk of the storage engine is full. Nothing was stored; receiving and settling go on.",
        "Consume, or wait until the operator has made room.",
    ),
}

RESERVED: Final = frozenset({
    "NOT_LEADER", "PLAN_LIMIT", "SCHEMA_REJECTED",
})  # fmt: skip

# Codes that stand only in ``errors[].code``, where they say more than the code of the whole.
ITEM_MEANINGS: Final = {
    "BATCH_EMPTY": "a batch without a message",
    "BATCH_TOO_LONG": "a batch of more than 1,000 messages",
    "BODY_COUNT": "not exactly one of `body`, `body_json` and `body_b64`",
    "BODY_EMPTY": "a message without a byte in its body",
    "BODY_NOT_BASE64": "a text that is not base64",
    "IDEMPOTENCY_KEY": "an idempotency key that is blank, too long, or has other characters",
    "ILLEGAL_MESSAGE_GROUP": "a message group that is blank, too long, or has control characters",
    "INVALID_JSON": "bytes that are not JSON, or not UTF-8",
    "INVALID_VALUE": "a value of the wrong kind, a field that is missing or that nobody knows",
}

# Codes of ``err`` and ``lost`` frames and of ``failed`` on a WebSocket, beside those above.
FRAME_MEANINGS: Final = {
    "UNKNOWN_OP": "a command that the protocol does not have",
    "UNKNOWN_TAG": "a tag that the subscription has never had, or has settled",
}
