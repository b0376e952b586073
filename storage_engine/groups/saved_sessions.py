"""Consumer sessions saved between two connections: their bytes, and the leases they hold.

    keep ──▶ [SavedSessions] ─ take ──▶ the process to which the consumer has come back
                   └─ its time is over ──▶ leases given back

    take ── not kept ──▶ WANTED notice to all who listen ──▶ one keeps it, or all say: absent

A session is in one place: open in one process, or kept here, taken once. Kept ones are in memory
only, like the leases they hold; an engine that starts again knows neither. Number, bytes and time
have maxima. Loop thread only.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from storage_engine.delivery.clients import reader_name
from storage_engine.delivery.delivery import Delivery
from storage_engine.delivery.due_heap import DueHeap
from storage_engine.delivery.engine_parts import EngineParts
from storage_engine.delivery.notices import Listener
from storage_engine.errors import BadRequest, StoreBusy, StoreError
from storage_engine.wire.deliveries import LeaseRef, Nack, SettleReply, SettleRequest
from storage_engine.wire.notices import Notice, NoticeKind
from storage_engine.wire.sessions import (
    LostLease,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
)

log = logging.getLogger(__name__)

TAKE_WAIT_MS_MAX: Final = 5_000
_LEASE_BYTES: Final = 200  # of one LeaseRef in memory, and
_OFFSET_BYTES: Final = 40  # of each of its offsets
_NACKS_AT_ONCE: Final = 1_000
_REQUESTS_A_TICK: Final = 10  # 10,000 messages, about 20 ms
_NOT_FOUND: Final = SessionTakeReply(content=None, gone=[])

Answer = Callable[[SessionTakeReply], None]


class _SavedSession:
    """One session. ``is_here`` until it is taken or its time is over."""

    __slots__ = ("is_here", "request", "size_bytes", "until_ms")

    def __init__(self, request: SessionSaveRequest, size_bytes: int, until_ms: int) -> None:
        self.request = request
        self.size_bytes = size_bytes
        self.until_ms = until_ms
        self.is_here = True


class _TakeOver:
    """Somebody who asks for a session; ``asked`` have not said yet that they do not have it."""

    __slots__ = ("asked", "is_waiting", "reply", "requester", "session_id")

    def __init__(self, session_id: str, requester: object, reply: Answer) -> None:
        self.session_id = session_id
        self.requester = requester
        self.reply = reply
        self.asked: set[Listener] = set()
        self.is_waiting = True


class SavedSessions:
    """See the module's docstring. ``settle`` gives leases back."""

    def __init__(
        self,
        parts: EngineParts,
        delivery: Delivery,
        settle: Callable[[SettleRequest], SettleReply],
    ) -> None:
        self._config = parts.config
        self._clock = parts.clock
        self._notices = parts.notices
        self._find = delivery.subscriptions.find_queue
        self._settle = settle
        self._sessions: dict[str, _SavedSession] = {}
        self._saved_bytes = 0
        self._expiries: DueHeap[_SavedSession] = DueHeap(lambda kept: kept.is_here)
        self._take_overs: dict[str, deque[_TakeOver]] = {}
        self._take_over_expiries: DueHeap[_TakeOver] = DueHeap(lambda wait: wait.is_waiting)
        self._releases: deque[SettleRequest] = deque()

    def __len__(self) -> int:
        return len(self._sessions)

    def save(self, request: SessionSaveRequest, who: Listener) -> None:
        """Keep a session that ``who`` had open, or hand it to whoever waits for it.

        Raises:
            BadRequest: the time is out of range.
            StoreBusy: so many are kept already, or so much; the caller still has its leases.
        """
        if not 1 <= request.keep_ms <= self._config.saved_session_ms_max:
            raise BadRequest(
                f"keep_ms is {request.keep_ms}, it must be 1 to {self._config.saved_session_ms_max}"
            )
        wait = self._next_take_over(request.session_id)
        if wait is not None:
            self._end_take_over(wait, _reply(request, self._lost_leases(request)))
            self.absent(request.session_id, who)
            return
        size_bytes = len(request.content) + sum(
            _LEASE_BYTES + _OFFSET_BYTES * len(lease.queue_offsets)
            for held in request.held
            for lease in held.leases
        )
        self._check_room(size_bytes)
        before = self._pop(request.session_id)
        if before is not None:
            self._release(before.request)
        kept = _SavedSession(request, size_bytes, self._clock.monotonic_ms() + request.keep_ms)
        self._sessions[request.session_id] = kept
        self._saved_bytes += size_bytes
        self._expiries.push(kept.until_ms, kept)

    def _check_room(self, size_bytes: int) -> None:
        if len(self._sessions) >= self._config.saved_session_count_max:
            raise StoreBusy(f"{len(self._sessions)} sessions are saved already, which is the limit")
        if self._saved_bytes + size_bytes > self._config.saved_session_bytes_max:
            raise StoreBusy(
                f"saved sessions take {self._saved_bytes} bytes already; this one does not fit"
            )

    def take(self, request: SessionTakeRequest, asker: object, answer: Answer) -> None:
        """``reply`` comes once, at once or within ``wait_ms``. Raises ``BadRequest``.

        Of several who ask for a session that is open elsewhere the first gets it.
        """
        if not 0 <= request.wait_ms <= TAKE_WAIT_MS_MAX:
            raise BadRequest(f"wait_ms is {request.wait_ms}, it must be 0 to {TAKE_WAIT_MS_MAX}")
        kept = self._sessions.get(request.session_id)
        now_ms = self._clock.monotonic_ms()
        if kept is not None and kept.until_ms > now_ms:
            self._pop(request.session_id)
            answer(_reply(kept.request, self._lost_leases(kept.request)))
            return
        if kept is not None or not request.wait_ms or not self._notices.listeners:
            answer(_NOT_FOUND)
            return
        wait = _TakeOver(request.session_id, asker, answer)
        wait.asked.update(self._notices.listeners)
        self._take_overs.setdefault(request.session_id, deque()).append(wait)
        self._take_over_expiries.push(now_ms + request.wait_ms, wait)
        self._notices.notify(Notice(kind=NoticeKind.WANTED, session_id=request.session_id))

    def absent(self, session_id: str, who: Listener) -> None:
        """``who`` does not have the session open."""
        for wait in list(self._take_overs.get(session_id, ())):
            self._crossed_off(wait, who)

    def disconnected(self, who: Listener) -> None:
        """``who`` can neither have a session nor take one."""
        for waits in list(self._take_overs.values()):
            for wait in list(waits):
                if wait.requester is who:
                    self._end_take_over(wait, None)
                else:
                    self._crossed_off(wait, who)

    def _crossed_off(self, wait: _TakeOver, who: Listener) -> None:
        wait.asked.discard(who)
        if not wait.asked:
            self._end_take_over(wait, _NOT_FOUND)

    def _next_take_over(self, session_id: str) -> _TakeOver | None:
        waits = self._take_overs.get(session_id)
        return waits[0] if waits else None

    def _end_take_over(self, wait: _TakeOver, reply: SessionTakeReply | None) -> None:
        wait.is_waiting = False
        waits = self._take_overs[wait.session_id]
        waits.remove(wait)
        if not waits:
            del self._take_overs[wait.session_id]
        if reply is not None:
            wait.reply(reply)

    def _pop(self, session_id: str) -> _SavedSession | None:
        kept = self._sessions.pop(session_id, None)
        if kept is not None:
            kept.is_here = False
            self._saved_bytes -= kept.size_bytes
        return kept

    # Leases -----------------------------------------------------------------------------------

    def _lost_leases(self, request: SessionSaveRequest) -> list[LostLease]:
        """Which of the session's leases are so no more."""
        gone: list[LostLease] = []
        for held in request.held:
            who = held.group, held.client_id
            for lease in held.leases:
                queue = self._find(reader_name(*who), lease.topic, lease.queue_id)
                if queue is None:
                    gone.append(_lost_lease(who, lease, "deleted"))
                    continue
                inflight, generation = queue.inflight, lease.lease_generation
                ended = [
                    offset
                    for offset in lease.queue_offsets
                    if (now := inflight.get(offset)) is None or now.generation != generation
                ]
                if ended:
                    is_reset = generation < queue.progress.lease_floor
                    what = LeaseRef(
                        topic=lease.topic,
                        queue_id=lease.queue_id,
                        lease_generation=generation,
                        queue_offsets=ended,
                    )
                    gone.append(_lost_lease(who, what, "reset" if is_reset else "lease_expired"))
        return gone

    def _release(self, request: SessionSaveRequest) -> None:
        for held in request.held:
            nacks = [
                Nack(
                    topic=lease.topic,
                    queue_id=lease.queue_id,
                    lease_generation=lease.lease_generation,
                    queue_offset=queue_offset,
                    delay_ms=0,
                    reason=request.reason,
                    # What a client of a broadcast group fails to consume would be dropped.
                    is_release=bool(held.client_id) or not request.has_vanished,
                    has_vanished=request.has_vanished,
                )
                for lease in held.leases
                for queue_offset in lease.queue_offsets
            ]
            self._releases += [
                SettleRequest(
                    group=held.group,
                    nacks=nacks[at : at + _NACKS_AT_ONCE],
                    client_id=held.client_id,
                )
                for at in range(0, len(nacks), _NACKS_AT_ONCE)
            ]

    # Time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """End what nobody came for, a little of it each time. Every tick."""
        now_ms = self._clock.monotonic_ms()
        for wait in self._take_over_expiries.pop_due(now_ms):
            self._end_take_over(wait, _NOT_FOUND)
        for kept in self._expiries.pop_due(now_ms):
            self._pop(kept.request.session_id)
            self._release(kept.request)
        for _ in range(min(_REQUESTS_A_TICK, len(self._releases))):
            request = self._releases.popleft()
            try:
                self._settle(request)
            except StoreError as exc:  # a group that was deleted has no leases either
                log.info(
                    "Could not release the leases of a saved session; they expire automatically",
                    extra={"action": "session_release_failed", "reason": str(exc)},
                )


def _lost_lease(who: tuple[str, str], lease: LeaseRef, why: str) -> LostLease:
    group, client_id = who
    return LostLease(group=group, lease=lease, why=why, client_id=client_id)


def _reply(request: SessionSaveRequest, gone: list[LostLease]) -> SessionTakeReply:
    return SessionTakeReply(content=request.content, gone=gone)
