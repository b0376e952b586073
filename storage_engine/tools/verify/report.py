"""What a check of a store found: findings, counts, and notes about what could not be checked.

verify_* ── add(finding) ──▶ [Report] ──▶ JSON, or lines for people
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

# Of one kind; behind that only their number is kept, so that a wrecked store has a short report.
FINDINGS_OF_A_KIND_MAX: Final = 100


class Severity(enum.StrEnum):
    """``error``: messages or progress are lost or in doubt. ``warning``: nothing is lost."""

    ERROR = "error"
    WARNING = "warning"


class Kind(enum.StrEnum):
    """What can be wrong; docs/operations.md has the same list."""

    RECORD_DAMAGED = "record_damaged"
    SEGMENT_MISSING = "segment_missing"
    SEGMENT_TRUNCATED = "segment_truncated"
    LOG_TOO_SHORT = "log_too_short"
    LOG_TAIL = "log_tail"
    LOG_REJECTED = "log_rejected"
    QUEUE_OFFSET_WRONG = "queue_offset_wrong"
    QUEUE_FILE_MISSING = "queue_file_missing"
    QUEUE_FILE_TRUNCATED = "queue_file_truncated"
    UNIT_WRONG = "unit_wrong"
    UNIT_BEYOND_LOG = "unit_beyond_log"
    INDEX_UNREADABLE = "index_unreadable"
    INDEX_ENTRY_WRONG = "index_entry_wrong"
    INDEX_ENTRY_MISSING = "index_entry_missing"
    INDEX_SLOT_WRONG = "index_slot_wrong"
    REQUEST_KEY_WRONG = "request_key_wrong"
    REQUEST_KEY_MISSING = "request_key_missing"
    CHECKPOINT_DAMAGED = "checkpoint_damaged"
    CONSUMER_OFFSET_BEYOND = "consumer_offset_beyond"
    JOURNAL_DAMAGED = "journal_damaged"
    CONFIG_DAMAGED = "config_damaged"
    STRAY_FILE = "stray_file"
    TEMPORARY_FILE = "temporary_file"


_REBUILD: Final = "stop the engine, delete {}, start it: it is rebuilt from the log"
_QUEUES: Final = _REBUILD.format("consumequeue/")
_INDEX: Final = _REBUILD.format("index/")
_BACKUP: Final = "restore the file from a backup while the engine is stopped"
_REQUESTS: Final = (
    "no message is lost; a request repeated within ten minutes may be stored a second time"
)
_ADVICE: Final[dict[Kind, tuple[Severity, str]]] = {
    Kind.RECORD_DAMAGED: (
        Severity.ERROR,
        (
            "check the disk; this record is lost unless a copy of the segment has it, "
            "other records are not affected"
        ),
    ),
    Kind.SEGMENT_MISSING: (Severity.ERROR, _BACKUP),
    Kind.SEGMENT_TRUNCATED: (Severity.ERROR, _BACKUP),
    Kind.LOG_TOO_SHORT: (Severity.ERROR, _BACKUP),
    Kind.LOG_TAIL: (
        Severity.WARNING,
        "start the engine: it cuts off what was never acknowledged",
    ),
    Kind.LOG_REJECTED: (
        Severity.ERROR,
        "the engine does not start on this log; nothing is lost that the log has",
    ),
    Kind.QUEUE_OFFSET_WRONG: (Severity.ERROR, "keep a copy of the store and report this"),
    Kind.QUEUE_FILE_MISSING: (Severity.WARNING, _QUEUES),
    Kind.QUEUE_FILE_TRUNCATED: (Severity.WARNING, _QUEUES),
    Kind.UNIT_WRONG: (Severity.ERROR, _QUEUES),
    Kind.UNIT_BEYOND_LOG: (Severity.ERROR, _QUEUES),
    Kind.INDEX_UNREADABLE: (Severity.WARNING, f"give --index-slots, or {_INDEX}"),
    Kind.INDEX_ENTRY_WRONG: (Severity.WARNING, _INDEX),
    Kind.INDEX_ENTRY_MISSING: (Severity.WARNING, _INDEX),
    Kind.INDEX_SLOT_WRONG: (Severity.WARNING, _INDEX),
    Kind.REQUEST_KEY_WRONG: (Severity.WARNING, _REQUESTS),
    Kind.REQUEST_KEY_MISSING: (Severity.WARNING, _REQUESTS),
    Kind.CHECKPOINT_DAMAGED: (
        Severity.WARNING,
        "start the engine: without a checkpoint it reads the log from its start",
    ),
    Kind.CONSUMER_OFFSET_BEYOND: (
        Severity.WARNING,
        "start the engine: it moves the group back to the end of the queue",
    ),
    Kind.JOURNAL_DAMAGED: (
        Severity.WARNING,
        (
            "start the engine: settles after that place are lost, and their messages are "
            "delivered again"
        ),
    ),
    Kind.CONFIG_DAMAGED: (Severity.ERROR, _BACKUP),
    Kind.STRAY_FILE: (Severity.WARNING, "move it out of the store; the engine did not create it"),
    Kind.TEMPORARY_FILE: (
        Severity.WARNING,
        ("left behind by a stop in the middle of a write; the engine deletes it at its next start"),
    ),
}
assert set(_ADVICE) == set(Kind)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it should be. ``path`` is relative to the store."""

    kind: Kind
    severity: Severity
    path: str
    offset: int | None  # bytes of the log, units of a queue, or entries of an index file
    what: str
    advice: str


class FileCount(msgspec.Struct, kw_only=True):
    """Files of one kind; ``item_count``: records, units or entries that were looked at."""

    file_count: int = 0
    byte_count: int = 0
    item_count: int = 0


class Progress(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much of the log is read; ``total_bytes`` is a guess until the end is found."""

    done_bytes: int
    total_bytes: int


class Report(msgspec.Struct, kw_only=True):
    """The outcome; ``is_whole_store`` is False beside a running engine."""

    store: str
    is_whole_store: bool = True
    verified_offset: int = 0  # the log was read to here
    byte_count: int = 0
    duration_ms: int = 0
    counts: dict[str, FileCount] = {}
    findings: list[Finding] = []
    finding_counts: dict[Kind, int] = {}
    notes: list[str] = []

    def add(self, kind: Kind, path: str, offset: int | None, what: str) -> None:
        count = self.finding_counts.get(kind, 0) + 1
        self.finding_counts[kind] = count
        if count <= FINDINGS_OF_A_KIND_MAX:
            severity, advice = _ADVICE[kind]
            self.findings.append(
                Finding(
                    kind=kind,
                    severity=severity,
                    path=path,
                    offset=offset,
                    what=what,
                    advice=advice,
                )
            )

    def count(self, what: str) -> FileCount:
        return self.counts.setdefault(what, FileCount())

    @property
    def is_clean(self) -> bool:
        return not self.finding_counts


def lines(report: Report) -> list[str]:
    """The report as plain text."""
    text = [f"{report.store}"]
    for what, count in report.counts.items():
        text.append(
            f"  {what:<16} {count.file_count:>8,} files {count.byte_count:>16,} bytes "
            f"{count.item_count:>12,} items"
        )
    seconds = max(report.duration_ms, 1) / 1_000
    records = report.counts["commit log"].item_count if "commit log" in report.counts else 0
    text.append(
        f"  log read to {report.verified_offset:,} in {seconds:.1f} s: "
        f"{report.byte_count / seconds / 1e6:,.0f} MB/s, {records / seconds:,.0f} records/s"
    )
    text += [f"note: {note}" for note in report.notes]
    for finding in report.findings:
        place = "" if finding.offset is None else f" at {finding.offset}"
        text.append(f"{finding.severity}: {finding.kind}: {finding.path}{place}: {finding.what}")
        text.append(f"    {finding.advice}")
    for kind, number in report.finding_counts.items():
        if number > FINDINGS_OF_A_KIND_MAX:
            text.append(f"and {number - FINDINGS_OF_A_KIND_MAX:,} more of {kind}")
    text.append("clean" if report.is_clean else f"{sum(report.finding_counts.values()):,} findings")
    return text
