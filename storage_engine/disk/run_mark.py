"""The ``abort`` file: there while an engine runs, so left behind by one that did not stop in order.

    start ── set ──▶ abort: process id, boot and mount ──▶ next start: was_power_cut?

RocketMQ's file holds the process id; the second line is ours. A process that was killed leaves the
page cache as it was; a machine that stopped, or a file system that went away, leaves any mixture of
old and new pages.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage_engine.disk.files import Files
from storage_engine.layout import ABORT_FILE


class RunMark:
    """See the module's docstring."""

    def __init__(self, files: Files, store_path: Path) -> None:
        self._files = files
        self._store_path = store_path
        self._path = store_path / ABORT_FILE

    def was_power_cut(self) -> bool:
        """True when the last run ended with the machine, or the medium, going away.

        False when it ended otherwise and when nobody knows: then nothing is thrown away.
        """
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 1 and lines[1] != self._files.medium_id(self._store_path)

    def set(self) -> None:
        """An engine runs from now on; durable on return (two fsyncs)."""
        medium_id = self._files.medium_id(self._store_path)
        self._files.replace(self._path, f"{os.getpid()}\n{medium_id}\n".encode())

    def remove(self) -> None:
        """The engine has stopped in order."""
        self._files.unlink(self._path)
