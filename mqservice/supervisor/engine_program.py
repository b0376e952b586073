"""Runs a program of the storage engine and exchanges lines with it.

    send ── a line ──▶ python -m storage_engine.tools.… ── lines ──▶ receive
                                          └── ProgressLine ──▶ on_progress

Backups, splits and transfers are made so. The program dies with this process, whatever it is doing
then: nobody else may write where it writes once somebody tries again.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Self, TypeVar

import msgspec

from mqservice.supervisor.child import die_with_parent
from mqservice.supervisor.processes import PYTHON
from storage_engine.tools.program_lines import Line, ProgressLine, encode_line

LineT = TypeVar("LineT", bound=Line)
KindT = TypeVar("KindT", bound=Line)


class EngineProgram(Generic[LineT]):
    """Under way from here on; killed where the context is left before it has ended."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        lines: msgspec.json.Decoder[LineT | ProgressLine],
        on_progress: Callable[[int, int], None],
        error: Callable[[int, str], Exception],
    ) -> None:
        """
        Args:
            lines: of what the program says.
            on_progress: called with the bytes done, and bytes in all.
            error: what to raise where it ends early, from its exit code and its last words.
        """
        self._lines = lines
        self._on_progress = on_progress
        self._error = error
        # A file: a program whose words nobody reads would wait at a full pipe.
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # closed by ``__exit__``
        parent = os.getpid()
        self._process = subprocess.Popen(
            [*PYTHON, module, *arguments],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            preexec_fn=lambda: die_with_parent(parent),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        self._words.close()

    def send(self, line: Line) -> None:
        """Raises ``error``: it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_line(line))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def receive(self) -> LineT:
        """Wait for what it says next, besides progress. Raises ``error``: it has ended."""
        assert self._process.stdout is not None
        while True:
            text = self._process.stdout.readline()
            if not text.endswith(b"\n"):
                raise self._failure()
            line = self._lines.decode(text)
            if not isinstance(line, ProgressLine):
                return line
            self._on_progress(line.done_bytes, line.total_bytes)

    def expect(self, kind: type[KindT]) -> KindT:
        """As ``receive``, of the only line that may come now."""
        line = self.receive()
        assert isinstance(line, kind), line
        return line

    def end(self) -> None:
        """Wait until it has ended by itself. Raises ``error``: not well."""
        if self._process.wait() != 0:
            raise self._failure()

    def _failure(self) -> Exception:
        code = self._process.wait()
        self._words.seek(0)
        said = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return self._error(code, said[-1] if said else f"it {_end_of(code)}, with no words")


def _end_of(code: int) -> str:
    return "was killed" if code < 0 else f"ended with exit code {code}"
