"""Where output of the children goes: one log file each, and the console with the name in front.

child's line ──▶ log/NAME.log (rolled at a size) and ``NAME | line`` on the console

A console that is a terminal gets the sentence of a JSON line; anything else gets the line itself,
since programs read it there.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO, Any, Final

import msgspec

LOG_FILE_BYTES_MAX: Final = 16 * 1024 * 1024  # two files of this size each at most
NAME_WIDTH: Final = 9
_COLOURS: Final = (36, 33, 35, 32, 34, 96, 93, 95, 92)
# What a sentence needs on a terminal neither before nor behind it.
_NOT_SHOWN: Final = frozenset({"at", "at_ms", "level", "logger", "message", "action", "traceback"})


class Output:
    """Writes lines; never raises because of a full disk or a closed console."""

    def __init__(self, logs: Path, *, is_quiet: bool, console: IO[str] | None = None) -> None:
        """``console`` is where lines are shown; None shows none at all."""
        self.logs = logs
        self._console = console
        self._is_quiet = is_quiet
        self._has_colours = console is not None and console.isatty()
        self._files: dict[str, IO[str]] = {}

    def write(self, name: str, line: str, *, is_echoed: bool = True) -> None:
        """One line of the child ``name``."""
        self._log(name, line)
        if is_echoed and not self._is_quiet:
            self._print(name, line)

    def note(self, line: str) -> None:
        """A line of the supervisor itself; shown even when quiet."""
        self._log("supervisor", line)
        self._print("mqservice", line)

    def close(self) -> None:
        for name in list(self._files):
            self._close(name)

    def _print(self, name: str, line: str) -> None:
        if self._console is None:
            return
        if self._has_colours:
            line = readable(line)
            if not line:
                return
        prefix = f"{name:<{NAME_WIDTH}} |"
        if self._has_colours:
            colour = _COLOURS[sum(name.encode()) % len(_COLOURS)]
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        try:
            print(prefix, line, file=self._console, flush=True)
        except (OSError, ValueError):
            # Whoever read our output has gone; the log files still get everything.
            self._console = None

    def _log(self, name: str, line: str) -> None:
        try:
            file = self._files.get(name)
            if file is not None and file.tell() > LOG_FILE_BYTES_MAX:
                self._close(name)
                (self.logs / f"{name}.log").replace(self.logs / f"{name}.log.1")
                file = None
            if file is None:
                file = (self.logs / f"{name}.log").open("a", encoding="utf-8", buffering=1)
                self._files[name] = file
            file.write(line + "\n")
        except (OSError, ValueError):
            # A full disk must not end the supervisor, which is the one that can still stop things.
            self._close(name)

    def _close(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None:
            with contextlib.suppress(OSError):  # what the full disk did not take is lost
                file.close()


def readable(line: str) -> str:
    """A line of a log as a sentence: ``WARNING sentence (name=value …)``; other lines as they are.

    A traceback stands in the log file. Empty where the line shows nothing.
    """
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
        message = fields["message"]
    except (msgspec.DecodeError, KeyError):
        return line.rstrip()
    level = str(fields.get("level", "info")).upper()
    more = " ".join(f"{name}={value}" for name, value in fields.items() if name not in _NOT_SHOWN)
    sentence = str(message) if level == "INFO" else f"{level} {message}"
    return f"{sentence} ({more})" if more else sentence
