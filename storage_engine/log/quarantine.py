"""Known damage in the log, listed in ``config/quarantine.json`` until an operator acts.

    recovery, readers ── add(damage) ──▶ [Quarantine] ──▶ the file, the log, a metric

A damaged record below the durable watermark costs itself and nothing else: it stays where it is, is
never served, and what stands behind it is. The entry is the durable alarm; deleting the file only
forgets the alarm. Loop thread only.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, QUARANTINE_FILE
from storage_engine.errors import StoreError
from storage_engine.log.log_scan import Damage

log = logging.getLogger(__name__)

# A disk that loses everything would otherwise fill itself with complaints.
_ENTRIES_MAX: Final = 10_000


class QuarantineEntry(msgspec.Struct, frozen=True, rename="camel"):
    """Damaged bytes ``[physical_offset, physical_offset + byte_count)`` of the log."""

    physical_offset: int
    byte_count: int
    reason: str
    found_at_ms: int


class _File(msgspec.Struct):
    entries: list[QuarantineEntry] = []


class Quarantine:
    """See the module's docstring. ``count`` is how many places are damaged."""

    def __init__(self, files: Files, store_path: Path, clock: Clock) -> None:
        self._files = files
        self._path = store_path / CONFIG_DIR / QUARANTINE_FILE
        self._clock = clock
        self._entries: dict[int, QuarantineEntry] = {}
        self._is_saved = True
        self.count = 0

    def load(self) -> None:
        """Load the list. If it cannot be read a new one is started: it is only an alarm."""
        try:
            entries = msgspec.json.decode(self._path.read_bytes(), type=_File).entries
        except FileNotFoundError:
            return
        except msgspec.MsgspecError as exc:
            log.warning(
                "Could not read the list of damaged records; starting a new one",
                extra={"action": "quarantine_unreadable", "reason": str(exc)},
            )
            return
        self._entries = {entry.physical_offset: entry for entry in entries}
        self.count = len(self._entries)

    def add(self, damaged: list[Damage]) -> None:
        """Remember places that are not known yet; durable on return.

        Raises ``DiskFull``: they are remembered, and written with the next ones.
        """
        known = dict(self._entries)
        for damage in damaged:
            if damage.start in known or len(known) >= _ENTRIES_MAX:
                continue
            known[damage.start] = QuarantineEntry(
                damage.start, damage.end - damage.start, damage.reason, self._clock.now_ms()
            )
            log.error(
                "Found a damaged record in the commit log",
                extra={
                    "action": "record_quarantined",
                    "physical_offset": damage.start,
                    "byte_count": damage.end - damage.start,
                    "reason": damage.reason,
                },
            )
        if len(known) > len(self._entries) or not self._is_saved:
            self._entries = known
            self.count = len(known)
            self._save()

    def note_unreadable(self, records: list[tuple[int, int]]) -> None:
        """As ``note`` for records, by (physical_offset, record_bytes), that a reader came to."""
        if records:
            reason = "failed verification when it was read"
            self.note([Damage(at, at + record_bytes, reason) for at, record_bytes in records])

    def note(self, damaged: list[Damage]) -> None:
        """As ``add``; if the list cannot be written it is tried again later, and the caller
        continues.
        """
        try:
            self.add(damaged)
        except (StoreError, OSError) as exc:
            log.error(
                "Could not save the list of damaged records",
                extra={"action": "quarantine_save_failed", "reason": str(exc)},
            )

    def drop_below(self, offset: int) -> None:
        """Forget places in segments that retention has deleted. Raises ``DiskFull``."""
        if self.forget_below(offset):
            self._save()

    def forget_below(self, offset: int) -> bool:
        """The same without writing it down; whether there were any.

        For a start: the write may have found no room when the segments were deleted.
        """
        kept = {start: entry for start, entry in self._entries.items() if start >= offset}
        if len(kept) == len(self._entries):
            return False
        self._entries, self._is_saved = kept, False
        self.count = len(kept)
        return True

    def _save(self) -> None:
        self._is_saved = False
        content = msgspec.json.encode(_File(list(self._entries.values())))
        self._files.replace(self._path, content)
        self._is_saved = True
