"""Results that are files: standard output, or a file that is there whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from mqservice.cli import screen

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="File; standard output without.")
]

FAILED: Final = 1


def hand_over(content: bytes, output: Path | None) -> int:
    """``output`` None: standard output. The exit code; why a file cannot be written is said."""
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return 0
    aside = output.with_name(f"{output.name}.part")
    try:
        aside.write_bytes(content)
        aside.replace(output)
    except OSError as exc:
        screen.warn(f"{output} cannot be written: {exc.strerror}")
        return FAILED
    screen.notice(f"{output}: {len(content):,} bytes")
    return 0
