"""The lines that ``python -m storage_engine.tools.backup take`` and its caller exchange.

    Ready ──▶ caller ── StartCopy ──▶ CopyStarted, ProgressLine, … ──▶ CopiedFile, … ──▶ Done

``Ready``: the log's files stay. Between ``StartCopy`` and ``CopyStarted``, some milliseconds, the
moment of the copy is fixed; the caller fixes the same moment elsewhere. ``ProgressLine``: how much
of the log is copied.
"""

from __future__ import annotations

import msgspec

from storage_engine.tools.program_lines import Line


class Ready(Line, frozen=True, kw_only=True, tag="ready"):
    """The engine answers, owns the store, and keeps its files."""


class KnownSegment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment that an earlier backup holds whole, and which file it was then."""

    name: str
    path: str
    size_bytes: int
    sha256: str
    source_inode: int
    source_mtime_ns: int


class StartCopy(Line, frozen=True, kw_only=True, tag="go"):
    """Take it now; link what is known instead of copying it."""

    known: list[KnownSegment] = msgspec.field(default_factory=list)


class CopyStarted(Line, frozen=True, kw_only=True, tag="taken"):
    """The copy holds the log in ``[start_offset, end_offset)``, and progress from just before."""

    start_offset: int
    end_offset: int
    segment_bytes: int


class CopiedFile(Line, frozen=True, kw_only=True, tag="file"):
    """A file of the copy; ``path`` is relative to it. The source is told of segments only."""

    path: str
    size_bytes: int
    sha256: str
    source_inode: int = 0
    source_mtime_ns: int = 0
    is_linked: bool = False


class Done(Line, frozen=True, kw_only=True, tag="done"):
    """All files were told and are durable."""
