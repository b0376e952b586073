"""One connection as a listener: the notices it gets, and the sessions it saves, takes over or
misses.

    Notices ── notify ──▶ [NoticeListener] ── NOTICE frames ──▶ client; dropped when it lags too far
    client ── keep, take, absent ──▶ [NoticeListener] ─▶ SavedSessions

Loop thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from storage_engine.server.put_replies import Reply
from storage_engine.store import Store
from storage_engine.wire.frames import encode_struct
from storage_engine.wire.notices import Notice
from storage_engine.wire.operations import Op
from storage_engine.wire.sessions import (
    SessionAbsentRequest,
    SessionSaveRequest,
    SessionTakeReply,
    SessionTakeRequest,
)

log = logging.getLogger(__name__)


class NoticeListener:
    """See the module's docstring. ``drop`` ends the connection.

    ``is_unread``: the client does not read what it is sent.
    """

    def __init__(self, store: Store, reply: Reply, drop: Callable[[], None]) -> None:
        self._store = store
        self._reply = reply
        self._drop = drop
        self._unread_count = 0
        self.is_unread = False

    def start(self) -> None:
        """Get notices from now on. Idempotent."""
        self._store.consumption.notices.listeners[self] = None

    def stop(self) -> None:
        """The connection is gone."""
        consumption = self._store.consumption
        consumption.notices.listeners.pop(self, None)
        consumption.saved_sessions.disconnected(self)

    def on_notice(self, notice: Notice) -> None:
        """Pass a notice on. A client that has not read so many of them is dropped: it will know by
        that, and connects anew.
        """
        self._unread_count = self._unread_count + 1 if self.is_unread else 0
        if self._unread_count > self._store.config.notice_count_max:
            log.warning(
                "Dropped a connection whose client does not read its notices",
                extra={"action": "slow_client_dropped"},
            )
            self._drop()
            return
        self._reply(Op.NOTICE, 0, encode_struct(notice), 0)

    def save_session(self, request: SessionSaveRequest) -> None:
        self._store.consumption.saved_sessions.save(request, self)

    def session_absent(self, request: SessionAbsentRequest) -> None:
        self._store.consumption.saved_sessions.absent(request.session_id, self)

    def take_session(self, request_id: int, request: SessionTakeRequest) -> None:
        answer = partial(self._session_taken, request_id)
        self._store.consumption.saved_sessions.take(request, self, answer)

    def _session_taken(self, request_id: int, reply: SessionTakeReply) -> None:
        self._reply(Op.SESSION_TAKE, request_id, encode_struct(reply), 0)
