"""All WebSocket sessions of this process: how many there are, their clock, and what concerns them.

    consumer ── admit ──▶ [Sessions] ── too many: 503, or 429 for the tenant
    one timer a tick ───▶ [Sessions] ──▶ Session.tick of each
    engine ── notice ───▶ [Sessions] ──▶ the subscriptions of its group, the session that is wanted

One timer for all: with one for each, a thousand idle sockets cost more than all the rest they do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from mqservice.delivery.connections.connections import Connection
from mqservice.delivery.limits import (
    DRAIN_GRACE_MS,
    HELLO_MS,
    RECONNECT_MS,
    SECOND_MS,
    STALL_MS,
)
from mqservice.lib.clock import Clock
from mqservice.lib.problem import Problem
from mqservice.protocol.limits import PING_MS, PONG_MS
from mqservice.store import Notice, NoticeKind, SessionAbsentRequest, Store, StoreError

log = logging.getLogger(__name__)

_TICKED_AT_ONCE: Final = 500  # under a millisecond when they are idle


class Subscription(Protocol):
    """What is followed for the notices of its group."""

    @property
    def engine_group(self) -> str:
        """The engine's name of the group."""

    @property
    def shard(self) -> str:
        """Whose engine has it."""

    def on_notice(self, notice: Notice) -> None:
        """A notice about the group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimes:
    """Limits of a WebSocket session in ms; tests make them small."""

    ping_ms: int = PING_MS
    pong_ms: int = PONG_MS
    hello_ms: int = HELLO_MS
    stall_ms: int = STALL_MS
    grace_ms: int = DRAIN_GRACE_MS
    tick_ms: int = SECOND_MS


class SessionContext(Protocol):
    """What is used here of ``DeliveryContext``."""

    @property
    def stores(self) -> Mapping[str, Store]: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def times(self) -> SessionTimes: ...


class Session(Protocol):
    """What is open here; ``socket/session.py``."""

    session_id: str

    @property
    def context(self) -> SessionContext:
        """Of its process."""

    def tick(self, now_ms: int, wall_ms: int) -> None:
        """Time has passed; ``now_ms`` is monotonic."""

    def hand_over(self) -> None:
        """End, and let the session go to another connection."""

    @property
    def tenant_id(self) -> int:
        """Whose it is."""

    @property
    def namespace(self) -> str:
        """Where it is."""

    def connection(self) -> Connection:
        """What is known of it now."""

    def disconnect(self) -> None:
        """End soon; what it holds is given back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """Of one process."""

    sockets_max: int = 10_000
    tenant_sockets_max: int = 5_000


class Sessions:
    """See the module's docstring. One per process; one event loop uses it."""

    def __init__(self, limits: SocketLimits | None = None) -> None:
        self._limits = limits or SocketLimits()
        self._socket_count = 0
        self._tenant_counts: dict[int, int] = {}
        self._open: dict[str, Session] = {}  # until another process may have it, or nobody
        self._wanted: dict[str, str] = {}  # asked for while they were closed: by which shard
        self._heard: set[str] = set()  # shards whose notices come here
        self._subscriptions: dict[str, dict[Subscription, None]] = {}  # by the engine's group
        self._context: SessionContext | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._absent_reports: set[asyncio.Task[None]] = set()

    # Admission ----------------------------------------------------------------------------------

    def admit(self, tenant_id: int) -> None:
        """Count one more socket, until ``dismiss``. Raises Problem 429 or 503."""
        of_tenant = self._tenant_counts.get(tenant_id, 0)
        if of_tenant >= self._limits.tenant_sockets_max:
            raise Problem.of(
                "RATE_LIMITED",
                f"the tenant has {of_tenant} sockets in this process already, which "
                "is the limit; close some first",
                retry_after_ms=RECONNECT_MS,
            )
        if self._socket_count >= self._limits.sockets_max:
            raise Problem.of(
                "STORAGE_BUSY",
                f"{self._socket_count} sockets are open in this process already, "
                "which is the limit; try again later",
                retry_after_ms=RECONNECT_MS,
            )
        self._tenant_counts[tenant_id] = of_tenant + 1
        self._socket_count += 1

    def dismiss(self, tenant_id: int) -> None:
        left = self._tenant_counts[tenant_id] - 1
        self._socket_count -= 1
        if left:
            self._tenant_counts[tenant_id] = left
        else:
            del self._tenant_counts[tenant_id]

    @property
    def open_sessions(self) -> list[Session]:
        return list(self._open.values())

    @property
    def socket_count(self) -> int:
        return self._socket_count

    # Sessions -----------------------------------------------------------------------------------

    def join(self, session: Session) -> None:
        """Tick it, and pass it what concerns it, until ``leave``."""
        if self._context is not session.context:
            self._context = session.context
            self._heard.clear()
        self._open[session.session_id] = session
        if self._ticker is None:
            self._tick_later()

    def rename(self, session: Session, session_id: str) -> None:
        """It goes on under the id of the session that it resumes."""
        del self._open[session.session_id]
        session.session_id = session_id
        self._open[session_id] = session

    def leave(self, session: Session, *, is_kept: bool) -> None:
        """It is over. ``is_kept``: the engine has it, and whoever wants it gets it there.

        Somebody of this process may have got it by now, and has it open under the same id.
        """
        if self._open.get(session.session_id) is session:
            del self._open[session.session_id]
        if session.session_id in self._wanted:
            shard = self._wanted.pop(session.session_id)
            if not is_kept:
                self._report_absent(shard, session.session_id)
        if not self._open and self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None

    def follow(self, subscription: Subscription) -> None:
        """Pass it the notices of its group, until ``unfollow``."""
        self._hear(subscription.shard)
        self._subscriptions.setdefault(subscription.engine_group, {})[subscription] = None

    def unfollow(self, subscription: Subscription) -> None:
        of_group = self._subscriptions.get(subscription.engine_group, {})
        of_group.pop(subscription, None)
        if not of_group:
            self._subscriptions.pop(subscription.engine_group, None)

    # Time ---------------------------------------------------------------------------------------

    def _tick_later(self) -> None:
        assert self._context is not None
        tick_s = self._context.times.tick_ms / 1_000
        self._ticker = asyncio.get_running_loop().call_later(tick_s, self._tick)

    def _tick(self) -> None:
        self._tick_later()
        self._tick_some(self.open_sessions, 0)

    def _tick_some(self, sessions: list[Session], first: int) -> None:
        """Frames of others come in between."""
        assert self._context is not None
        clock = self._context.clock
        now_ms, wall_ms = clock.monotonic_ms(), clock.now_ms()
        end = first + _TICKED_AT_ONCE
        for session in sessions[first:end]:
            session.tick(now_ms, wall_ms)
        if end < len(sessions):
            asyncio.get_running_loop().call_soon(self._tick_some, sessions, end)

    # Notices ------------------------------------------------------------------------------------

    def _hear(self, shard: str) -> None:
        if shard not in self._heard:
            assert self._context is not None
            self._heard.add(shard)
            self._context.stores[shard].listen(partial(self._on_notice, shard))

    def _on_notice(self, shard: str, notice: Notice) -> None:
        if notice.kind is NoticeKind.WANTED:
            session = self._open.get(notice.session_id)
            if session is None:
                self._report_absent(shard, notice.session_id)
            else:
                self._wanted[notice.session_id] = shard
                session.hand_over()
            return
        for subscription in list(self._subscriptions.get(notice.group, ())):
            if subscription.shard == shard:  # and not in another one by now
                subscription.on_notice(notice)

    def _report_absent(self, shard: str, session_id: str) -> None:
        assert self._context is not None
        telling = asyncio.get_running_loop().create_task(
            _absent(self._context.stores[shard], session_id), name="session absent"
        )
        self._absent_reports.add(telling)
        telling.add_done_callback(self._absent_reports.discard)


async def _absent(store: Store, session_id: str) -> None:
    try:
        await store.session_absent(SessionAbsentRequest(session_id=session_id))
    except StoreError as exc:  # whoever asks then waits until its time is over
        log.debug(
            "Could not tell the engine that a session is not here",
            extra={"action": "session_absent_failed", "reason": str(exc)},
        )
