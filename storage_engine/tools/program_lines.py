"""What programs of the engine and their callers exchange: lines of JSON on stdin and stdout.

    caller ── Line ──▶ program ── ProgressLine, … ──▶ caller
                               └─ Line ─────────────▶

Which lines, and in which order, each program says itself. What went wrong is said on stderr.
"""

from __future__ import annotations

import sys

import msgspec


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="say"):
    """One line; its tag says which."""


class ProgressLine(Line, frozen=True, kw_only=True, tag="step"):
    """How much of the bytes of this step are done."""

    done_bytes: int
    total_bytes: int


def encode_line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def print_line(line: Line) -> None:
    """To the caller, at once."""
    sys.stdout.buffer.write(encode_line(line))
    sys.stdout.buffer.flush()


def print_progress(done_bytes: int, total_bytes: int) -> None:
    print_line(ProgressLine(done_bytes=done_bytes, total_bytes=total_bytes))
