"""What the control plane sends and receives, by the names of the API."""

# Made from the service's OpenAPI document by `python -m tests.docs`; change that.

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import msgspec

from .control_calls import MessageBody

if TYPE_CHECKING:
    AssignmentStrategy = Literal[
        "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY"
    ]
    CatchUp = Literal["none", "latest"]
    Dispatch = Literal["shared", "exclusive", "broadcast"]
    Durability = Literal["sync", "async", "replicated"]
    EventKind = Literal[
        "born", "scheduled", "stored", "delivery_failed", "ready_again", "dead_lettered", "redriven"
    ]
    FailureOutcome = Literal["gone", "not_found", "no_topic", "damaged"]
    IssueKind = Literal["dead_letter"]
    IssueState = Literal["open", "acknowledged", "resolved", "ignored"]
    KeyKind = Literal["api", "access"]
    KeyState = Literal["active", "expired", "revoked"]
    LagIs = Literal["exact", "estimated"]
    MessageType = Literal["mixed", "normal", "fifo", "delay", "transaction"]

    class RetryPolicyLevels(TypedDict):
        policy: Literal["levels"]

    class _RetryPolicyList(TypedDict):
        policy: Literal["list"]

    class RetryPolicyList(_RetryPolicyList, total=False):
        delays: list[str] | None
        delays_ms: list[int] | None

    class _RetryPolicyExponential(TypedDict):
        policy: Literal["exponential"]

    class RetryPolicyExponential(_RetryPolicyExponential, total=False):
        start: str | None
        start_ms: int | None
        factor: float | None
        cap: str | None
        cap_ms: int | None

    RetryPolicy = RetryPolicyLevels | RetryPolicyList | RetryPolicyExponential

    Role = Literal["owner", "admin", "developer", "viewer"]
    ScheduleState = Literal["active", "paused", "failing"]

    class SeekToTime(TypedDict):
        time: datetime

    class SeekToOffset(TypedDict):
        offset: int
        queue: int

    class SeekToShift(TypedDict):
        shift: int

    SeekTo = Literal["earliest", "latest"] | SeekToTime | SeekToOffset | SeekToShift

    StartFrom = Literal["earliest", "latest", "timestamp"]
    StateChangeReason = Literal["first", "again", "quiet", "by_hand"]
    TaskKind = Literal["redrive", "purge"]
    TaskState = Literal["pending", "running", "done", "failed", "cancelled"]
else:
    AssignmentStrategy = str
    CatchUp = str
    Dispatch = str
    Durability = str
    EventKind = str
    FailureOutcome = str
    IssueKind = str
    IssueState = str
    KeyKind = str
    KeyState = str
    LagIs = str
    MessageType = str
    RetryPolicy = dict[str, Any]
    Role = str
    ScheduleState = str
    SeekTo = Any
    StartFrom = str
    StateChangeReason = str
    TaskKind = str
    TaskState = str


class Assignment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Additional settings of some strategies."""

    consumers: dict[str, list[int]] | None = None
    rooms: dict[str, list[int]] | None = None
    read: list[str] | None = None
    within_room: str | None = None


class BroadcastClientOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`lag` is None for one that reads none of the topics; `dropped` counts from the engine's
    start.
    """

    client_id: str
    lag: int | None
    ready: int
    inflight: int
    dropped: int
    seen_at: datetime


class BroadcastClientsOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page by client id; `next` is the `after` of the following page, None on the last one."""

    total: int
    clients: list[BroadcastClientOut]
    next: str | None


class BrowseResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`is_complete` is false while the key index lacks the newest messages. `scanned`: with
    `filter` or `contains`, how many messages were checked for this page.
    """

    messages: list[StoredMessage]
    next_cursor: str | None
    is_complete: bool
    scanned: int | None = None


class ClientOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`consumer`: its consumer_id, or the service's own name for a socket or request without
    one. `queues`: assigned to it; None in a shared group, where it may read any, and in a
    broadcast one, where each `client_id` reads all.
    """

    consumer: str
    queues: list[int] | None
    waiting: bool
    inflight: int
    zone: str | None
    heard_at: datetime
    client_id: str | None


class CommitOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topic: str
    queue: int
    from_offset: int
    to_offset: int
    min_offset: int
    max_offset: int


class DeadLetterMessage(MessageBody, frozen=True, kw_only=True, omit_defaults=True):
    """`topic`: its original topic. `attempts`: its deliveries, all of which failed."""

    id: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    born_at: datetime
    stored_at: datetime
    topic: str
    reason: str
    attempts: int
    first_delivered_at: datetime | None
    last_delivered_at: datetime | None


class DeadLettersResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`is_complete` is false while the key index lacks the newest messages. `scanned`: with
    `reason`, how many dead letters were checked for this page.
    """

    messages: list[DeadLetterMessage]
    next_cursor: str | None
    is_complete: bool
    scanned: int | None = None


class DryRunOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`is_complete` is false when counting stopped early: there are more than `count`."""

    dry_run: bool | None = None
    count: int
    is_complete: bool
    topics: list[TopicCountOut]
    not_found: list[str]


class EventOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Null fields do not belong to the event, or are unknown."""

    event: EventKind
    at: datetime
    topic: str | None
    queue: int | None
    offset: int | None
    group: str | None
    attempt: int | None
    consumer: str | None
    reason: str | None
    delivered_at: datetime | None
    due_at: datetime | None


class FailureListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page; `next` is the `after` of the following page. `unlisted`: counted, not stored."""

    failures: list[FailureOut]
    next: int | None
    unlisted: int


class FailureOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is None for an unreadable message, `offset` if no message has the id."""

    id: str | None
    offset: int | None
    outcome: FailureOutcome


class FilterIn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All conditions must match; times are those at which messages became dead letters."""

    key: str | None = None
    tag: str | None = None
    since: datetime | None = msgspec.field(name="from", default=None)
    until: datetime | None = msgspec.field(name="to", default=None)
    reason: str | None = None


class FilterOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: str | None
    tags: list[str]
    since: datetime | None = msgspec.field(name="from")
    until: datetime | None = msgspec.field(name="to")
    reason: str | None


class FormerSecretOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The secret before the last rotation, while it is valid."""

    last4: str
    until: datetime


class GroupClientsOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For the topics that the group has read, by name."""

    group: str
    topics: list[TopicClientsOut]


class GroupLagOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the group still has to do of the topics below: `lag` is `ready` (not delivered) +
    `inflight` + `waiting_retry`.
    """

    group: str
    client_id: str | None = None
    dropped: int | None = None
    clients: BroadcastClientsOut | None = None
    lag: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    retry: RetryOut
    offset_lag: int | None
    topics: list[TopicProgressOut]


class GroupListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, by name; `next` is the `after` of the following page, None on the last one."""

    groups: list[GroupOut]
    next: str | None


class GroupOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`lag` is None in lists, and if the engine cannot report it; `max_attempts` is None for
    no limit.
    """

    name: str
    namespace: str
    start_from: StartFrom
    start_time: datetime | None
    lease: str
    lease_ms: int
    consume_timeout: str
    consume_timeout_ms: int
    max_attempts: int | None
    retry: RetryPolicy
    paused: bool
    dispatch: Dispatch
    strategy: AssignmentStrategy
    assignment: Assignment
    ordered: bool
    batch_per_group: int
    created_at: datetime
    updated_at: datetime
    lag: LagOut | None = None
    etag: str | None = None  # for `if_match`; None in a list


class GroupStateOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current state of the message for a group."""

    group: str
    topic: str
    state: str
    attempts: int
    consumer: str | None
    lease_until: datetime | None
    due_at: datetime | None
    client_id: str | None


class IssueDetailOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`sample`: the newest reason as it was written. `hours`: the newest with dead letters,
    `messages`: the newest; `history`: the newest changes first.
    """

    id: str
    namespace: str
    kind: IssueKind
    group: str
    topic: str | None
    reason: str | None
    state: IssueState
    count: int
    first_seen: datetime
    last_seen: datetime
    reopened: int
    changed_at: datetime
    changed_by: str | None
    sample: str | None
    hours: list[IssueHourOut]
    messages: list[IssueMessageOut] | None
    history: list[IssueEventOut]


class IssueEventOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of state. `why`: first or recurring dead letters, a quiet period, or a user;
    `by` is None for the service.
    """

    number: int
    state: IssueState
    why: StateChangeReason
    at: datetime
    by: str | None


class IssueHourOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Dead letters of one hour; hours without any are omitted."""

    at: datetime
    count: int


class IssueListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last seen first; `next` is the `before` of the following page, None on the last one."""

    issues: list[IssueOut]
    next: str | None
    open: int
    others: int
    unseen: int
    resolve_after: str | None


class IssueMessageOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of the newest messages, by its id among the dead letters of the group."""

    id: str
    at: datetime


class IssueOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`reason`: the cause, in which placeholders such as <n> stand for what differs; ""
    without a reason, None for keys that may not read messages of the group. `count`: dead
    letters, each once. `changed_by` is None if the service did it.
    """

    id: str
    namespace: str
    kind: IssueKind
    group: str
    topic: str | None
    reason: str | None
    state: IssueState
    count: int
    first_seen: datetime
    last_seen: datetime
    reopened: int
    changed_at: datetime
    changed_by: str | None


class KeyListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, by id; `next` is the `after` of the following page, None on the last one."""

    keys: list[KeyOut]
    next: str | None


class KeyOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`namespace` None: the whole tenant. `last_used_at` is accurate to about a minute.
    `needs_former_pepper`: use an API key, or rotate an access key, before you remove the
    pepper.
    """

    id: str
    kind: KeyKind
    name: str
    namespace: str | None
    role: Role
    scopes: list[str]
    state: KeyState
    last4: str
    former_secret: FormerSecretOut | None
    needs_former_pepper: bool
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    etag: str | None = None  # for `if_match`; None in a list


class LagHistoryOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    group: str
    topic: str | None
    resolution_ms: int
    points: list[LagPointOut]


class LagOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For the topics the group has read; all None before it has read one: unknown is never 0."""

    total: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    queues: list[QueueLagOut]


class LagPointOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time span that starts at `at`. `inflight` and `waiting_retry` are parts of `lag`.
    `members` and `dead_letters` are of the whole group, and None for a single topic;
    `dead_letters` is the all-time count. `lag_is` is estimated if any lag of the span is.
    """

    at: datetime
    lag: int | None
    lag_is: LagIs | None
    lag_average: float | None
    lag_max: int | None
    lag_ms: int | None
    inflight: int | None
    waiting_retry: int | None
    settled_per_s: float | None
    members: int | None
    dead_letters: int | None


class LastRunOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`message_id`: None if it was not sent; then `error` has the reason."""

    planned_at: datetime
    message_id: str | None
    error: str | None


class NamespaceScheduled(MessageBody, frozen=True, kw_only=True, omit_defaults=True):
    """A scheduled message in a list over several topics."""

    id: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    born_at: datetime
    stored_at: datetime
    deliver_at: datetime
    recall_handle: str
    topic: str


class NamespaceScheduledResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    messages: list[NamespaceScheduled]
    next_cursor: str | None


class NewKeyOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`key` is shown only in this response: the API key, or the secret of the access key `id`."""

    id: str
    kind: KeyKind
    name: str
    namespace: str | None
    role: Role
    scopes: list[str]
    state: KeyState
    last4: str
    former_secret: FormerSecretOut | None
    needs_former_pepper: bool
    created_by: str | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    key: str
    etag: str | None = None  # for `if_match`; None in a list


class OffsetResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`offset` is `max_offset` if no message was stored at or after the time."""

    offset: int
    min_offset: int
    max_offset: int


class OffsetsOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For the topics that the group has read, or for the requested one."""

    group: str
    offsets: list[QueueOffsetOut]


class PreviewOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The next times of an expression."""

    next_runs: list[str]


class PullResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status` is one of RocketMQ's pull statuses."""

    status: str
    min_offset: int
    max_offset: int
    next_offset: int
    messages: list[StoredMessage]


class PurgeOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a purge deleted, or would delete."""

    topic: str
    dry_run: bool
    messages: int
    inflight: int
    retries: int
    queues: list[PurgedQueueOut]


class PurgedQueueOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Messages in [from_offset, to_offset) of one queue, which then starts at `to_offset`."""

    queue: int
    from_offset: int
    to_offset: int


class QueueLagOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Progress on one queue; `offset_lag` is max_offset - consumer_offset."""

    topic: str
    queue: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    inflight: int


class QueueOffsetOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`consumer_offset` is None on a queue that the group has never read."""

    topic: str
    queue: int
    min_offset: int
    max_offset: int
    consumer_offset: int | None


class QueueOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Readable range [min_offset, max_offset) of one queue."""

    queue: int
    min_offset: int
    max_offset: int


class QueueProgressOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`offset_lag`: max_offset - consumer_offset. `lag_ms`: age of the first unsettled
    message; None if there is none.
    """

    queue: int
    consumer_offset: int
    max_offset: int
    offset_lag: int
    lag_ms: int | None
    oldest_stored_at: datetime | None
    ready: int
    inflight: int


class RateHistoryOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    topic: str
    resolution_ms: int
    points: list[RatePointOut]


class RatePointOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`stored`: all messages stored so far, `readable`: those that could still be read."""

    at: datetime
    stored: int | None
    readable: int | None
    stored_per_s: float | None


class Rescheduled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`recall_handle`: the new one; the former one remains valid."""

    id: str
    topic: str
    state: str
    deliver_at: datetime
    recall_handle: str


class RetryOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Failed messages: `waiting` can be redelivered now, `scheduled` later."""

    waiting: int | None
    scheduled: int | None


class ScheduleListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`next`: the `after` of the following page, None on the last one."""

    schedules: list[ScheduleOut]
    next: str | None


class ScheduleMessageOut(MessageBody, frozen=True, kw_only=True, omit_defaults=True):
    """The message to send; one of the three bodies."""

    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int | None


class ScheduleOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`message`: None for keys that may not produce to the topic. `next_runs`: only for a
    single schedule that is not paused. `missed_at`: the last run that `catch_up: none`
    skipped.
    """

    id: str
    name: str
    namespace: str
    topic: str
    cron: str
    time_zone: str
    catch_up: CatchUp
    enabled: bool
    description: str
    message: ScheduleMessageOut | None
    state: ScheduleState
    error: str | None
    retrying: bool
    last_run: LastRunOut | None
    missed_at: datetime | None
    next_run_at: datetime | None
    next_runs: list[str] | None = None
    created_by: str
    created_at: datetime
    updated_at: datetime
    etag: str | None = None  # for `if_match`; None in a list


class ScheduledDone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`state`: `cancelled` or `sent`."""

    id: str
    topic: str
    state: str


class ScheduledMessage(MessageBody, frozen=True, kw_only=True, omit_defaults=True):
    """`queue` is its destination; `offset` is its position in the schedule until then."""

    id: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    born_at: datetime
    stored_at: datetime
    deliver_at: datetime
    recall_handle: str


class ScheduledResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    messages: list[ScheduledMessage]
    next_cursor: str | None


class SeekOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a seek did, or would do. Messages of `retry` are not affected."""

    group: str
    topic: str
    clients: int | None
    dry_run: bool
    skipped: int | None
    replayed: int | None
    retry: RetryOut
    queues: list[SeekQueueOut]


class SeekQueueOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`from_offset`, `skipped` and `replayed` are None on a queue the group never read."""

    queue: int
    min_offset: int
    max_offset: int
    from_offset: int | None
    to_offset: int
    skipped: int | None
    replayed: int | None
    inflight: int


class SentNowOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message that was sent immediately."""

    id: str
    topic: str
    queue: int
    offset: int
    stored_at: datetime


class StoredMessage(MessageBody, frozen=True, kw_only=True, omit_defaults=True):
    """One of the bodies is set; in MessagePack always `body`, as bytes."""

    id: str
    tag: str | None
    keys: list[str]
    message_group: str | None
    properties: dict[str, str]
    queue: int
    offset: int
    born_at: datetime
    stored_at: datetime


class TaskListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, newest first; `next` is the `before` of the following page."""

    tasks: list[TaskOut]
    next: str | None


class TaskOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`total` is None if unknown; `looked_at` of `to_look_at` are done."""

    id: str
    kind: TaskKind
    state: TaskState
    group: str
    ids: int | None
    filter: FilterOut | None
    all: bool
    target: str | None
    rate: int
    total: int | None
    moved: int
    skipped: int
    failed: int
    looked_at: int
    to_look_at: int
    eta_ms: int | None
    error: str | None
    created_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class TicketOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`ticket` opens one socket within `expires_in_ms`: offer it as a subprotocol, prefixed
    with `ticket.`, in addition to `mq.v1.json` or `mq.v1.msgpack`.
    """

    ticket: str
    expires_in_ms: int
    namespace: str | None
    scopes: list[str]


class TopicClientsOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`generation` counts the changes of assignment, `unassigned` are queues without a
    consumer; both None unless the group is exclusive. `is_complete`: whether `clients` are
    all; the latest come first. `filter`: that of all members, None for everything.
    `held_up`: the maximum number of messages of a queue is in flight, while others wait
    there.
    """

    topic: str
    generation: int | None
    unassigned: list[int] | None
    clients: list[ClientOut]
    is_complete: bool
    filter: str | None
    held_up: bool


class TopicCountOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`topic` is None if messages do not name one; without `exists` they would not be moved."""

    topic: str | None
    count: int
    exists: bool


class TopicListOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page, by name; `next` is the `after` of the following page, None on the last one."""

    topics: list[TopicOut]
    next: str | None


class TopicOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`queue_offsets` is None in lists, and if the engine cannot report them."""

    name: str
    namespace: str
    type: MessageType
    queues: int
    durability: Durability
    retention: str
    retention_ms: int
    body_bytes_max: int
    created_at: datetime
    updated_at: datetime
    queue_offsets: list[QueueOut] | None = None
    etag: str | None = None  # for `if_match`; None in a list


class TopicProgressOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`lag` is `ready` + `inflight` + `waiting_retry`, and `lag_ms` the age of the oldest of
    all these. All None if the group has no offset yet: unknown is never 0.
    """

    topic: str
    lag: int | None
    lag_is: LagIs | None
    lag_ms: int | None
    ready: int | None
    inflight: int | None
    waiting_retry: int | None
    retry: RetryOut
    offset_lag: int | None
    queues: list[QueueProgressOut]


class TraceOut(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`is_complete` is false when events or groups may be missing: there were too many, or the
    key index lacks the newest messages.
    """

    id: str
    events: list[EventOut]
    groups: list[GroupStateOut]
    is_complete: bool
