"""What ``manage.py split_shard`` prints and ``mqservice shard split`` reads: JSON, one a line.

    SplitProgress, … ─▶ SplitDone ─▶ SplitReturn       a dry run: SplitPlan

Without Django, which would cost the command line a part of its start.
"""

from __future__ import annotations

import msgspec


class _Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="say"):
    """Its tag says which."""


class SplitProgress(_Line, frozen=True, tag="step"):
    """What a round of the copy has copied of the log, and has to copy."""

    done_bytes: int
    total_bytes: int


class SplitPlan(_Line, frozen=True, tag="plan"):
    """What moves, and what it takes. ``messages``: in topics; of ``scheduled`` at least so many
    where it is 100,000. ``leases``: messages that consumers have now, which will be delivered
    again. ``copied_bytes``: all of the source's store, ``fetched_bytes`` of which only the bucket
    has. ``node``: that serves the target, which comes here for the copy and goes back; empty: this
    one.
    """

    source: str
    target: str
    namespaces: list[str]
    topics: int
    groups: int
    messages: int
    stored_bytes: int
    dead_letters: int
    retries: int
    scheduled: int
    leases: int
    copied_bytes: int
    fetched_bytes: int
    free_bytes: int
    node: str = ""


class SplitDone(_Line, frozen=True, tag="done"):
    """``held_ms``: for how long requests for the namespaces had to wait at most."""

    topics: int
    groups: int
    held_ms: int


class SplitReturn(_Line, frozen=True, tag="return"):
    """The target goes back to ``node``; ``is_done``: it is there."""

    node: str
    is_done: bool


SplitLine = SplitProgress | SplitPlan | SplitDone | SplitReturn
