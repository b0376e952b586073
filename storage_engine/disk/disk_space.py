"""How full the disk is, what that means for puts and retention, and the space reserved for settles.

    retention ── look() ──▶ [DiskSpace] ──▶ state: fine, clean (75 %), force (85 %), full (90 %)
    Files, when there is no room ── release ──▶ the reserve's bytes

The percentages are RocketMQ's. A tenth of a large disk is still a lot, so none counts while
``disk_enough_bytes`` are free (full), twice as many (force) or four times as many (clean): a large
disk too deletes before it refuses. At "full" puts are refused, with nothing stored, until space
is back; reads, settles and checkpoints go on, for which a file of ``reserve_bytes`` is kept and
given up when they find no room. While it is gone puts are refused too. Loop thread; ``release``:
any.
"""

from __future__ import annotations

import enum
import logging

from storage_engine.config import StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import RESERVE_FILE
from storage_engine.errors import DiskFull, StoreError

log = logging.getLogger(__name__)


class DiskState(enum.IntEnum):
    """What the fill of the disk asks for; each includes those before it."""

    FINE = 0
    CLEAN = 1  # expired segments go at once
    FORCE = 2  # the oldest segments go though not expired
    FULL = 3  # no more puts


class DiskSpace:
    """See the module's docstring. ``refusal``: why nothing can be put, or None."""

    def __init__(self, config: StoreConfig, files: Files) -> None:
        self._config = config
        self._files = files
        self._path = config.store_path / RESERVE_FILE
        self._is_kept = False
        self.state = DiskState.FINE
        self.refusal: DiskFull | None = None

    def open(self) -> None:
        """Take the reserve, where there is room for it, and look for the first time."""
        self._is_kept = self._path.exists()
        self._files.reserve = self.release
        self.measure()

    def measure(self) -> DiskState:
        """Ask the file system; one call. Every second."""
        total_bytes, free_bytes = self._files.disk_usage(self._config.store_path)
        config = self._config
        percent = 100 * (total_bytes - free_bytes) / max(total_bytes, 1)
        marks = (
            (config.disk_clean_percent, 4 * config.disk_enough_bytes),
            (config.disk_force_percent, 2 * config.disk_enough_bytes),
            (config.disk_full_percent, config.disk_enough_bytes),
        )
        state = DiskState(sum(percent >= mark and free_bytes < enough for mark, enough in marks))
        if not self._is_kept and config.reserve_bytes and free_bytes > 2 * config.reserve_bytes:
            self._create_reserve()
        refusal = None
        if state is DiskState.FULL:
            refusal = DiskFull(
                f"the disk is {percent:.1f} % full ({free_bytes} bytes are free); "
                f"messages are accepted again below {config.disk_full_percent} % or with "
                f"{config.disk_enough_bytes} bytes free"
            )
        elif not self._is_kept and config.reserve_bytes:
            refusal = DiskFull(
                f"the disk is full ({free_bytes} bytes are free); the rest is reserved for settles"
            )
        if (refusal is None) != (self.refusal is None):
            log.warning(
                "The disk has space again"
                if refusal is None
                else "The disk is full; rejecting messages",
                extra={"action": "disk_state", "percent": round(percent, 1), "free": free_bytes},
            )
        self.state, self.refusal = state, refusal
        return state

    def _create_reserve(self) -> None:
        size_bytes = self._config.reserve_bytes
        try:
            self._files.create(self._path, size_bytes, size_bytes)
        except (StoreError, OSError):
            return
        self._is_kept = True

    def release(self) -> bool:
        """Give up the reserve for something that must go on; False when it is gone already."""
        if not self._is_kept:
            return False
        self._is_kept = False
        self.refusal = DiskFull("the disk is full; the rest is reserved for settles")
        self._files.unlink(self._path)
        log.error(
            "The disk is full; released the reserved space so that settles can continue",
            extra={"action": "reserve_released"},
        )
        return True
