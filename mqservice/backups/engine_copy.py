"""The engine's part of a backup, made by ``python -m storage_engine.tools.backup``.

    [EngineCopy] ◀── ready ──   take ──▶ TARGET
         └────────── go ─────▶

The service runs the engine's program; of its code it shares the lines that both exchange.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from mqservice.backups.errors import BackupError
from mqservice.backups.manifest import STORE, FileEntry, Manifest
from mqservice.supervisor.child import die_with_parent
from mqservice.supervisor.processes import PYTHON
from storage_engine.tools.backup.protocol_lines import (
    CopiedFile,
    CopyStarted,
    Done,
    KnownSegment,
    Ready,
    StartCopy,
)
from storage_engine.tools.program_lines import Line, ProgressLine, encode_line

_MODULE = "storage_engine.tools.backup"
LineT = TypeVar("LineT", bound=Line)


class EngineCopy:
    """A copy of the engine's store that is being taken; killed where the context is left early."""

    def __init__(
        self, env: Mapping[str, str], store: Path, socket: str, target: Path, *, rate_bytes: int
    ) -> None:
        parent = os.getpid()
        self._process = subprocess.Popen(
            [
                *PYTHON, _MODULE, "take", str(store), str(target),
                f"--socket={socket}", f"--rate-bytes={rate_bytes}",
            ],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def wait_until_ready(self) -> None:
        """Raises BackupError with the engine's words."""
        self._next(Ready)

    def start(self, known: list[KnownSegment]) -> CopyStarted:
        """Fix the moment; ``known``: segments to link."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode_line(StartCopy(known=known)))
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None
        return self._next(CopyStarted)

    def finish(self, told: Callable[[int, int], None]) -> list[FileEntry]:
        """Wait until all is copied; ``told``: bytes done, bytes in all. Raises BackupError."""
        files = []
        while True:
            line = self._read()
            if isinstance(line, ProgressLine):
                told(line.done_bytes, line.total_bytes)
            elif isinstance(line, CopiedFile):
                found = msgspec.structs.asdict(line)
                files.append(FileEntry(**{**found, "path": f"{STORE}/{line.path}"}))
            elif isinstance(line, Done):
                return files

    def _next(self, kind: type[LineT]) -> LineT:
        line = self._read()
        assert isinstance(line, kind), line
        return line

    def _read(self) -> Ready | CopyStarted | ProgressLine | CopiedFile | Done:
        assert self._process.stdout is not None
        text = self._process.stdout.readline()
        if not text.endswith(b"\n"):
            raise self._failure()
        return msgspec.json.decode(
            text, type=Ready | CopyStarted | ProgressLine | CopiedFile | Done
        )

    def _failure(self) -> BackupError:
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return BackupError(
            f"could not copy the store: {said[-1] if said else 'the copy was killed'}"
        )


def known_segments(base: Path, manifest: Manifest) -> list[KnownSegment]:
    """The segments that an earlier backup holds whole."""
    return [
        KnownSegment(
            name=Path(file.path).name,
            path=str(base / file.path),
            size_bytes=file.size_bytes,
            sha256=file.sha256,
            source_inode=file.source_inode,
            source_mtime_ns=file.source_mtime_ns,
        )
        for file in manifest.files
        if file.source_inode and _is_full(file, manifest)
    ]


def _is_full(file: FileEntry, manifest: Manifest) -> bool:
    parts = Path(file.path).parts
    if parts[:2] != (STORE, "commitlog"):
        return False
    return int(parts[2]) + file.size_bytes <= manifest.end_offset


def adopt(env: Mapping[str, str], store: Path) -> None:
    """Make a store that was copied back fit to be started. Raises BackupError."""
    done = subprocess.run(
        [*PYTHON, _MODULE, "adopt", str(store)],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode != 0:
        raise BackupError(done.stderr.decode("utf-8", "replace").strip())
