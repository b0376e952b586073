"""Whose messages a run is about: the one store of an engine, or a copy of each shard's.

    --store DIRECTORY ────▶ one source, of the shard main
    --shards FILE (JSON) ─▶ [read_shards] ─▶ a source of each shard that the file names

A line of the file's ``shards`` is ``{"name", "store", "end_offset", "as_of_ms"}``. A shard whose
``store`` is null could not be read: of it there is what the lake has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAIN_SHARD: Final = "main"


@dataclass(frozen=True, kw_only=True)
class Source:
    """``end_offset``: of a snapshot that is held meanwhile, or of a copy. ``as_of_ms``: all that
    was stored up to then is below it; None: it is the log that is being written, and this is now.
    """

    store: str | None
    shard: str = MAIN_SHARD
    end_offset: int | None = None
    as_of_ms: int | None = None


def read_shards(path: str) -> tuple[Source, ...]:
    """Raises ``ValueError``: the file is none of shards."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))["shards"]
        sources = tuple(
            Source(
                shard=str(each["name"]),
                store=each["store"],
                end_offset=None if each["store"] is None else int(each["end_offset"]),
                as_of_ms=None if each["store"] is None else int(each["as_of_ms"]),
            )
            for each in found
        )
    except (OSError, KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"--shards {path} cannot be read: {exc!r}") from exc
    names = [each.shard for each in sources]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"--shards {path} must name each shard once, and names {names}")
    return sources
