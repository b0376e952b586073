"""The clock used for retention: the wall clock, but never further ahead than is plausible.

    wall clock ──┐
    steady clock ┼──▶ [RetentionClock] ── now_ms ──▶ retention        config/retentionClock.json
    last run's ──┘                                                   ◀── where it stood, each minute

While the engine runs it goes no faster than the steady clock. At a start it begins where the last
run left it and catches up with the wall clock at most sixty times as fast as time passes: three
days of stop take an hour and a quarter, and a machine that woke up with its clock a year ahead lets
nothing go that day. Wall clocks that were set back are followed at once. Loop thread only.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, RETENTION_CLOCK_FILE
from storage_engine.errors import StoreError

log = logging.getLogger(__name__)

TOLERANCE_MS: Final = 60 * SECOND_MS  # a wall clock that is corrected in small steps is believed
CATCH_UP_FACTOR: Final = 60
_SAVE_EACH_MS: Final = 60 * SECOND_MS
_WARN_FROM_MS: Final = 3_600 * SECOND_MS


class _File(msgspec.Struct):
    nowMs: int


class RetentionClock:
    """See the module's docstring.

    ``newest_ms``: when the newest record of the log was stored, for a store that does not say where
    its last run stood; 0 when it has none, and then the wall clock is believed.
    """

    def __init__(self, files: Files, store_path: Path, clock: Clock, newest_ms: int) -> None:
        self._files = files
        self._path = store_path / CONFIG_DIR / RETENTION_CLOCK_FILE
        self._clock = clock
        self._wall_ms, self._steady_ms = clock.now_ms(), clock.monotonic_ms()
        self._saved_ms = self._load()
        self._known_ms = self._saved_ms or newest_ms or self._wall_ms
        if self.behind_ms() >= _WARN_FROM_MS:
            log.warning(
                "The clock has jumped far ahead since the last run; expiring "
                "messages slowly until retention catches up",
                extra={"action": "retention_clock_behind", "behind_ms": self.behind_ms()},
            )

    def _load(self) -> int:
        """What cannot be read is not known: the newest record says enough."""
        try:
            return max(msgspec.json.decode(self._path.read_bytes(), type=_File).nowMs, 0)
        except (FileNotFoundError, msgspec.MsgspecError):
            return 0

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may go back, as the wall clock may."""
        passed_ms = self._clock.monotonic_ms() - self._steady_ms
        return min(
            self._clock.now_ms(),
            self._wall_ms + passed_ms + TOLERANCE_MS,
            self._known_ms + passed_ms * CATCH_UP_FACTOR + TOLERANCE_MS,
        )

    def behind_ms(self) -> int:
        """How far the wall clock is ahead of this one."""
        return self._clock.now_ms() - self.now_ms()

    async def save(self) -> None:
        """Write down where it stands, a minute or more after the last time, on a thread.

        A disk that takes nothing is only logged: the next run begins earlier then.
        """
        now_ms = self.now_ms()
        if abs(now_ms - self._saved_ms) < _SAVE_EACH_MS:
            return
        content = msgspec.json.encode(_File(now_ms))
        try:
            await asyncio.get_running_loop().run_in_executor(
                None, self._files.replace, self._path, content
            )
        except (StoreError, OSError) as exc:
            log.warning(
                "Could not save the retention clock; trying again later",
                extra={"action": "retention_clock_save_failed", "reason": str(exc)},
            )
            return
        self._saved_ms = now_ms
