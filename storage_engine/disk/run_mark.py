"""The ``abort`` file: it exists while an engine runs, so one that is left means an unclean stop.

    start ── set ──▶ abort: process id, boot and mount ──▶ next start: was_power_cut?

RocketMQ's file holds the process id; the second line is ours. A process that was killed leaves the
page cache as it was; a machine that stopped, or a file system that went away, leaves any mixture of
old and new pages.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from storage_engine.disk.files import Files
from storage_engine.disk.layout import ABORT_FILE
from storage_engine.errors import DiskFull

log = logging.getLogger(__name__)


class RunMark:
    """See the module's docstring."""

    def __init__(self, files: Files, store_path: Path) -> None:
        self._files = files
        self._store_path = store_path
        self._path = store_path / ABORT_FILE
        self._is_missing = False

    def was_power_cut(self) -> bool:
        """True when the last run ended with the machine, or the medium, going away.

        False when it ended otherwise and when nobody knows: then nothing is thrown away.
        """
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 1 and lines[1] != self._files.medium_id(self._store_path)

    def is_of_rocketmq(self) -> bool:
        """Whether RocketMQ ran here last and did not stop in order: its file has one line."""
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) < 2

    def set(self) -> None:
        """An engine runs from now on; durable on return (two fsyncs).

        Where there is no room for it, ``set_again`` may make it later: until then a power cut is
        taken for a kill, after which more is kept.
        """
        medium_id = self._files.medium_id(self._store_path)
        content = f"{os.getpid()}\n{medium_id}\n".encode()
        try:
            self._files.replace_or_overwrite(self._path, content)
        except DiskFull as exc:
            self._is_missing = True
            log.warning(
                "The disk is too full to record that the engine is running",
                extra={"action": "run_mark_failed", "reason": str(exc)},
            )
        else:
            self._is_missing = False

    def set_again(self) -> None:
        """Try once more where it is missing."""
        if self._is_missing:
            self.set()

    def remove(self) -> None:
        """The engine has stopped in order."""
        self._files.unlink(self._path)
