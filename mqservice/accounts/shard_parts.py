"""Makes the store of a new shard of a part of a running one, by ``storage_engine.tools.split``.

    [PartProgram] ── copy, copy, … ──▶ RoundDone      while the source serves
         └────────── finish ─────────▶ PartDone       once the namespaces are held

Both engines run on this machine. The service runs the engine's program; of its code it shares the
lines that both exchange.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self, TypeVar

import msgspec
from django.conf import settings

from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.problem import Problem
from mqservice.supervisor.data_dir import DataDir
from storage_engine.tools.program_lines import Line, ProgressLine, encode_line
from storage_engine.tools.split.protocol_lines import (
    CopyRound,
    Finish,
    PartDone,
    RoundDone,
)

_PROGRAM: Final = (sys.executable, "-P", "-m", "storage_engine.tools.split")
LineT = TypeVar("LineT", bound=Line)


class LocalShard(NamedTuple):
    """An engine of this machine."""

    name: str
    store: Path
    socket: Path

    @property
    def size_bytes(self) -> int:
        """What its store takes of the disk."""
        found = 0
        for directory, _, names in os.walk(self.store):
            for name in names:
                try:
                    found += os.stat(os.path.join(directory, name)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return found

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.store)
        return disk.f_frsize * disk.f_bavail


def local_shard(name: str) -> LocalShard:
    """Raises Problem CONFLICT: its engine does not run on this machine."""
    store, socket = settings.MQ_ENGINE_STORE_DIR, Path(settings.MQ_ENGINE_SOCKET)
    if name != MAIN_SHARD:
        data_dir = DataDir(Path(settings.MQ_DATA_DIR))
        store, socket = data_dir.shards / name / "store", data_dir.socket_of(name)
    if not socket.exists() or not store.is_dir():
        raise Problem.of(
            "CONFLICT",
            f"the engine of {name} does not run on this machine: a shard is split where both "
            "engines run, with MQ_SHARDS naming both",
        )
    return LocalShard(name, store, socket)


class PartProgram:
    """See the module's docstring; it is killed where the context is left early.

    All raise Problem CONFLICT with the program's last words.
    """

    def __init__(
        self,
        source: LocalShard,
        target: LocalShard,
        namespaces: Sequence[str],
        number: int,
        *,
        say: Callable[[int, int], None],
    ) -> None:
        """``say``: called with the bytes of the log that a round has copied, and has to copy."""
        self._say = say
        self._process = subprocess.Popen(
            [
                *_PROGRAM, str(source.store), str(target.store), f"--socket={source.socket}",
                f"--shard={target.name}", f"--number={number}",
                *[f"--namespace={name}" for name in namespaces],
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def copy(self) -> RoundDone:
        """Another round."""
        self._order(CopyRound())
        return self._next(RoundDone)

    def finish(self) -> PartDone:
        """The last round; the store is ready on return."""
        self._order(Finish())
        return self._next(PartDone)

    def _order(self, line: Line) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_line(line))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def _next(self, kind: type[LineT]) -> LineT:
        assert self._process.stdout is not None
        while True:
            text = self._process.stdout.readline()
            if not text.endswith(b"\n"):
                raise self._failure()
            line = msgspec.json.decode(text, type=ProgressLine | RoundDone | PartDone)
            if isinstance(line, ProgressLine):
                self._say(line.done_bytes, line.total_bytes)
            else:
                assert isinstance(line, kind), line
                return line

    def _failure(self) -> Problem:
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return Problem.of(
            "CONFLICT", f"could not copy the store: {said[-1] if said else 'the copy was killed'}"
        )
