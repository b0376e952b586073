"""What the process of a shard says of itself to its node, as a line of JSON.

    following ── own ──▶ taking_over ── fenced ──▶ opening ──▶ owner ── release ──▶ stopping

Written by ``storage_engine/server/control.py``, read by the node's supervisor.
"""

from __future__ import annotations

import enum

import msgspec


class Phase(enum.StrEnum):
    """See the module's docstring. No process says that it is ``BUSY``: that is one that is there
    and does not reply, as in recovery.
    """

    FOLLOWING = "following"
    TAKING_OVER = "taking_over"
    OPENING = "opening"
    OWNER = "owner"
    STOPPING = "stopping"
    BUSY = "busy"


class RoleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """``epoch``: its own, or the newest that it knows of. ``log_end``: up to which physical offset
    the replicated log and it agree. ``behind_ms``: since a replica was last at the log's end; -1:
    never.
    """

    phase: Phase
    epoch: int = 0
    log_end: int = 0
    behind_ms: int = -1
