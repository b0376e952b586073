"""The output of the engine's program for transfers, as ``storage_engine.tools.transfer`` has it."""

from __future__ import annotations

import msgspec


class TopicReport(msgspec.Struct, frozen=True, kw_only=True):
    """``type``: of the topic to be. Times are epoch ms; 0 without a message."""

    name: str
    type: str
    queues: int
    retention_ms: int
    messages: int
    bytes: int
    oldest_ms: int
    newest_ms: int


class GroupReport(msgspec.Struct, frozen=True, kw_only=True):
    """``max_reconsume_times``: redeliveries, -1 for ever. ``offsets``: queues with an offset."""

    name: str
    max_reconsume_times: int
    ordered: bool
    paused: bool
    topics: list[str]
    offsets: int
    retries: int
    dead_letters: int


class DelayedReport(msgspec.Struct, frozen=True, kw_only=True):
    """When the first and the last are due: epoch ms."""

    messages: int
    first_due_ms: int
    last_due_ms: int


class LeftBehind(msgspec.Struct, frozen=True, kw_only=True):
    """What does not come; ``is_loss``: somebody may miss it."""

    what: str
    count: int
    why: str
    is_loss: bool


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """``verified_messages``: compared after they were written; 0 where nothing was."""

    source: str
    namespace: str
    log_start: int
    log_end: int
    record_count: int
    topics: list[TopicReport]
    groups: list[GroupReport]
    messages: int
    bytes: int
    delayed: DelayedReport
    timers: DelayedReport
    retries: int
    dead_letters: int
    left_behind: list[LeftBehind]
    notes: list[str]
    verified_queues: int
    verified_messages: int


class ExportedTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic under the name that it has in RocketMQ."""

    name: str
    queues: int
    messages: int


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an export has written. ``notes``: what RocketMQ will not do with it."""

    source: str
    namespace: str
    topics: list[ExportedTopic]
    groups: list[str]
    messages: int
    delayed: DelayedReport
    retries: int
    dead_letters: int
    notes: list[str]
    verified_queues: int
    verified_messages: int
