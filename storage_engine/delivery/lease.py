"""What one receive leased to its member, until when, and whether a settle for it still counts.

    Leasing ── Lease ──▶ inflight of each process queue ── settled, given back, ended ──▶ count 0

Loop thread only.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from storage_engine.delivery.auto_extend import AutoExtend
    from storage_engine.delivery.process_queue import ProcessQueue


class Verdict(enum.Enum):
    """What becomes of an ack: SETTLED is one of a message that is settled already, no failure."""

    SETTLE = enum.auto()
    SETTLED = enum.auto()
    MOVED = enum.auto()
    EXPIRED = enum.auto()


class Lease:
    """Messages leased together to one member. ``count`` of them are still in flight.

    ``parts`` says which, until the lease ends; those settled meanwhile are in it too.
    ``started_ms``, ``until_ms``: wall clock. ``ends_ms``, ``deadline_ms``: monotonic; nothing lets
    it last beyond the latter. ``is_repeated``: its receive was, see ``attempts.py``;
    ``is_unnamed``: as in that receive. ``refused``: what the member gave back, of the messages that
    were first given out together.
    """

    __slots__ = (
        "_first",
        "auto_extend",
        "count",
        "deadline_ms",
        "ends_ms",
        "generation",
        "is_repeated",
        "is_unnamed",
        "member_id",
        "parts",
        "refused",
        "started_ms",
        "until_ms",
    )

    def __init__(
        self, generation: int, member_id: str, started_ms: int = 0, deadline_ms: int = 0
    ) -> None:
        self.generation = generation
        self.member_id = member_id
        self.started_ms = self.until_ms = started_ms
        self.deadline_ms = deadline_ms
        self.ends_ms = 0
        self.count = 0
        self.parts: list[tuple[ProcessQueue, list[int]]] = []
        self.auto_extend: AutoExtend | None = None
        self.is_repeated = False
        self.is_unnamed = False
        self.refused: set[tuple[ProcessQueue, int]] | None = None
        self._first: Lease | None = None

    @property
    def first(self) -> Lease:
        """The lease under which these messages were first delivered, with all others of the same
        receive.
        """
        return self._first or self

    def extended_to(self, now_ms: int) -> int:
        """When it ends, for one whose time had come but that was extended meanwhile; else 0.

        Monotonic; see ``auto_extend.py``.
        """
        if self.auto_extend is None:
            return 0
        end_ms = min(self.auto_extend.end_ms(now_ms), self.deadline_ms)
        if end_ms <= now_ms:
            return 0
        self.until_ms += end_ms - now_ms
        self.ends_ms = end_ms
        return end_ms

    def refuse(self, process_queue: ProcessQueue, queue_offset: int) -> None:
        """Its member gives a message back."""
        if self.refused is None:
            self.refused = set()
        self.refused.add((process_queue, queue_offset))

    def renewed(self) -> Lease:
        """An empty lease for some of its messages; their receipts remain valid under it."""
        lease = Lease(self.generation, self.member_id, self.started_ms, self.deadline_ms)
        lease.auto_extend, lease.is_repeated = self.auto_extend, self.is_repeated
        lease.is_unnamed = self.is_unnamed
        lease._first = self.first
        return lease


# A generation that no request can say; see ``ProcessQueue.hold``.
MOVING: Final = Lease(1 << 64, "")
