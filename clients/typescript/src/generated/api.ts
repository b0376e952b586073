// Made from the service's OpenAPI document by `python -m tests.docs`; do not edit it.

import type { Call, CallOptions } from "../rest.js";

/** What to do about each error. */
export const REMEDIES = {
  ALERT_NOT_FOUND: "List the alerts.",
  ALREADY_DELIVERED: "Nothing: its consumers have it.",
  BAD_REQUEST: "See `errors`: each entry points to one place. Correct them and send the request again.",
  BODY_TOO_LARGE: "Send less per request; store large data elsewhere and send its address.",
  CONFLICT: "Read the current state, and decide again.",
  CONNECTIONS_UNKNOWN: "Repeat after `retry_after_ms`. The sockets themselves are not affected.",
  CURSOR_INVALID: "Repeat all parameters except `limit` unchanged, or start again without a cursor.",
  DRAINING: "Reconnect: another process takes over.",
  ENGINE_UNAVAILABLE: "Send it again after `retry_after_ms`, with growing delays.",
  FORBIDDEN: "Use a key with the scope that `detail` names.",
  GROUP_NOT_FOUND: "Create it with `PUT`, or correct the name.",
  HEADERS_TOO_LARGE: "Send fewer or shorter headers; put long properties into JSON.",
  HTTP_VERSION_UNSUPPORTED: "Send HTTP/1.1; a proxy may use other versions with clients.",
  IDEMPOTENCY_IN_PROGRESS: "Repeat the request later to get the response of the first one.",
  IDEMPOTENCY_KEY_REUSED: "Use a new key for each request that is not a repeat.",
  ILLEGAL_ALERT: "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
  ILLEGAL_DELIVERY_TIME: "Pass exactly one of `delay`, `delay_ms`, `delay_level` and `deliver_at`.",
  ILLEGAL_FILTER: "Correct it at the position that `detail` names. Omit the filter for all messages.",
  ILLEGAL_GROUP: "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
  ILLEGAL_KEY: "Use at most 16 keys of 255 bytes each, without white space.",
  ILLEGAL_LEASE: "Use 1 s to 12 h; `auto_extend` must be longer than the lease and at most 3 h.",
  ILLEGAL_NAMESPACE: "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
  ILLEGAL_PROPERTY: "Rename it; send bytes in the body instead.",
  ILLEGAL_SCHEDULE: "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
  ILLEGAL_SETTING: "See `errors`: it names each setting with its valid range.",
  ILLEGAL_TAG: "Use at most 255 bytes without those.",
  ILLEGAL_TOPIC: "Use 1 to 64 of `a-z A-Z 0-9 _ -`, and none of the reserved prefixes.",
  INFLIGHT_LIMIT: "Settle some of them first.",
  INTERNAL: "Report `request_id`: it finds the cause in the log.",
  INVITATION_NOT_FOUND: "Ask an admin of the tenant for another one.",
  ISSUE_NOT_FOUND: "List the issues.",
  KEY_NOT_FOUND: "List the keys.",
  LEASE_EXPIRED: "Drop the message: it is no longer yours. Use a longer lease, or extend it in time.",
  MASK_NOT_FOUND: "Read the masking settings of the namespace.",
  MEMBER_NOT_FOUND: "List the members.",
  MESSAGE_NOT_FOUND: "Check the id; an expired or cancelled message cannot be restored.",
  MESSAGE_TYPE_CONFLICT: "Produce to a topic of the right type, or omit the field.",
  METADATA_UNAVAILABLE: "Send it again after `retry_after_ms`, with growing delays.",
  METHOD_NOT_ALLOWED: "Use one of the methods in the header `Allow`.",
  NAMESPACE_NOT_FOUND: "Use the namespace of the key; a key that is bound to one can write `-` for it.",
  NAMESPACE_READ_ONLY: "Wait, or have an admin end it: `PATCH /v1/namespaces/{name}`. `detail` says since when.",
  NOT_ACCEPTABLE: "Accept `application/json`.",
  NOT_FOUND: "Compare the path with the reference; it has no trailing slash.",
  NOT_LEADER: "Send it again; it is routed again.",
  OUTCOME_UNKNOWN: "Send it again if executing it twice is better than not at all.",
  PLAN_LIMIT: "Change the plan.",
  PRECONDITION_FAILED: "Read it again, and repeat the change with the new `ETag`.",
  PROPERTIES_TOO_LARGE: "Use at most 128 properties and 16 KiB; put the rest into the body.",
  QUEUE_NOT_FOUND: "Use a number below the topic's `queues`.",
  QUOTA_EXCEEDED: "Delete what is not needed, or request a larger quota.",
  RATE_LIMITED: "Wait for `Retry-After`, and then send more slowly.",
  RECEIPT_INVALID: "Settle with the receipt exactly as it was received, in the group that received it.",
  REPLICATION_UNAVAILABLE: "Send it again after `retry_after_ms`, with growing delays.",
  REPORT_NOT_FOUND: "List the reports and the runs.",
  REQUEST_TIMEOUT: "Send it again, over a faster connection or in smaller parts.",
  SCHEDULE_NOT_FOUND: "List the schedules.",
  SCHEMA_NOT_FOUND: "Upload one if you want the console to decode bodies.",
  SCHEMA_REJECTED: "Correct the message, or register a version of the schema that allows it.",
  SEARCH_NOT_FOUND: "List the shared searches.",
  STORAGE_BUSY: "Send it again after `retry_after_ms`, and more slowly.",
  STORAGE_FULL: "Wait until the operator has freed space.",
  SUBSCRIPTION_CONFLICT: "Use the same filter for all members of a group, or another group. While members change to another filter, try again: `retry_after_ms` says when the other members will be gone if they stop reading now.",
  TASK_NOT_FOUND: "List the tasks.",
  TICKETS_UNAVAILABLE: "Repeat after `retry_after_ms` with a new ticket. Keys in the handshake need no Valkey.",
  TOPIC_NOT_FOUND: "Create it with `PUT`, or correct the name.",
  UNAUTHENTICATED: "Send `Authorization: Bearer mqk_...` with a key that is neither revoked nor expired.",
  UNSUPPORTED_MEDIA_TYPE: "Send JSON (batches also as `application/x-ndjson`) without a content encoding.",
} as const;

export type ErrorCode = keyof typeof REMEDIES;

/** Additional settings of some strategies. */
export interface Assignment {
  /** For strategy `CONFIG`: the queues of each consumer. */
  consumers?: Record<string, number[]> | null;
  /** For the machine-room strategies: the queues of each room. */
  rooms?: Record<string, number[]> | null;
  /** For strategy `MACHINE_ROOM`: rooms whose queues are read. */
  read?: string[] | null;
  /** How queues are assigned within a room. */
  within_room?: "AVG" | "AVG_BY_CIRCLE" | "CONSISTENT_HASH" | null;
}

/** How queues are assigned; RocketMQ's names. Some need the row's `assignment`. */
export type AssignmentStrategy = "AVG" | "AVG_BY_CIRCLE" | "CONSISTENT_HASH" | "CONFIG" | "MACHINE_ROOM" | "MACHINE_ROOM_NEARBY";

/** Results in the order of the request. */
export interface BatchResponse {
  results: (StoredResult | RejectedResult)[];
}

/**
 * `lag` is null for one that reads none of the topics; `dropped` counts from the engine's
 * start.
 */
export interface BroadcastClientOut {
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id: string;
  /** Messages still to do: ready + inflight + waiting_retry; null if unknown. */
  lag: number | null;
  ready: number;
  /** Messages in flight: leased and not settled. */
  inflight: number;
  dropped: number;
  seen_at: string;
}

/** A page by client id; `next` is the `after` of the following page, null on the last one. */
export interface BroadcastClientsOut {
  total: number;
  clients: BroadcastClientOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/**
 * `is_complete` is false while the key index lacks the newest messages. `scanned`: with
 * `filter` or `contains`, how many messages were checked for this page.
 */
export interface BrowseResponse {
  /** The messages; may be empty. */
  messages: StoredMessage[];
  /** Pass it as `cursor` for the following page; null on the last one. */
  next_cursor: string | null;
  /** False while the key index lacks the newest messages. */
  is_complete: boolean;
  /** How many messages were checked for this page. */
  scanned?: number;
}

/** What becomes of runs whose time was missed: the latest one is sent late, or none. */
export type CatchUp = "none" | "latest";

/**
 * `consumer`: its consumer_id, or the service's own name for a socket or request without
 * one. `queues`: assigned to it; null in a shared group, where it may read any, and in a
 * broadcast one, where each `client_id` reads all.
 */
export interface ClientOut {
  consumer: string;
  /** The queues assigned to it. */
  queues: number[] | null;
  waiting: boolean;
  /** Messages in flight: leased and not settled. */
  inflight: number;
  zone: string | null;
  heard_at: string;
  /** The client of a broadcast group; null in others. */
  client_id: string | null;
}

/** `offset` is the next to be read: everything below it is settled. */
export interface CommitIn {
  /** Name of the topic. */
  topic: string;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id?: string | null;
}

export interface CommitOut {
  /** Name of the topic. */
  topic: string;
  /** Number of the queue, from 0. */
  queue: number;
  from_offset: number;
  to_offset: number;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
}

export interface DeadLetterItem {
  /** The receipt to settle the message with. */
  receipt: string;
  /** Your reason; stored with the message's trace and dead letter. */
  reason?: string;
}

/** `topic`: its original topic. `attempts`: its deliveries, all of which failed. */
export interface DeadLetterMessage {
  /** Unique id that never changes. */
  id: string;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** When the producer's request arrived. */
  born_at: string;
  /** When the engine stored it. */
  stored_at: string;
  /** The body as text. */
  body?: string;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string;
  /** Name of the topic. */
  topic: string;
  /** The reason of the last failure. */
  reason: string;
  /** Number of attempts. */
  attempts: number;
  first_delivered_at: string | null;
  last_delivered_at: string | null;
}

/**
 * `is_complete` is false while the key index lacks the newest messages. `scanned`: with
 * `reason`, how many dead letters were checked for this page.
 */
export interface DeadLettersResponse {
  /** The messages; may be empty. */
  messages: DeadLetterMessage[];
  /** Pass it as `cursor` for the following page; null on the last one. */
  next_cursor: string | null;
  /** False while the key index lacks the newest messages. */
  is_complete: boolean;
  /** How many messages were checked for this page. */
  scanned?: number;
}

/**
 * Who reads a queue: any consumer at any time, the one that it is assigned to, or each
 * client for itself.
 */
export type Dispatch = "shared" | "exclusive" | "broadcast";

/** `is_complete` is false when counting stopped early: there are more than `count`. */
export interface DryRunOut {
  /** Whether this is only a preview. */
  dry_run?: true;
  count: number;
  /** False if counting stopped early. */
  is_complete: boolean;
  topics: TopicCountOut[];
  not_found: string[];
}

/**
 * When a produce is answered: after the disk has the message, at once, or after the
 * replicated log has it.
 */
export type Durability = "sync" | "async" | "replicated";

/** What happened, in the order of a message that fails. */
export type EventKind = "born" | "scheduled" | "stored" | "delivery_failed" | "ready_again" | "dead_lettered" | "redriven";

/** Null fields do not belong to the event, or are unknown. */
export interface EventOut {
  event: EventKind;
  at: string;
  /** Name of the topic. */
  topic: string | null;
  /** Number of the queue, from 0. */
  queue: number | null;
  /** Position in the queue, from 0. */
  offset: number | null;
  group: string | null;
  /** Which delivery of the message to the group this is, from 1. */
  attempt: number | null;
  consumer: string | null;
  /** The reason of the failure. */
  reason: string | null;
  delivered_at: string | null;
  due_at: string | null;
}

export interface ExtendItem {
  /** The receipt to settle the message with. */
  receipt: string;
  /** How long messages are leased, such as `60s`. */
  lease?: string | null;
  /** How long messages are leased, in milliseconds. */
  lease_ms?: number | null;
}

export interface ExtendedLease {
  /** The receipt to settle the message with. */
  receipt: string;
  /** When the lease expires unless it is extended. */
  lease_until: string;
}

/** A receipt that had no effect. */
export interface FailedReceipt {
  /** The receipt to settle the message with. */
  receipt: string;
  /** Error code for programs to branch on; see the table of codes. */
  code: string;
  message: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
}

/** A page; `next` is the `after` of the following page. `unlisted`: counted, not stored. */
export interface FailureListOut {
  failures: FailureOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: number | null;
  unlisted: number;
}

/** `id` is null for an unreadable message, `offset` if no message has the id. */
export interface FailureOut {
  /** Unique id that never changes. */
  id: string | null;
  /** Position in the queue, from 0. */
  offset: number | null;
  outcome: FailureOutcome;
}

/** Why a message was not moved. */
export type FailureOutcome = "gone" | "not_found" | "no_topic" | "damaged";

/** All conditions must match; times are those at which messages became dead letters. */
export interface FilterIn {
  key?: string | null;
  /** What consumers filter by. */
  tag?: string | null;
  from?: string | null;
  to?: string | null;
  /**
   * A reason, or the cause of an issue: matches dead letters with the same cause. `<none>`:
   * those without a reason.
   */
  reason?: string | null;
}

export interface FilterOut {
  key: string | null;
  tags: string[];
  from: string | null;
  to: string | null;
  /** The cause to match; `<none>`: without a reason. */
  reason: string | null;
}

/** The secret before the last rotation, while it is valid. */
export interface FormerSecretOut {
  last4: string;
  until: string;
}

/** For the topics that the group has read, by name. */
export interface GroupClientsOut {
  group: string;
  topics: TopicClientsOut[];
}

/**
 * Settings of a consumer group. Omitted fields are left unchanged; a new one gets the
 * defaults. Some settings require a certain `dispatch`.
 */
export interface GroupIn {
  /** Where it starts on a topic that it has never read; `earliest` by default. */
  start_from?: "earliest" | "latest" | "timestamp" | null;
  /** Where it starts with `start_from: timestamp`. */
  start_time?: string | null;
  /** How long a delivery is leased. */
  lease?: string | null;
  /** How long messages are leased, in milliseconds. */
  lease_ms?: number | null;
  /** The maximum duration of one delivery. */
  consume_timeout?: string | null;
  consume_timeout_ms?: number | null;
  /** Deliveries before a message becomes a dead letter; null for no limit. */
  max_attempts?: number | null;
  /** When a failed message is redelivered. */
  retry?: RetryPolicy | null;
  /** Who reads a queue: any consumer, the assigned one, or every client. */
  dispatch?: "shared" | "exclusive" | "broadcast" | null;
  /** How queues are assigned. */
  strategy?: "AVG" | "AVG_BY_CIRCLE" | "CONSISTENT_HASH" | "CONFIG" | "MACHINE_ROOM" | "MACHINE_ROOM_NEARBY" | null;
  /** Additional settings of some strategies. */
  assignment?: Assignment | null;
  /** Whether order is preserved. */
  ordered?: boolean | null;
  /** Maximum messages of a message group per receive. */
  batch_per_group?: number | null;
}

/**
 * What the group still has to do of the topics below: `lag` is `ready` (not delivered) +
 * `inflight` + `waiting_retry`.
 */
export interface GroupLagOut {
  group: string;
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id?: string | null;
  dropped?: number | null;
  clients?: BroadcastClientsOut | null;
  /** Messages still to do: ready + inflight + waiting_retry; null if unknown. */
  lag: number | null;
  /** exact, or estimated from a sample if a filter has too many messages to check. */
  lag_is: LagIs | null;
  /** Age of the oldest of them, since it was first stored in its topic. */
  lag_ms: number | null;
  ready: number | null;
  /** Messages in flight: leased and not settled. */
  inflight: number | null;
  /** Failed messages to be redelivered, now or later. */
  waiting_retry: number | null;
  retry: RetryOut;
  /** max_offset - consumer_offset, which RocketMQ calls lag. */
  offset_lag: number | null;
  topics: TopicProgressOut[];
}

/** A page, by name; `next` is the `after` of the following page, null on the last one. */
export interface GroupListOut {
  groups: GroupOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/**
 * `lag` is null in lists, and if the engine cannot report it; `max_attempts` is null for
 * no limit.
 */
export interface GroupOut {
  /** Its name in the namespace. */
  name: string;
  /** The namespace it belongs to. */
  namespace: string;
  start_from: StartFrom;
  start_time: string | null;
  /** How long messages are leased, such as `60s`. */
  lease: string;
  /** How long messages are leased, in milliseconds. */
  lease_ms: number;
  /** The maximum duration of one delivery. */
  consume_timeout: string;
  consume_timeout_ms: number;
  /** Deliveries before a message becomes a dead letter; null for no limit. */
  max_attempts: number | null;
  retry: RetryPolicy;
  /** Whether the group is paused. */
  paused: boolean;
  dispatch: Dispatch;
  strategy: AssignmentStrategy;
  assignment: Assignment;
  /** Whether the group gets messages in order. */
  ordered: boolean;
  /** Maximum number of messages of one message group per receive. */
  batch_per_group: number;
  /** When it was created. */
  created_at: string;
  /** When it was last changed. */
  updated_at: string;
  /** Messages still to do: ready + inflight + waiting_retry; null if unknown. */
  lag?: LagOut | null;
}

/** The current state of the message for a group. */
export interface GroupStateOut {
  group: string;
  /** Name of the topic. */
  topic: string;
  /** Its state. */
  state: string;
  /** Number of attempts. */
  attempts: number;
  consumer: string | null;
  /** When the lease expires unless it is extended. */
  lease_until: string | null;
  due_at: string | null;
  /** The client of a broadcast group; null in others. */
  client_id: string | null;
}

/**
 * `sample`: the newest reason as it was written. `hours`: the newest with dead letters,
 * `messages`: the newest; `history`: the newest changes first.
 */
export interface IssueDetailOut {
  /** Unique id that never changes. */
  id: string;
  /** The namespace it belongs to. */
  namespace: string;
  kind: IssueKind;
  group: string;
  /** Name of the topic. */
  topic: string | null;
  /** The cause, with placeholders for what differs. */
  reason: string | null;
  state: IssueState;
  count: number;
  first_seen: string;
  last_seen: string;
  reopened: number;
  changed_at: string;
  changed_by: string | null;
  sample: string | null;
  hours: IssueHourOut[];
  /** The newest messages. */
  messages: IssueMessageOut[] | null;
  history: IssueEventOut[];
}

/**
 * A change of state. `why`: first or recurring dead letters, a quiet period, or a user;
 * `by` is null for the service.
 */
export interface IssueEventOut {
  number: number;
  state: IssueState;
  why: StateChangeReason;
  at: string;
  by: string | null;
}

/** Dead letters of one hour; hours without any are omitted. */
export interface IssueHourOut {
  at: string;
  count: number;
}

/** What has failed. DEAD_LETTER: messages that the group gave up. */
export type IssueKind = "dead_letter";

/** The last seen first; `next` is the `before` of the following page, null on the last one. */
export interface IssueListOut {
  issues: IssueOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
  open: number;
  others: number;
  unseen: number;
  resolve_after: string | null;
}

/** One of the newest messages, by its id among the dead letters of the group. */
export interface IssueMessageOut {
  /** Unique id that never changes. */
  id: string;
  at: string;
}

/**
 * `reason`: the cause, in which placeholders such as <n> stand for what differs; ""
 * without a reason, null for keys that may not read messages of the group. `count`: dead
 * letters, each once. `changed_by` is null if the service did it.
 */
export interface IssueOut {
  /** Unique id that never changes. */
  id: string;
  /** The namespace it belongs to. */
  namespace: string;
  kind: IssueKind;
  group: string;
  /** Name of the topic. */
  topic: string | null;
  /** The cause, with placeholders for what differs. */
  reason: string | null;
  state: IssueState;
  count: number;
  first_seen: string;
  last_seen: string;
  reopened: number;
  changed_at: string;
  changed_by: string | null;
}

/** See the module's docstring. */
export type IssueState = "open" | "acknowledged" | "resolved" | "ignored";

/** What to change of a key; omitted fields are left unchanged. */
export interface KeyIn {
  /** What the key is for, such as its program. */
  name?: string | null;
  /**
   * What the key may do: `produce`, `consume` or `manage`, for everything or limited as in
   * `produce:orders*`, `consume:group/billing`.
   */
  scopes?: string[] | null;
  /** Limits the scopes: a key may do what both its role and its scopes allow. */
  role?: "owner" | "admin" | "developer" | "viewer" | null;
  /** When it expires; null for never. */
  expires_at?: string | null;
  /** How long it is valid, such as `30d`. */
  expires_in?: string | null;
  expires_in_ms?: number | null;
}

/** How a program shows that it has a key. */
export type KeyKind = "api" | "access";

/** A page, by id; `next` is the `after` of the following page, null on the last one. */
export interface KeyListOut {
  /** The API keys of the page. */
  keys: KeyOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/**
 * `namespace` null: the whole tenant. `last_used_at` is accurate to about a minute.
 * `needs_former_pepper`: use an API key, or rotate an access key, before you remove the
 * pepper.
 */
export interface KeyOut {
  /** Unique id that never changes. */
  id: string;
  kind: KeyKind;
  /** What the key is for. */
  name: string;
  /** The namespace it is bound to; null for the whole tenant. */
  namespace: string | null;
  role: Role;
  scopes: string[];
  state: KeyState;
  last4: string;
  former_secret: FormerSecretOut | null;
  needs_former_pepper: boolean;
  created_by: string | null;
  /** When it was created. */
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

export type KeyState = "active" | "expired" | "revoked";

export interface LagHistoryOut {
  group: string;
  /** Name of the topic. */
  topic: string | null;
  resolution_ms: number;
  points: LagPointOut[];
}

/** Whether each message was counted, or a sample of them. */
export type LagIs = "exact" | "estimated";

/** For the topics the group has read; all null before it has read one: unknown is never 0. */
export interface LagOut {
  total: number | null;
  /** exact, or estimated from a sample if a filter has too many messages to check. */
  lag_is: LagIs | null;
  /** Age of the oldest of them, since it was first stored in its topic. */
  lag_ms: number | null;
  ready: number | null;
  /** Messages in flight: leased and not settled. */
  inflight: number | null;
  /** Failed messages to be redelivered, now or later. */
  waiting_retry: number | null;
  /** Each queue with its lag. */
  queues: QueueLagOut[];
}

/**
 * A time span that starts at `at`. `inflight` and `waiting_retry` are parts of `lag`.
 * `members` and `dead_letters` are of the whole group, and null for a single topic;
 * `dead_letters` is the all-time count. `lag_is` is estimated if any lag of the span is.
 */
export interface LagPointOut {
  at: string;
  /** Messages still to do: ready + inflight + waiting_retry; null if unknown. */
  lag: number | null;
  /** exact, or estimated from a sample if a filter has too many messages to check. */
  lag_is: LagIs | null;
  lag_average: number | null;
  lag_max: number | null;
  /** Age of the oldest of them, since it was first stored in its topic. */
  lag_ms: number | null;
  /** Messages in flight: leased and not settled. */
  inflight: number | null;
  /** Failed messages to be redelivered, now or later. */
  waiting_retry: number | null;
  settled_per_s: number | null;
  members: number | null;
  dead_letters: number | null;
}

/** `message_id`: null if it was not sent; then `error` has the reason. */
export interface LastRunOut {
  planned_at: string;
  message_id: string | null;
  error: string | null;
}

/** Which kind of message a topic takes; MIXED takes all. */
export type MessageType = "mixed" | "normal" | "fifo" | "delay" | "transaction";

export interface NackItem {
  /** The receipt to settle the message with. */
  receipt: string;
  /** A duration to wait before delivery, such as `30s`. */
  delay?: string | null;
  /** A duration to wait before delivery, in milliseconds. */
  delay_ms?: number | null;
  /** Your reason; stored with the message's trace and dead letter. */
  reason?: string;
}

/** A scheduled message in a list over several topics. */
export interface NamespaceScheduled {
  /** Unique id that never changes. */
  id: string;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** When the producer's request arrived. */
  born_at: string;
  /** When the engine stored it. */
  stored_at: string;
  /** The body as text. */
  body?: string;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string;
  /** The earliest time of delivery; null for immediately. */
  deliver_at: string;
  /** Cancels the message, or sends it now, until it is delivered. */
  recall_handle: string;
  /** Name of the topic. */
  topic: string;
}

export interface NamespaceScheduledResponse {
  /** The messages; may be empty. */
  messages: NamespaceScheduled[];
  /** Pass it as `cursor` for the following page; null on the last one. */
  next_cursor: string | null;
}

/** A key: never one that could do more than yours. */
export interface NewKeyIn {
  /** What the key is for, such as its program. */
  name: string;
  /**
   * What the key may do: `produce`, `consume` or `manage`, for everything or limited as in
   * `produce:orders*`, `consume:group/billing`.
   */
  scopes: string[];
  /**
   * `api`: sent as a Bearer token, by default. `access`: an id and a secret that sign
   * requests, for AWS SDKs.
   */
  kind?: "api" | "access" | null;
  /** The namespace it is limited to: by default that of who asks, or all. */
  namespace?: string | null;
  /** Limits the scopes: a key may do what both its role and its scopes allow. */
  role?: "owner" | "admin" | "developer" | "viewer" | null;
  /** When it expires; null for never. */
  expires_at?: string | null;
  /** How long it is valid, such as `30d`. */
  expires_in?: string | null;
  expires_in_ms?: number | null;
}

/** `key` is shown only in this response: the API key, or the secret of the access key `id`. */
export interface NewKeyOut {
  /** Unique id that never changes. */
  id: string;
  kind: KeyKind;
  /** What the key is for. */
  name: string;
  /** The namespace it is bound to; null for the whole tenant. */
  namespace: string | null;
  role: Role;
  scopes: string[];
  state: KeyState;
  last4: string;
  former_secret: FormerSecretOut | null;
  needs_former_pepper: boolean;
  created_by: string | null;
  /** When it was created. */
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  key: string;
}

/** `offset` is `max_offset` if no message was stored at or after the time. */
export interface OffsetResponse {
  /** Position in the queue, from 0. */
  offset: number;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
}

/** For the topics that the group has read, or for the requested one. */
export interface OffsetsOut {
  group: string;
  offsets: QueueOffsetOut[];
}

/** An expression to preview. */
export interface PreviewIn {
  /** Minute, hour, day, month and weekday, or @daily and the like. */
  cron: string;
  /** An IANA name, such as Europe/Berlin; UTC by default. */
  time_zone?: string | null;
}

/** The next times of an expression. */
export interface PreviewOut {
  next_runs: string[];
}

/** An error, as in RFC 9457. `type` leads to a page about the code. */
export interface Problem {
  /** Its type. */
  type: string;
  /** The code in words. */
  title: string;
  /** The status of this response or part of it. */
  status: number;
  /** Error code for programs to branch on; see the table of codes. */
  code: "ALERT_NOT_FOUND" | "ALREADY_DELIVERED" | "BAD_REQUEST" | "BODY_TOO_LARGE" | "CONFLICT" | "CONNECTIONS_UNKNOWN" | "CURSOR_INVALID" | "DRAINING" | "ENGINE_UNAVAILABLE" | "FORBIDDEN" | "GROUP_NOT_FOUND" | "HEADERS_TOO_LARGE" | "HTTP_VERSION_UNSUPPORTED" | "IDEMPOTENCY_IN_PROGRESS" | "IDEMPOTENCY_KEY_REUSED" | "ILLEGAL_ALERT" | "ILLEGAL_DELIVERY_TIME" | "ILLEGAL_FILTER" | "ILLEGAL_GROUP" | "ILLEGAL_KEY" | "ILLEGAL_LEASE" | "ILLEGAL_NAMESPACE" | "ILLEGAL_PROPERTY" | "ILLEGAL_SCHEDULE" | "ILLEGAL_SETTING" | "ILLEGAL_TAG" | "ILLEGAL_TOPIC" | "INFLIGHT_LIMIT" | "INTERNAL" | "INVITATION_NOT_FOUND" | "ISSUE_NOT_FOUND" | "KEY_NOT_FOUND" | "LEASE_EXPIRED" | "MASK_NOT_FOUND" | "MEMBER_NOT_FOUND" | "MESSAGE_NOT_FOUND" | "MESSAGE_TYPE_CONFLICT" | "METADATA_UNAVAILABLE" | "METHOD_NOT_ALLOWED" | "NAMESPACE_NOT_FOUND" | "NAMESPACE_READ_ONLY" | "NOT_ACCEPTABLE" | "NOT_FOUND" | "NOT_LEADER" | "OUTCOME_UNKNOWN" | "PLAN_LIMIT" | "PRECONDITION_FAILED" | "PROPERTIES_TOO_LARGE" | "QUEUE_NOT_FOUND" | "QUOTA_EXCEEDED" | "RATE_LIMITED" | "RECEIPT_INVALID" | "REPLICATION_UNAVAILABLE" | "REPORT_NOT_FOUND" | "REQUEST_TIMEOUT" | "SCHEDULE_NOT_FOUND" | "SCHEMA_NOT_FOUND" | "SCHEMA_REJECTED" | "SEARCH_NOT_FOUND" | "STORAGE_BUSY" | "STORAGE_FULL" | "SUBSCRIPTION_CONFLICT" | "TASK_NOT_FOUND" | "TICKETS_UNAVAILABLE" | "TOPIC_NOT_FOUND" | "UNAUTHENTICATED" | "UNSUPPORTED_MEDIA_TYPE";
  /** What is wrong in this case, with places and numbers. */
  detail: string;
  /** Path of the rejected request. */
  instance: string;
  /** Identifies the request in the log. */
  request_id: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** How long to wait before the same request can succeed; null if unknown. */
  retry_after_ms: number | null;
  /** Each fault with its place. */
  errors: ProblemItem[];
  /** False promises that nothing of the request will ever be delivered. */
  stored?: boolean;
}

/** One fault of a request: `pointer` is the JSON pointer of the place. */
export interface ProblemItem {
  /** JSON pointer to the place in the body; `?name` for a query parameter. */
  pointer: string;
  /** Error code for programs to branch on; see the table of codes. */
  code: string;
  /** What is wrong in this case, with places and numbers. */
  detail?: string;
}

/** The JSON form. Exactly one of the bodies is set; an empty `Raw` means absent. */
export interface ProduceMessage {
  /** The body as text. */
  body?: string | null;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string | null;
  /** What consumers filter by. */
  tag?: string | null;
  /** Business keys to find the message by. */
  keys?: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group?: string | null;
  /** Names and values sent with the message. */
  properties?: Record<string, string>;
  /** Number of the queue, from 0. */
  queue?: number | null;
  /** RocketMQ's delay level: 1 to 18, above counts as 18. */
  delay_level?: number | null;
  /** A duration to wait before delivery, such as `30s`. */
  delay?: string | null;
  /** A duration to wait before delivery, in milliseconds. */
  delay_ms?: number | null;
  /** The earliest time of delivery; null for immediately. */
  deliver_at?: string | null;
  dedup_id?: string | null;
}

/** `status` is one of RocketMQ's pull statuses. */
export interface PullResponse {
  /** RocketMQ's pull status. */
  status: string;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
  /** Where to continue. */
  next_offset: number;
  /** The messages; may be empty. */
  messages: StoredMessage[];
}

/** Selects dead letters in one of three ways, and sets the rate. */
export interface PurgeIn {
  ids?: string[] | null;
  /** Conditions that dead letters must match. */
  filter?: FilterIn | null;
  all?: true | null;
  rate?: number | null;
  /** Whether this is only a preview. */
  dry_run?: boolean;
}

/** What a purge deleted, or would delete. */
export interface PurgeOut {
  /** Name of the topic. */
  topic: string;
  /** Whether this is only a preview. */
  dry_run: boolean;
  /** How many messages were or would be deleted. */
  messages: number;
  /** Messages in flight: leased and not settled. */
  inflight: number;
  retries: number;
  /** Each queue with the deleted range. */
  queues: PurgedQueueOut[];
}

/** Messages in [from_offset, to_offset) of one queue, which then starts at `to_offset`. */
export interface PurgedQueueOut {
  /** Number of the queue, from 0. */
  queue: number;
  from_offset: number;
  to_offset: number;
}

/** Progress on one queue; `offset_lag` is max_offset - consumer_offset. */
export interface QueueLagOut {
  /** Name of the topic. */
  topic: string;
  /** Number of the queue, from 0. */
  queue: number;
  /** The next offset to deliver. */
  consumer_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
  /** max_offset - consumer_offset, which RocketMQ calls lag. */
  offset_lag: number;
  /** Messages in flight: leased and not settled. */
  inflight: number;
}

/** `consumer_offset` is null on a queue that the group has never read. */
export interface QueueOffsetOut {
  /** Name of the topic. */
  topic: string;
  /** Number of the queue, from 0. */
  queue: number;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
  /** The next offset to deliver. */
  consumer_offset: number | null;
}

/** Readable range [min_offset, max_offset) of one queue. */
export interface QueueOut {
  /** Number of the queue, from 0. */
  queue: number;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
}

/**
 * `offset_lag`: max_offset - consumer_offset. `lag_ms`: age of the first unsettled
 * message; null if there is none.
 */
export interface QueueProgressOut {
  /** Number of the queue, from 0. */
  queue: number;
  /** The next offset to deliver. */
  consumer_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
  /** max_offset - consumer_offset, which RocketMQ calls lag. */
  offset_lag: number;
  /** Age of the first unsettled message. */
  lag_ms: number | null;
  oldest_stored_at: string | null;
  ready: number;
  /** Messages in flight: leased and not settled. */
  inflight: number;
}

export interface RateHistoryOut {
  /** Name of the topic. */
  topic: string;
  resolution_ms: number;
  points: RatePointOut[];
}

/** `stored`: all messages stored so far, `readable`: those that could still be read. */
export interface RatePointOut {
  at: string;
  /** All messages stored so far. */
  stored: number | null;
  readable: number | null;
  stored_per_s: number | null;
}

/** The request's body; an empty body means all defaults. */
export interface ReceiveOptions {
  /** Maximum number of messages. */
  max?: number;
  /** How long to wait for a message before returning an empty list, such as `20s`. */
  wait?: string | null;
  /** The same in milliseconds. */
  wait_ms?: number | null;
  /** How long messages are leased, such as `60s`. */
  lease?: string | null;
  /** How long messages are leased, in milliseconds. */
  lease_ms?: number | null;
  /** Tags as in `created || paid`, or `{"sql": …}`, an SQL92 condition on properties. */
  filter?: string | SqlFilter | null;
  /** What consumers filter by. */
  tag?: string | null;
  /** Your id for the consumer: receives with the same id are one member. */
  consumer_id?: string | null;
  /** Your id for this receive: repeated with it, it returns the same messages. */
  attempt_id?: string | null;
  /** How long leases are extended while the consumer is alive; needs `consumer_id`. */
  auto_extend?: string | null;
  auto_extend_ms?: number | null;
  /** Where the consumer is, for groups that assign queues by machine rooms. */
  consumer_zone?: string | null;
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id?: string | null;
  /** Settles messages received before; executed first. */
  settle?: SettleItems | null;
}

/** `settled` is present if the request had something to settle. */
export interface ReceiveResponse {
  /** The messages; may be empty. */
  messages: ReceivedMessage[];
  settled?: SettleResponse;
}

/** A leased message. One of the bodies is set; in MessagePack always `body`, as bytes. */
export interface ReceivedMessage {
  /** Unique id that never changes. */
  id: string;
  /** The receipt to settle the message with. */
  receipt: string;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** Which delivery of the message to the group this is, from 1. */
  attempt: number;
  /** Deliveries before a message becomes a dead letter; null for no limit. */
  max_attempts: number | null;
  /** When the producer's request arrived. */
  born_at: string;
  /** When the engine stored it. */
  stored_at: string;
  /** When the lease expires unless it is extended. */
  lease_until: string;
  /** The body as text. */
  body?: string;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string;
}

/** `target`: a topic instead of each message's own. */
export interface RedriveIn {
  ids?: string[] | null;
  /** Conditions that dead letters must match. */
  filter?: FilterIn | null;
  all?: true | null;
  rate?: number | null;
  /** Whether this is only a preview. */
  dry_run?: boolean;
  /** A topic to send to instead of each message's own. */
  target?: string | null;
}

/** Result of one message of a batch that the engine did not store. */
export interface RejectedResult {
  /** Place of the message in the request, from 0. */
  index: number;
  /** The status of this response or part of it. */
  status: number;
  /** Error code for programs to branch on; see the table of codes. */
  code: string;
  /** What is wrong in this case, with places and numbers. */
  detail: string;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** False promises that nothing of the request will ever be delivered. */
  stored: boolean | null;
}

/** The new time; exactly one of the three. */
export interface RescheduleRequest {
  /** A duration to wait before delivery, such as `30s`. */
  delay?: string | null;
  /** A duration to wait before delivery, in milliseconds. */
  delay_ms?: number | null;
  /** The earliest time of delivery; null for immediately. */
  deliver_at?: string | null;
}

/** `recall_handle`: the new one; the former one remains valid. */
export interface Rescheduled {
  /** Unique id that never changes. */
  id: string;
  /** Name of the topic. */
  topic: string;
  /** Its state. */
  state: string;
  /** The earliest time of delivery; null for immediately. */
  deliver_at: string;
  /** Cancels the message, or sends it now, until it is delivered. */
  recall_handle: string;
}

/** Failed messages: `waiting` can be redelivered now, `scheduled` later. */
export interface RetryOut {
  waiting: number | null;
  scheduled: number | null;
}

/** When a failed message is redelivered. */
export type RetryPolicy = { policy: "levels"; } | { policy: "list"; delays?: string[] | null; delays_ms?: number[] | null; } | { policy: "exponential"; start?: string | null; start_ms?: number | null; factor?: number | null; cap?: string | null; cap_ms?: number | null; };

/** What a member may do, from most to least. */
export type Role = "owner" | "admin" | "developer" | "viewer";

/** When the present secret ends. */
export interface RotationIn {
  /** How long the present secret stays valid: `1d` by default, `0s` revokes it. */
  overlap?: string | null;
  overlap_ms?: number | null;
}

/**
 * Settings of a schedule. A new one needs `topic`, `cron` and `message`; omitted fields
 * are left unchanged.
 */
export interface ScheduleIn {
  /** The topic to send to. */
  topic?: string | null;
  /** Minute, hour, day, month and weekday, or @daily and the like. */
  cron?: string | null;
  /** An IANA name, such as Europe/Berlin; UTC by default. */
  time_zone?: string | null;
  /** Which missed runs are sent late. */
  catch_up?: "none" | "latest" | null;
  /** False pauses it. */
  enabled?: boolean | null;
  /** Shown with the schedule. */
  description?: string | null;
  /**
   * As for a produce, without delay_level, delay, delay_ms, deliver_at and dedup_id; its
   * body has 65,536 bytes at most.
   */
  message?: Record<string, unknown> | null;
}

/** `next`: the `after` of the following page, null on the last one. */
export interface ScheduleListOut {
  schedules: ScheduleOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/** The message to send; one of the three bodies. */
export interface ScheduleMessageOut {
  /** The body as text. */
  body: string | null;
  /** The body as a JSON value, stored as written. */
  body_json: unknown;
  /** The body as bytes, in base64. */
  body_b64: string | null;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number | null;
}

/**
 * `message`: null for keys that may not produce to the topic. `next_runs`: only for a
 * single schedule that is not paused. `missed_at`: the last run that `catch_up: none`
 * skipped.
 */
export interface ScheduleOut {
  /** Unique id that never changes. */
  id: string;
  /** Its name in the namespace. */
  name: string;
  /** The namespace it belongs to. */
  namespace: string;
  /** Name of the topic. */
  topic: string;
  cron: string;
  time_zone: string;
  catch_up: CatchUp;
  enabled: boolean;
  description: string;
  message: ScheduleMessageOut | null;
  state: ScheduleState;
  error: string | null;
  retrying: boolean;
  last_run: LastRunOut | null;
  missed_at: string | null;
  next_run_at: string | null;
  next_runs?: string[] | null;
  created_by: string;
  /** When it was created. */
  created_at: string;
  /** When it was last changed. */
  updated_at: string;
}

/** FAILING: the last run was not sent, or the topic is gone. */
export type ScheduleState = "active" | "paused" | "failing";

/** `state`: `cancelled` or `sent`. */
export interface ScheduledDone {
  /** Unique id that never changes. */
  id: string;
  /** Name of the topic. */
  topic: string;
  /** Its state. */
  state: string;
}

/** `queue` is its destination; `offset` is its position in the schedule until then. */
export interface ScheduledMessage {
  /** Unique id that never changes. */
  id: string;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** When the producer's request arrived. */
  born_at: string;
  /** When the engine stored it. */
  stored_at: string;
  /** The body as text. */
  body?: string;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string;
  /** The earliest time of delivery; null for immediately. */
  deliver_at: string;
  /** Cancels the message, or sends it now, until it is delivered. */
  recall_handle: string;
}

export interface ScheduledResponse {
  /** The messages; may be empty. */
  messages: ScheduledMessage[];
  /** Pass it as `cursor` for the following page; null on the last one. */
  next_cursor: string | null;
}

/**
 * `to`: "earliest", "latest", {"time": RFC 3339}, {"offset": number, "queue": number} or
 * {"shift": number}.
 */
export interface SeekIn {
  /** Name of the topic. */
  topic: string;
  to: SeekTo;
  /** The queues to move; all by default. */
  queues?: number[] | null;
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id?: string | null;
  /** Whether this is only a preview. */
  dry_run?: boolean;
}

/** What a seek did, or would do. Messages of `retry` are not affected. */
export interface SeekOut {
  group: string;
  /** Name of the topic. */
  topic: string;
  clients: number | null;
  /** Whether this is only a preview. */
  dry_run: boolean;
  skipped: number | null;
  replayed: number | null;
  retry: RetryOut;
  /** Each queue with its old and new offset. */
  queues: SeekQueueOut[];
}

/** `from_offset`, `skipped` and `replayed` are null on a queue the group never read. */
export interface SeekQueueOut {
  /** Number of the queue, from 0. */
  queue: number;
  /** The first offset that can be read. */
  min_offset: number;
  /** The offset of the next message to be stored. */
  max_offset: number;
  from_offset: number | null;
  to_offset: number;
  skipped: number | null;
  replayed: number | null;
  /** Messages in flight: leased and not settled. */
  inflight: number;
}

/** Where the group continues. */
export type SeekTo = "earliest" | "latest" | { time: string; } | { offset: number; queue: number; } | { shift: number; };

/** A message that was sent immediately. */
export interface SentNowOut {
  /** Unique id that never changes. */
  id: string;
  /** Name of the topic. */
  topic: string;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** When the engine stored it. */
  stored_at: string;
}

/** Receipts, by what to do with their messages. */
export interface SettleItems {
  /** Receipts of processed messages. */
  ack?: string[];
  /** Receipts that ack their message and all before it in the same response. */
  ack_upto?: string[];
  /** Messages to return, to be redelivered. */
  nack?: NackItem[];
  /** Leases to extend. */
  extend?: ExtendItem[];
  /** Messages to move to the group's dead letters immediately. */
  dead_letter?: DeadLetterItem[];
}

/**
 * The request's body. `consumer_id`: extends its leases with `auto_extend`; in a broadcast
 * group those of the client that the receipts or `client_id` name.
 */
export interface SettleOptions {
  /** Receipts of processed messages. */
  ack?: string[];
  /** Receipts that ack their message and all before it in the same response. */
  ack_upto?: string[];
  /** Messages to return, to be redelivered. */
  nack?: NackItem[];
  /** Leases to extend. */
  extend?: ExtendItem[];
  /** Messages to move to the group's dead letters immediately. */
  dead_letter?: DeadLetterItem[];
  /** Your id for the consumer: receives with the same id are one member. */
  consumer_id?: string | null;
  /** The client of a broadcast group; required there, rejected elsewhere. */
  client_id?: string | null;
}

export interface SettleResponse {
  acked: number;
  nacked: number;
  extended: ExtendedLease[];
  dead_lettered: number;
  /** Receipts that had no effect, and why. */
  failed: FailedReceipt[];
}

/** A condition in SQL92 on the properties of a message; a map in both subprotocols. */
export interface SqlFilter {
  sql: string;
}

/** Where the group begins on a topic it has never read. */
export type StartFrom = "earliest" | "latest" | "timestamp";

/** Why the state of an issue changed. FIRST, AGAIN: of letters; QUIET: there were none. */
export type StateChangeReason = "first" | "again" | "quiet" | "by_hand";

/** One of the bodies is set; in MessagePack always `body`, as bytes. */
export interface StoredMessage {
  /** Unique id that never changes. */
  id: string;
  /** What consumers filter by. */
  tag: string | null;
  /** Business keys to find the message by. */
  keys: string[];
  /** Messages of one message group go to one queue and keep their order. */
  message_group: string | null;
  /** Names and values sent with the message. */
  properties: Record<string, string>;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number;
  /** When the producer's request arrived. */
  born_at: string;
  /** When the engine stored it. */
  stored_at: string;
  /** The body as text. */
  body?: string;
  /** The body as a JSON value, stored as written. */
  body_json?: unknown;
  /** The body as bytes, in base64. */
  body_b64?: string;
}

/** Result of one stored message of a batch; see `StoredResponse`. */
export interface StoredResult {
  /** Place of the message in the request, from 0. */
  index: number;
  /** The status of this response or part of it. */
  status: number;
  /** Unique id that never changes. */
  id: string;
  /** Number of the queue, from 0. */
  queue: number;
  /** Position in the queue, from 0. */
  offset: number | null;
  /** When the engine stored it. */
  stored_at: string;
  /**
   * Whether the message is on disk (`synced`), not yet (`buffered`), or in the replicated
   * log (`replicated`).
   */
  durability: string;
  /** Whether an earlier request had already stored the message. */
  duplicate?: boolean;
  /** The earliest time of delivery; null for immediately. */
  deliver_at?: string | null;
  /** Cancels the message, or sends it now, until it is delivered. */
  recall_handle?: string | null;
}

/** What a task does to a group's dead letters. */
export type TaskKind = "redrive" | "purge";

/** A page, newest first; `next` is the `before` of the following page. */
export interface TaskListOut {
  tasks: TaskOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/** `total` is null if unknown; `looked_at` of `to_look_at` are done. */
export interface TaskOut {
  /** Unique id that never changes. */
  id: string;
  kind: TaskKind;
  state: TaskState;
  group: string;
  ids: number | null;
  /** The conditions of the request. */
  filter: FilterOut | null;
  all: boolean;
  /** A topic to send to instead of each message's own. */
  target: string | null;
  rate: number;
  total: number | null;
  moved: number;
  skipped: number;
  /** Messages that could not be moved. */
  failed: number;
  looked_at: number;
  to_look_at: number;
  eta_ms: number | null;
  error: string | null;
  created_by: string;
  /** When it was created. */
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

/** See the module's docstring. */
export type TaskState = "pending" | "running" | "done" | "failed" | "cancelled";

/** Rights of the ticket; each field is optional. */
export interface TicketIn {
  /** Its namespace. By default that of the key; required for a user's session. */
  namespace?: string | null;
  /** Like those of a key, and at most your own: all by default. */
  scopes?: string[] | null;
}

/**
 * `ticket` opens one socket within `expires_in_ms`: offer it as a subprotocol, prefixed
 * with `ticket.`, in addition to `mq.v1.json` or `mq.v1.msgpack`.
 */
export interface TicketOut {
  ticket: string;
  expires_in_ms: number;
  /** The namespace it belongs to. */
  namespace: string | null;
  scopes: string[];
}

/**
 * `generation` counts the changes of assignment, `unassigned` are queues without a
 * consumer; both null unless the group is exclusive. `is_complete`: whether `clients` are
 * all; the latest come first. `filter`: that of all members, null for everything.
 * `held_up`: the maximum number of messages of a queue is in flight, while others wait
 * there.
 */
export interface TopicClientsOut {
  /** Name of the topic. */
  topic: string;
  generation: number | null;
  unassigned: number[] | null;
  clients: ClientOut[];
  /** Whether `clients` are all. */
  is_complete: boolean;
  /** The filter of all members; null for all messages. */
  filter: string | null;
  held_up: boolean;
}

/** `topic` is null if messages do not name one; without `exists` they would not be moved. */
export interface TopicCountOut {
  /** Name of the topic. */
  topic: string | null;
  count: number;
  exists: boolean;
}

/** Settings of a topic. Omitted fields are left unchanged; a new one gets the defaults. */
export interface TopicIn {
  /** The type of its messages. */
  type?: "mixed" | "normal" | "fifo" | "delay" | null;
  /** Can be increased, not decreased. */
  queues?: number | null;
  /**
   * When a produce is confirmed: on disk (`sync`), before (`async`), or in the replicated
   * log (`replicated`, the default of new topics where there is such a log).
   */
  durability?: "sync" | "async" | "replicated" | null;
  /** How long messages are retained, such as `3d`. */
  retention?: string | null;
  /** How long messages are retained, in milliseconds. */
  retention_ms?: number | null;
  /** The largest body that the topic accepts. */
  body_bytes_max?: number | null;
}

/** A page, by name; `next` is the `after` of the following page, null on the last one. */
export interface TopicListOut {
  topics: TopicOut[];
  /** Pass it as `after` or `before` for the following page; null on the last one. */
  next: string | null;
}

/** `queue_offsets` is null in lists, and if the engine cannot report them. */
export interface TopicOut {
  /** Its name in the namespace. */
  name: string;
  /** The namespace it belongs to. */
  namespace: string;
  type: MessageType;
  /** The number of queues. */
  queues: number;
  durability: Durability;
  /** How long messages are retained, such as `3d`. */
  retention: string;
  /** How long messages are retained, in milliseconds. */
  retention_ms: number;
  /** The largest body that the topic accepts. */
  body_bytes_max: number;
  /** When it was created. */
  created_at: string;
  /** When it was last changed. */
  updated_at: string;
  queue_offsets?: QueueOut[] | null;
}

/**
 * `lag` is `ready` + `inflight` + `waiting_retry`, and `lag_ms` the age of the oldest of
 * all these. All null if the group has no offset yet: unknown is never 0.
 */
export interface TopicProgressOut {
  /** Name of the topic. */
  topic: string;
  /** Messages still to do: ready + inflight + waiting_retry; null if unknown. */
  lag: number | null;
  /** exact, or estimated from a sample if a filter has too many messages to check. */
  lag_is: LagIs | null;
  /** Age of the oldest of them, since it was first stored in its topic. */
  lag_ms: number | null;
  ready: number | null;
  /** Messages in flight: leased and not settled. */
  inflight: number | null;
  /** Failed messages to be redelivered, now or later. */
  waiting_retry: number | null;
  retry: RetryOut;
  /** max_offset - consumer_offset, which RocketMQ calls lag. */
  offset_lag: number | null;
  /** Each queue with its progress. */
  queues: QueueProgressOut[];
}

/** `dry_run`: only say what would go. */
export interface TopicPurgeIn {
  /** Whether this is only a preview. */
  dry_run?: boolean;
}

/**
 * `is_complete` is false when events or groups may be missing: there were too many, or the
 * key index lacks the newest messages.
 */
export interface TraceOut {
  /** Unique id that never changes. */
  id: string;
  events: EventOut[];
  groups: GroupStateOut[];
  /** False if events or groups may be missing. */
  is_complete: boolean;
}

export class Topics {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List topics, by name. */
  list(options: CallOptions & { after?: string; contains?: string; limit?: number; } = {}): Promise<TopicListOut> {
    return this.#call("GET", "/v1/ns/{ns}/topics", {}, options, ["after", "contains", "limit"]);
  }

  /** Read one topic with the offsets of its queues. */
  get(topic: string, options: CallOptions = {}): Promise<TopicOut> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}", { topic }, options);
  }

  /** Create or change a topic. */
  create(topic: string, body: TopicIn = {}, options: CallOptions = {}): Promise<TopicOut> {
    return this.#call("PUT", "/v1/ns/{ns}/topics/{topic}", { topic }, options, [], body);
  }

  /** Delete a topic with its messages. */
  delete(topic: string, options: CallOptions = {}): Promise<void> {
    return this.#call("DELETE", "/v1/ns/{ns}/topics/{topic}", { topic }, options);
  }

  /** Purge a topic. */
  purge(topic: string, body: TopicPurgeIn = {}, options: CallOptions = {}): Promise<PurgeOut> {
    return this.#call("POST", "/v1/ns/{ns}/topics/{topic}:purge", { topic }, options, [], body);
  }

  /** Read the past rate of messages into a topic. */
  rateHistory(topic: string, options: CallOptions & { from?: string; to?: string; } = {}): Promise<RateHistoryOut> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/rate/history", { topic }, options, ["from", "to"]);
  }
}

export class Groups {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List groups, by name. */
  list(options: CallOptions & { after?: string; contains?: string; limit?: number; } = {}): Promise<GroupListOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups", {}, options, ["after", "contains", "limit"]);
  }

  /** Read one group with its lag per queue. */
  get(group: string, options: CallOptions = {}): Promise<GroupOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}", { group }, options);
  }

  /** Create or change a group. */
  create(group: string, body: GroupIn = {}, options: CallOptions = {}): Promise<GroupOut> {
    return this.#call("PUT", "/v1/ns/{ns}/groups/{group}", { group }, options, [], body);
  }

  /** Delete a group with its progress, its retries and its dead letters. */
  delete(group: string, options: CallOptions = {}): Promise<void> {
    return this.#call("DELETE", "/v1/ns/{ns}/groups/{group}", { group }, options);
  }

  /** Pause a group. */
  pause(group: string, options: CallOptions = {}): Promise<GroupOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}:pause", { group }, options);
  }

  /** Resume a group. */
  resume(group: string, options: CallOptions = {}): Promise<GroupOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}:resume", { group }, options);
  }

  /** Move a group to another position of a topic, or preview that. */
  seek(group: string, body: SeekIn, options: CallOptions = {}): Promise<SeekOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}:seek", { group }, options, [], body);
  }

  /** Read what the group still has to do. */
  lag(group: string, options: CallOptions & { topic?: string | null; client_id?: string | null; after?: string; limit?: number; } = {}): Promise<GroupLagOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/lag", { group }, options, ["topic", "client_id", "after", "limit"]);
  }

  /** Read the past lag of a group, in all or on one topic. */
  lagHistory(group: string, options: CallOptions & { from?: string; topic?: string; to?: string; } = {}): Promise<LagHistoryOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/lag/history", { group }, options, ["from", "topic", "to"]);
  }

  /** Read a group's offsets, for one topic or for all it has read. */
  offsets(group: string, options: CallOptions & { topic?: string | null; client_id?: string | null; } = {}): Promise<OffsetsOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/offsets", { group }, options, ["topic", "client_id"]);
  }

  /** Commit an offset. */
  commitOffset(group: string, body: CommitIn, options: CallOptions = {}): Promise<CommitOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}/offsets:commit", { group }, options, [], body);
  }

  /** Who reads for the group now. */
  clients(group: string, options: CallOptions = {}): Promise<GroupClientsOut> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/clients", { group }, options);
  }
}

export class DeadLetters {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Browse dead letters. */
  list(group: string, options: CallOptions & { key?: string; tag?: string; reason?: string; from?: string; to?: string; limit?: number; cursor?: string; } = {}): Promise<DeadLettersResponse> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/dlq", { group }, options, ["key", "tag", "reason", "from", "to", "limit", "cursor"]);
  }

  /** Read one dead letter. */
  get(group: string, messageId: string, options: CallOptions = {}): Promise<DeadLetterMessage> {
    return this.#call("GET", "/v1/ns/{ns}/groups/{group}/dlq/{message_id}", { group, message_id: messageId }, options);
  }

  /** Redrive dead letters. */
  redrive(group: string, body: RedriveIn, options: CallOptions = {}): Promise<DryRunOut | TaskOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}/dlq:redrive", { group }, options, [], body);
  }

  /** Purge dead letters. */
  purge(group: string, body: PurgeIn, options: CallOptions = {}): Promise<DryRunOut | TaskOut> {
    return this.#call("POST", "/v1/ns/{ns}/groups/{group}/dlq:purge", { group }, options, [], body);
  }
}

export class Tasks {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List tasks, the newest first. */
  list(options: CallOptions & { before?: string; limit?: number; } = {}): Promise<TaskListOut> {
    return this.#call("GET", "/v1/ns/{ns}/tasks", {}, options, ["before", "limit"]);
  }

  /** Read the progress of a task. */
  get(taskId: string, options: CallOptions = {}): Promise<TaskOut> {
    return this.#call("GET", "/v1/ns/{ns}/tasks/{task_id}", { task_id: taskId }, options);
  }

  /** Cancel a task. */
  cancel(taskId: string, options: CallOptions = {}): Promise<TaskOut> {
    return this.#call("POST", "/v1/ns/{ns}/tasks/{task_id}:cancel", { task_id: taskId }, options);
  }

  /** List the messages that a task did not move, and why. */
  failures(taskId: string, options: CallOptions & { after?: number; limit?: number; } = {}): Promise<FailureListOut> {
    return this.#call("GET", "/v1/ns/{ns}/tasks/{task_id}/failures", { task_id: taskId }, options, ["after", "limit"]);
  }
}

export class Messages {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Browse or search a topic. */
  browse(topic: string, options: CallOptions & { key?: string; tag?: string; from?: string; to?: string; queue?: number; offset?: number; filter?: string; sql?: string; contains?: string; limit?: number; cursor?: string; } = {}): Promise<BrowseResponse> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/messages", { topic }, options, ["key", "tag", "from", "to", "queue", "offset", "filter", "sql", "contains", "limit", "cursor"]);
  }

  /** Read one message. */
  get(topic: string, messageId: string, options: CallOptions = {}): Promise<StoredMessage> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/messages/{message_id}", { topic, message_id: messageId }, options);
  }

  /** Trace a message. */
  trace(messageId: string, options: CallOptions & { topic?: string | null; group?: string | null; } = {}): Promise<TraceOut> {
    return this.#call("GET", "/v1/ns/{ns}/messages/{message_id}/trace", { message_id: messageId }, options, ["topic", "group"]);
  }

  /** Pull from a queue at an offset. */
  pull(topic: string, queue: number, options: CallOptions & { offset: number; max?: number; tag?: string; }): Promise<PullResponse> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/queues/{queue}/messages", { topic, queue }, options, ["offset", "max", "tag"]);
  }

  /** Find the offset of a time. */
  offsetAtTime(topic: string, queue: number, options: CallOptions & { time: string; }): Promise<OffsetResponse> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/queues/{queue}/offset", { topic, queue }, options, ["time"]);
  }
}

export class Scheduled {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List scheduled messages of a topic. */
  list(topic: string, options: CallOptions & { limit?: number; cursor?: string; } = {}): Promise<ScheduledResponse> {
    return this.#call("GET", "/v1/ns/{ns}/topics/{topic}/scheduled", { topic }, options, ["limit", "cursor"]);
  }

  /** List scheduled messages of all topics. */
  listAll(options: CallOptions & { limit?: number; cursor?: string; } = {}): Promise<NamespaceScheduledResponse> {
    return this.#call("GET", "/v1/ns/{ns}/scheduled", {}, options, ["limit", "cursor"]);
  }

  /** Cancel a scheduled message. */
  cancel(recallHandle: string, options: CallOptions = {}): Promise<ScheduledDone> {
    return this.#call("DELETE", "/v1/ns/{ns}/scheduled/{recall_handle}", { recall_handle: recallHandle }, options);
  }

  /** Send a scheduled message now. */
  send(recallHandle: string, options: CallOptions = {}): Promise<ScheduledDone> {
    return this.#call("POST", "/v1/ns/{ns}/scheduled/{recall_handle}:send", { recall_handle: recallHandle }, options);
  }

  /** Reschedule a message. */
  reschedule(recallHandle: string, body: RescheduleRequest, options: CallOptions = {}): Promise<Rescheduled> {
    return this.#call("POST", "/v1/ns/{ns}/scheduled/{recall_handle}:reschedule", { recall_handle: recallHandle }, options, [], body);
  }
}

export class Schedules {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List schedules, by name, with the results of their last runs. */
  list(options: CallOptions & { after?: string; limit?: number; } = {}): Promise<ScheduleListOut> {
    return this.#call("GET", "/v1/ns/{ns}/schedules", {}, options, ["after", "limit"]);
  }

  /** Read one schedule with its next ten runs. */
  get(name: string, options: CallOptions = {}): Promise<ScheduleOut> {
    return this.#call("GET", "/v1/ns/{ns}/schedules/{name}", { name }, options);
  }

  /** Create or change a schedule. */
  create(name: string, body: ScheduleIn = {}, options: CallOptions = {}): Promise<ScheduleOut> {
    return this.#call("PUT", "/v1/ns/{ns}/schedules/{name}", { name }, options, [], body);
  }

  /** Delete a schedule. */
  delete(name: string, options: CallOptions = {}): Promise<void> {
    return this.#call("DELETE", "/v1/ns/{ns}/schedules/{name}", { name }, options);
  }

  /** Pause a schedule until `:resume`. */
  pause(name: string, options: CallOptions = {}): Promise<ScheduleOut> {
    return this.#call("POST", "/v1/ns/{ns}/schedules/{name}:pause", { name }, options);
  }

  /** Resume a schedule from now. */
  resume(name: string, options: CallOptions = {}): Promise<ScheduleOut> {
    return this.#call("POST", "/v1/ns/{ns}/schedules/{name}:resume", { name }, options);
  }

  /** Send its message once now, in addition to its planned runs, also while it is paused. */
  send(name: string, options: CallOptions = {}): Promise<SentNowOut> {
    return this.#call("POST", "/v1/ns/{ns}/schedules/{name}:send", { name }, options);
  }

  /** Preview the next ten times of an expression in a time zone, without a schedule. */
  preview(body: PreviewIn, options: CallOptions = {}): Promise<PreviewOut> {
    return this.#call("POST", "/v1/ns/{ns}/schedules:preview", {}, options, [], body);
  }
}

export class Issues {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List issues, the last seen first. */
  list(options: CallOptions & { state?: IssueState | null; group?: string | null; topic?: string | null; before?: string; limit?: number; } = {}): Promise<IssueListOut> {
    return this.#call("GET", "/v1/ns/{ns}/issues", {}, options, ["state", "group", "topic", "before", "limit"]);
  }

  /** Read one issue with its newest messages, its hours and its history. */
  get(issueId: string, options: CallOptions = {}): Promise<IssueDetailOut> {
    return this.#call("GET", "/v1/ns/{ns}/issues/{issue_id}", { issue_id: issueId }, options);
  }

  /** Acknowledge an issue. */
  acknowledge(issueId: string, options: CallOptions = {}): Promise<IssueOut> {
    return this.#call("POST", "/v1/ns/{ns}/issues/{issue_id}:acknowledge", { issue_id: issueId }, options);
  }

  /** Resolve an issue. */
  resolve(issueId: string, options: CallOptions = {}): Promise<IssueOut> {
    return this.#call("POST", "/v1/ns/{ns}/issues/{issue_id}:resolve", { issue_id: issueId }, options);
  }

  /** Ignore an issue. */
  ignore(issueId: string, options: CallOptions = {}): Promise<IssueOut> {
    return this.#call("POST", "/v1/ns/{ns}/issues/{issue_id}:ignore", { issue_id: issueId }, options);
  }

  /** Reopen an issue. */
  reopen(issueId: string, options: CallOptions = {}): Promise<IssueOut> {
    return this.#call("POST", "/v1/ns/{ns}/issues/{issue_id}:reopen", { issue_id: issueId }, options);
  }
}

export class Keys {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** List API keys, by id, including revoked ones. */
  list(options: CallOptions & { after?: string; limit?: number; } = {}): Promise<KeyListOut> {
    return this.#call("GET", "/v1/keys", {}, options, ["after", "limit"]);
  }

  /** Create an API key. */
  create(body: NewKeyIn, options: CallOptions = {}): Promise<NewKeyOut> {
    return this.#call("POST", "/v1/keys", {}, options, [], body);
  }

  /** Read one key, without its secret. */
  get(keyId: string, options: CallOptions = {}): Promise<KeyOut> {
    return this.#call("GET", "/v1/keys/{key_id}", { key_id: keyId }, options);
  }

  /** Change name, scopes, role or expiry of a key. */
  update(keyId: string, body: KeyIn = {}, options: CallOptions = {}): Promise<KeyOut> {
    return this.#call("PATCH", "/v1/keys/{key_id}", { key_id: keyId }, options, [], body);
  }

  /** Revoke a key. */
  revoke(keyId: string, options: CallOptions = {}): Promise<KeyOut> {
    return this.#call("POST", "/v1/keys/{key_id}:revoke", { key_id: keyId }, options);
  }

  /** Rotate a key. */
  rotate(keyId: string, body: RotationIn = {}, options: CallOptions = {}): Promise<NewKeyOut> {
    return this.#call("POST", "/v1/keys/{key_id}:rotate", { key_id: keyId }, options, [], body);
  }
}

export class Tickets {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Create a ticket that opens one socket, once and soon, for a page that cannot send a key. */
  create(body: TicketIn = {}, options: CallOptions = {}): Promise<TicketOut> {
    return this.#call("POST", "/v1/ws-tickets", {}, options, [], body);
  }
}
