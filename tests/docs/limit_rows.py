"""Which limits the page of limits lists, and where the code defines each.

A row is words and places; the number comes from the place. A place is ``module:NAME``, or
``module:Class.field`` for the default of a struct, or
``module:SETTING.attribute`` for a row of a table of settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_D: Final = "mqservice.delivery.limits:"
_F: Final = "mqservice.protocol.limits:"
_E: Final = "storage_engine.config:StoreConfig."
_Q: Final = "mqservice.quotas.limits:QuotaLimits."
_T: Final = "mqservice.topics.settings:"
_G: Final = "mqservice.groups.settings:"
_A: Final = "mqservice.accounts.limits:"
_AL: Final = "mqservice.alerts.limits:"
_IS: Final = "mqservice.issues.limits:"
_S: Final = "mqservice.schedules.limits:"
_SC: Final = "mqservice.topic_schemas.limits:"
_M: Final = "mqservice.masking.limits:"
_B: Final = "mqservice.web.socket_budget:BudgetLimits."
_TASK: Final = "mqservice.tasks.limits:"
_C: Final = "mqservice.web.connection_limits:ConnectionLimits."


@dataclass(frozen=True)
class Row:
    """``text`` with ``{}`` for each place's number, in their order."""

    what: str
    text: str
    places: tuple[str, ...]


def _row(what: str, text: str, *places: str) -> Row:
    assert text.count("{}") == len(places), what
    return Row(what, text, places)


SECTIONS: Final[dict[str, tuple[Row, ...]]] = {
    "Names": (
        _row("Namespace, topic, group", "1 to {} of `A-Z a-z 0-9 _ -`",
             "mqservice.lib.names:NAME_CHARS_MAX"),
        _row("`client_id` of a broadcast group", "1 to {} characters",
             "storage_engine.delivery.clients:CLIENT_ID_CHARS_MAX"),
        _row("`attempt_id` of a receive", "{} characters", _D + "ATTEMPT_ID_CHARS_MAX"),
        _row("`Idempotency-Key`, `dedup_id`", "1 to {} visible ASCII characters",
             "mqservice.delivery.request_keys:KEY_CHARS_MAX"),
    ),
    "A message": (
        _row("Body", "{}, not empty; a topic may set less, from {}",
             _D + "BODY_BYTES_MAX", _T + "BODY_BYTES_MAX.low"),
        _row("Tag", "{}", _D + "TAG_BYTES_MAX"),
        _row("Keys", "{} of {} each", _D + "KEY_COUNT_MAX", _D + "KEY_BYTES_MAX"),
        _row("Properties", "{}, {} in all, names and values",
             _D + "PROPERTY_COUNT_MAX", _D + "PROPERTIES_BYTES_MAX"),
        _row("Message group", "{} characters", _D + "MESSAGE_GROUP_CHARS_MAX"),
        _row("Delay", "up to {}; {} levels of RocketMQ",
             "storage_engine.records.delay_levels:DELAY_MS_MAX",
             "storage_engine.records.delay_levels:DELAY_LEVEL_MAX"),
        _row("A message is stored once under the same key for", "{}; at most {} keys, a quarter of "
             "them for one namespace; more are rejected",
             _E + "dedup_window_ms", _E + "dedup_count_max"),
    ),
    "Amazon SQS": (
        _row("Queue name", "{} characters, with `.fifo`",
             "mqservice.sqs.queue_names:QUEUE_NAME_CHARS_MAX"),
        _row("Batch", "{} entries, {} in all", "mqservice.sqs.batches:ENTRIES_MAX",
             "mqservice.sqs.send:BATCH_BYTES_MAX"),
        _row("Message attributes", "{} of a message",
             "mqservice.sqs.message_attributes:COUNT_MAX"),
        _row("Messages and wait of a receive", "{} messages, {} seconds",
             "mqservice.sqs.receive:MESSAGES_MAX",
             "mqservice.topics.queue_options:WAIT_SECONDS_MAX"),
        _row("Visibility timeout", "{} seconds", "mqservice.sqs.receive:VISIBILITY_SECONDS_MAX"),
        _row("Delay", "{} seconds", "mqservice.topics.queue_options:DELAY_SECONDS_MAX"),
        _row("Tags of a queue", "{}", "mqservice.topics.queue_options:TAGS_MAX"),
        _row("A policy of a queue", "{} characters",
             "mqservice.topics.queue_options:KEPT_CHARS_MAX"),
    ),
    "A request": (
        _row("Batch", "{} messages and {} of bodies", _D + "BATCH_COUNT_MAX",
             _D + "BATCH_BYTES_MAX"),
        _row("Body of a produce request", "{}, to allow for base64 and escapes",
             _D + "REQUEST_BYTES_MAX"),
        _row("Body of any other request", "{}", _D + "SMALL_REQUEST_BYTES_MAX"),
        _row("Time for a body to arrive", "{}", _D + "BODY_ARRIVAL_MS_MAX"),
        _row("Headers", "{}, {} in all", "mqservice.web.transport:HEADERS_MAX",
             "mqservice.web.transport:HEAD_BYTES_MAX"),
        _row("Time for a head, and for a WebSocket's handshake", "{}, {}", _C + "head_ms_max",
             _C + "handshake_ms_max"),
        _row("A body after its response", "is read for {}, or until nothing arrives for {}, and up "
             "to {}; then the connection is closed", _C + "unwanted_ms_max",
             _C + "unwanted_silence_ms_max", _C + "unwanted_bytes_max"),
        _row("A client that reads nothing of a response", "is dropped after {}; after {} when the "
             "connection is being closed", _C + "send_ms_max", _C + "closing_ms_max"),
        _row("Connections without a valid key, per web process", "{}, {} from one address; "
             "then the oldest is closed", _C + "strangers_max", _C + "strangers_of_address_max"),
        _row("Query", "{}", _D + "QUERY_BYTES_MAX"),
        _row("Faults listed in one error", "{}", _D + "FAULTS_MAX"),
        _row("A repeated control-plane request is recognised for", "{}",
             "mqservice.idempotency.middleware:WINDOW"),
    ),
    "Receive and settle": (
        _row("Messages per receive", "{} by default, {} at most, and {} of records",
             _D + "RECEIVE_COUNT_DEFAULT", _D + "RECEIVE_COUNT_MAX", _D + "RECEIVE_BYTES_MAX"),
        _row("Wait of a receive", "{} by default, {} at most", _D + "WAIT_MS_DEFAULT",
             _D + "WAIT_MS_MAX"),
        _row("Lease", "{} by default, {} to {}", _G + "LEASE.default", _D + "LEASE_MS_MIN",
             _D + "LEASE_MS_MAX"),
        _row("One delivery, however extended", "{} by default, {} to {} (`consume_timeout`)",
             _G + "CONSUME_TIMEOUT.default", _G + "CONSUME_TIMEOUT.low",
             _G + "CONSUME_TIMEOUT.high"),
        _row("`auto_extend`", "{}", _D + "AUTO_EXTEND_MS_MAX"),
        _row("Receipts per settle", "{}; {} of them `ack_upto`", _D + "SETTLE_COUNT_MAX",
             _D + "ACK_UPTO_COUNT_MAX"),
        _row("A receipt is valid for", "{}", _D + "RECEIPT_LIFE_MS"),
        _row("Reason of a nack", "{} characters", _D + "NACK_REASON_CHARS_MAX"),
        _row("A receive can be repeated for", "{}", "storage_engine.delivery.receive:RETAINED_MS"),
        _row("A silent member is removed after", "{}",
             "storage_engine.delivery.members:SILENCE_MS_MAX"),
        _row("In flight, of one group on one queue", "{}, at most {} beyond the consumer offset",
             _E + "inflight_count_max", _E + "inflight_span_max"),
    ),
    "Failures": (
        _row("Deliveries before a message is a dead letter",
             "1 + {} by default, 1 to {}, or no limit (`max_attempts`)",
             _G + "MAX_ATTEMPTS.default", _G + "MAX_ATTEMPTS.high"),
        _row("Delay after the first failure", "{} (level {}), then the levels above it",
             "tests.docs.limits:FIRST_RETRY_MS",
             "storage_engine.settings.retry_policy:FIRST_LEVEL"),
        _row("Delays of a list", "{}", "storage_engine.settings.retry_policy:LIST_COUNT_MAX"),
        _row("Suspension of an ordered queue or message group", "{} by default, {} to {}",
             "storage_engine.moves.retries:SUSPEND_MS",
             "storage_engine.moves.retries:SUSPEND_MS_MIN",
             "storage_engine.moves.retries:SUSPEND_MS_MAX"),
        _row("Messages skipped because their message group is busy",
             "{} for one group on one queue", _E + "message_group_waiting_max"),
        _row("Messages of a message group in one response", "1 by default, {} at most "
             "(`batch_per_group`)", _G + "BATCH_PER_GROUP.high"),
        _row("Redrive by ids", "{} ids", _TASK + "IDS_MAX"),
        _row("Active redrives and purges per namespace", "{}; the {} newest finished are stored",
             _TASK + "ACTIVE_TASKS_MAX", _TASK + "RETAINED_TASKS_MAX"),
        _row("Failures listed per task", "{}", _TASK + "FAILURES_MAX"),
    ),
    "Filters": (
        _row("Length of a filter", "{}", "storage_engine.filters.limits:TEXT_BYTES_MAX"),
        _row("Depth, and number of names, literals and operators", "{}, {}",
             "storage_engine.filters.limits:DEPTH_MAX", "storage_engine.filters.limits:NODES_MAX"),
    ),
    "Browse and pull": (
        _row("Messages per page", "{} by default, {} at most, and {}", _D + "BROWSE_COUNT_DEFAULT",
             _D + "BROWSE_COUNT_MAX", _D + "BROWSE_BYTES_MAX"),
        _row("String searched in bodies", "{}; {} are searched per page",
             _D + "CONTAINS_BYTES_MAX", _D + "SCAN_BYTES_MAX"),
        _row("Topics searched for a key per page", "{}, and {} messages of each",
             "mqservice.delivery.reading.all_topics:TOPICS_MAX",
             "mqservice.delivery.reading.all_topics:PER_TOPIC_MAX"),
        _row("Reason searched in dead letters", "{} characters; {} × {} are checked per page",
             _D + "REASON_QUERY_CHARS_MAX", _D + "CAUSE_PAGES_MAX", _D + "BROWSE_COUNT_MAX"),
    ),
    "WebSocket": (
        _row("Subscriptions per connection", "{}", _D + "SUBSCRIPTION_COUNT_MAX"),
        _row("Frame to the service", "{}", _F + "FRAME_BYTES_MAX"),
        _row("Frame to the client", "{}, or the `max_frame` of the client (at least {}); "
             "a larger message has a frame of its own",
             _D + "FRAME_BYTES_DEFAULT", _D + "FRAME_BYTES_MIN"),
        _row("Messages per frame", "{}", _D + "FRAME_MESSAGES_MAX"),
        _row("Commands per frame", "{}", _F + "FRAME_COMMANDS_MAX"),
        _row("Fragments per message", "{}", "mqservice.web.web_sockets:FRAGMENTS_MAX"),
        _row("Commands of a connection per second", "{}, then it is read more slowly",
             _B + "commands_per_second_max"),
        _row("Pings, pongs, small fragments, commands without effect",
             "{} per second, then it is read more slowly; after {} s in a row it is closed",
             _B + "no_ops_per_second_max", _B + "excess_s_max"),
        _row("Credit", "{} messages and {} by default; {} and {} at most",
             _F + "CREDIT_MSGS_DEFAULT", _F + "CREDIT_BYTES_DEFAULT", _F + "CREDIT_MSGS_MAX",
             _F + "CREDIT_BYTES_MAX"),
        _row("`hello` must arrive within", "{}", _D + "HELLO_MS"),
        _row("Ping after silence; pong within", "{}, {}", _F + "PING_MS", _F + "PONG_MS"),
        _row("A client that reads nothing is dropped after", "{}", _D + "STALL_MS"),
        _row("A session waits for its client", "{} by default, {} at most",
             _D + "RESUME_TTL_MS_DEFAULT", _D + "RESUME_TTL_MS_MAX"),
        _row("A ticket is valid for", "{}, once", "mqservice.accounts.tickets:LIFE_MS"),
    ),
    "Topics and groups": (
        _row("Queues of a topic", "{} by default, {} at most", _T + "QUEUES.default",
             _T + "QUEUES.high"),
        _row("Retention of a topic", "{} by default, {} to {}", _T + "RETENTION.default",
             _T + "RETENTION.low", _T + "RETENTION.high"),
        _row("Clients of a broadcast group", "{}; {} in all groups; forgotten {} after they were "
             "last seen", _E + "broadcast_client_count_max", _E + "broadcast_client_total_max",
             _E + "broadcast_client_expiry_ms"),
        _row("Members of an exclusive group on a topic", "{}", _E + "member_count_max"),
        _row("Topics and groups per definitions document", "{}",
             "mqservice.definitions.limits:DEFINITION_COUNT_MAX"),
        _row("Schemas in one export of definitions", "{} characters",
             "mqservice.definitions.limits:SCHEMA_CHARS_MAX"),
    ),
    "Quotas of a tenant": (
        _row("Produced per second", "{} messages, {}", _Q + "messages_in_per_second",
             _Q + "bytes_in_per_second"),
        _row("Read per second", "{} messages, {}", _Q + "messages_out_per_second",
             _Q + "bytes_out_per_second"),
        _row("Topics, groups", "{}, {}", _Q + "topic_count_max", _Q + "group_count_max"),
        _row("WebSockets open, receives waiting", "{}, {}", _Q + "connection_count_max",
             _Q + "parked_poll_count_max"),
        _row("Stored", "{}", _Q + "storage_bytes_max"),
        _row("In flight", "{} messages", _Q + "inflight_count_max"),
        _row("Control-plane requests per second", "{}", _Q + "control_requests_per_second"),
        _row("Rejections per second and web process", "{}; more wait, in up to {} of memory",
             "mqservice.quotas.rejection_pacing:REJECTIONS_PER_SECOND",
             "mqservice.quotas.rejection_pacing:WAITING_BYTES_MAX"),
    ),
    "Access": (
        _row("Keys of a tenant", "{} not revoked", _A + "KEYS_MAX"),
        _row("Scopes per key", "{}", "mqservice.accounts.scopes:SCOPES_MAX"),
        _row("Lifetime of a key", "{}", _A + "KEY_LIFE_MAX"),
        _row("A signature of AWS", "{} from the service's clock; in a query at most {}",
             "mqservice.sqs.signature:SKEW_MS", "mqservice.sqs.signature:EXPIRES_MS_MAX"),
        _row("The same signature again", "for {} in each web process",
             "mqservice.sqs.replays:REPEAT_MS_MAX"),
        _row("Overlap of a rotation", "{} by default, {} at most", _A + "OVERLAP_DEFAULT",
             _A + "OVERLAP_MAX"),
        _row("Namespaces, members per tenant", "{}, {}", _A + "NAMESPACES_MAX",
             _A + "MEMBERS_MAX"),
        _row("Open invitations; lifetime of one", "{}; {} by default, {} at most",
             _A + "INVITATIONS_MAX", _A + "INVITATION_LIFE_DEFAULT", _A + "INVITATION_LIFE_MAX"),
    ),
    "Alerts, issues, schedules, masking, schemas and reports": (
        _row("Alert rules per namespace; addresses of one", "{}; {}", _AL + "RULES_MAX",
             _AL + "EMAILS_MAX"),
        _row("A webhook must respond within", "{}; {} attempts", _AL + "WEBHOOK_MS_MAX",
             _AL + "ATTEMPTS_MAX"),
        _row("Events of a rule are stored for", "{}, {} at most", _AL + "EVENTS_RETAINED_MS",
             _AL + "EVENTS_RETAINED_MAX"),
        _row("Issues per namespace; characters of a cause", "{}; {}", _IS + "ISSUES_MAX",
             _IS + "REASON_CHARS_MAX"),
        _row("Resolved or ignored issues are stored for", "{} after they were last seen",
             _IS + "RETAINED_MS"),
        _row("Dead letters checked every 10 s; of one group", "{}; {} × {}",
             _IS + "SCANNED_MAX", _IS + "BATCHES_MAX", _IS + "BATCH_LETTERS"),
        _row("Schedules per namespace; the body of one", "{}; {}", _S + "SCHEDULES_MAX",
             _S + "BODY_BYTES_MAX"),
        _row("A run of a schedule is missed after", "{}; retried after {} to {}",
             _S + "MISSED_MS", _S + "PAUSE_MS_MIN", _S + "PAUSE_MS_MAX"),
        _row("Masking rules per namespace", "{}; a path has {} steps", _M + "RULES_MAX",
             _M + "STEPS_MAX"),
        _row("A body whose fields are masked", "{}; a larger one is hidden completely",
             _M + "JSON_BYTES_MAX"),
        _row("Definition of a topic's schema", "{}", _SC + "DEFINITION_BYTES_MAX"),
        _row("A body that is decoded by a schema", "{}, {} values, {} levels",
             _SC + "DECODED_BYTES_MAX", _SC + "VALUES_MAX", _SC + "NESTING_MAX"),
        _row("Usage is stored for", "{}", "mqservice.usage.limits:RETAINED_MS"),
        _row("Days per response of reports, per run by hand", "{}, {}",
             "mqservice.reports.limits:RANGE_DAYS_MAX",
             "mqservice.reports.limits:REQUESTED_DAYS_MAX"),
    ),
}  # fmt: skip
