"""What ``python -m storage_engine.tools.transfer`` prints: lines of progress, then a report."""

from __future__ import annotations

import msgspec

from storage_engine.tools.program_lines import Line


class ReportLine(Line, frozen=True, kw_only=True, tag="report"):
    """The last line; ``report`` is an ``ImportReport`` or an ``ExportReport``."""

    report: msgspec.Raw


class TopicReport(msgspec.Struct, kw_only=True):
    """``type``: normal, fifo, delay or mixed. Times are store times, epoch ms; 0 without any."""

    name: str
    type: str
    queues: int
    retention_ms: int
    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0


class GroupReport(msgspec.Struct, kw_only=True):
    """``max_reconsume_times``: redeliveries, -1 for ever. ``offsets``: queues with an offset."""

    name: str
    max_reconsume_times: int
    ordered: bool
    paused: bool
    topics: list[str] = []
    offsets: int = 0
    retries: int = 0
    dead_letters: int = 0


class DelayedReport(msgspec.Struct, kw_only=True):
    """Messages that are still to come; when the first and the last are due, epoch ms."""

    messages: int = 0
    first_due_ms: int = 0
    last_due_ms: int = 0

    def count(self, due_ms: int) -> None:
        """One more."""
        self.first_due_ms = min(self.first_due_ms, due_ms) if self.messages else due_ms
        self.last_due_ms = max(self.last_due_ms, due_ms)
        self.messages += 1


class LeftBehind(msgspec.Struct, kw_only=True):
    """What does not come, and why; ``is_loss``: somebody may miss it."""

    what: str
    count: int
    why: str
    is_loss: bool


class ImportReport(msgspec.Struct, kw_only=True):
    """What an import brings and leaves behind. ``verified_…``: compared after writing; else 0."""

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
    verified_queues: int = 0
    verified_messages: int = 0


class ExportedTopic(msgspec.Struct, kw_only=True):
    """A topic under the name that it has in RocketMQ."""

    name: str
    queues: int
    messages: int = 0


class ExportReport(msgspec.Struct, kw_only=True):
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
    verified_queues: int = 0
    verified_messages: int = 0
