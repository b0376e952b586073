"""The time that delays are counted by: it does not follow jumps of the wall clock.

    wall, monotonic ──▶ [DelayClock] ── delay_ms() ──▶ delays: put_path, retries, schedule
                                     └─ time_ms() ──▶ times: schedule

``delay_ms`` tells the time by which delays are measured: the wall clock's when the machine started
with this store, and from then on as much more as has truly passed. It is kept in
``config/delayClock.json`` so that it goes on evenly when the engine starts anew; only after the
machine did, it begins at the wall clock again, and never before the last record of the log.
``time_ms`` tells the time by which moments are reached that a producer has named: the wall clock,
unless that jumps by more than a minute at once. Such a jump counts from the engine's next start on.
Loop thread only.
"""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from storage_engine.clock import Clock
from storage_engine.config import SECOND_MS, StoreConfig
from storage_engine.disk.files import Files
from storage_engine.disk.layout import CONFIG_DIR, DELAY_CLOCK_FILE
from storage_engine.errors import StoreError

log = logging.getLogger(__name__)

JUMP_MS: Final = 60 * SECOND_MS
_SHOWN_MS_OFF_MAX: Final = SECOND_MS


class _SavedClock(msgspec.Struct, frozen=True, kw_only=True):
    """``ahead_ms``: the time for delays less the monotonic clock, while the machine runs."""

    bootId: str
    ahead_ms: int = msgspec.field(name="aheadMs")


class DelayClock:
    """See the module's docstring. ``start`` must come before all else."""

    def __init__(self, config: StoreConfig, files: Files, clock: Clock) -> None:
        self._files = files
        self._store_path = config.store_path
        self._path = config.store_path / CONFIG_DIR / DELAY_CLOCK_FILE
        self._clock = clock
        self._boot_id = ""
        self._ahead_ms = 0
        self._is_saved = False
        self._wall_ahead_ms = 0  # the wall clock less the monotonic one, as far as it is believed
        self._shown_ahead_ms = 0  # the wall clock less the time for delays, in ``shown_ms``

    def start(self, least_ms: int) -> None:
        """Go on where the last run of this machine was, or begin; not before ``least_ms``."""
        monotonic_ms = self._clock.monotonic_ms()
        self._boot_id = self._files.medium_id(self._store_path).partition(" ")[0]
        self._wall_ahead_ms = self._clock.now_ms() - monotonic_ms
        self._ahead_ms = max(self._wall_ahead_ms, least_ms - monotonic_ms)
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_SavedClock)
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as exc:
            log.warning(
                "Could not read the saved delay clock; delays are counted from the wall clock",
                extra={"action": "delay_clock_read_failed", "reason": str(exc)},
            )
            return
        if kept.bootId == self._boot_id != "":
            self._ahead_ms = kept.ahead_ms
            self._is_saved = True

    def save(self) -> None:
        """Let the next start go on from here; one replaced file when it is not so already.

        Where there is no room, the next start begins at the wall clock.
        """
        if self._is_saved or not self._boot_id:
            return
        kept = _SavedClock(bootId=self._boot_id, ahead_ms=self._ahead_ms)
        try:
            self._files.make_dirs(self._path.parent)
            self._files.replace(self._path, msgspec.json.encode(kept))
        except (StoreError, OSError) as exc:
            log.warning(
                "Could not save the delay clock; after a restart delays are counted "
                "from the wall clock",
                extra={"action": "delay_clock_save_failed", "reason": str(exc)},
            )
            return
        self._is_saved = True

    def delay_ms(self) -> int:
        """The time by which delays are measured, epoch ms."""
        return self._clock.monotonic_ms() + self._ahead_ms

    def shown_ms(self, due_ms: int) -> int:
        """When the wall clock will show that a delay which ends at ``due_ms`` is over, epoch ms.

        Every answer that tells a due time converts it here. The two clocks are read one after the
        other and each in whole ms, so that their difference is 1 ms more or less from call to call:
        it is taken anew only when it has changed by more than a second, which is a jump.
        """
        ahead_ms = self._clock.now_ms() - self.delay_ms()
        if abs(ahead_ms - self._shown_ahead_ms) > _SHOWN_MS_OFF_MAX:
            self._shown_ahead_ms = ahead_ms
        return due_ms + self._shown_ahead_ms

    def time_ms(self) -> int:
        """The time by which moments are reached, epoch ms."""
        monotonic_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        if abs(wall_ms - monotonic_ms - self._wall_ahead_ms) <= JUMP_MS:
            self._wall_ahead_ms = wall_ms - monotonic_ms
        return monotonic_ms + self._wall_ahead_ms
