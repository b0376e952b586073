"""The engine's part of a backup, made by ``python -m storage_engine.tools.backup``.

    [EngineCopy] ◀── ready ──   take ──▶ TARGET
         └────────── go ─────▶

The service runs the engine's program; of its code it shares the lines that both exchange.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from mqservice.backups.errors import BackupError
from mqservice.backups.manifest import STORE, FileEntry, Manifest
from mqservice.supervisor.engine_program import EngineProgram
from mqservice.supervisor.processes import PYTHON
from storage_engine.tools.backup.protocol_lines import (
    CopiedFile,
    CopyStarted,
    Done,
    KnownSegment,
    Ready,
    StartCopy,
)
from storage_engine.tools.program_lines import ProgressLine

_MODULE: Final = "storage_engine.tools.backup"
_LINES: Final = msgspec.json.Decoder(Ready | CopyStarted | ProgressLine | CopiedFile | Done)


class EngineCopy(EngineProgram[Ready | CopyStarted | CopiedFile | Done]):
    """A copy of the engine's store that is being taken. All raise BackupError with the engine's
    words.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        store: Path,
        socket: str,
        target: Path,
        *,
        rate_bytes: int,
        on_progress: Callable[[int, int], None],
    ) -> None:
        """``on_progress``: called with the bytes of the log that are copied, and of all of it."""
        super().__init__(
            _MODULE,
            [
                "take", str(store), str(target),
                f"--socket={socket}", f"--rate-bytes={rate_bytes}",
            ],
            env=env,
            lines=_LINES,
            on_progress=on_progress,
            error=lambda _code, words: BackupError(f"could not copy the store: {words}"),
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        self.expect(Ready)

    def start(self, known: list[KnownSegment]) -> CopyStarted:
        """Fix the moment; ``known``: segments to link."""
        self.send(StartCopy(known=known))
        return self.expect(CopyStarted)

    def finish(self) -> list[FileEntry]:
        """Wait until all is copied."""
        files = []
        while isinstance(line := self.receive(), CopiedFile):
            found = msgspec.structs.asdict(line)
            files.append(FileEntry(**{**found, "path": f"{STORE}/{line.path}"}))
        assert isinstance(line, Done), line
        return files


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
