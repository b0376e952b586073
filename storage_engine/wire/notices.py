"""Notices that the engine sends to its clients: deliveries that are void, groups that pause.

    server ── NOTICE frame, request id 0 ──▶ clients that said in HELLO that they listen

A notice may be lost with its connection. Nothing depends on it but how soon a consumer hears:
leases end by themselves, and the engine refuses settles that came too late.
"""

from __future__ import annotations

import enum

from storage_engine.wire.struct import Wire


class NoticeKind(enum.StrEnum):
    """RESET: offsets were set, deliveries of before are void. REVOKED: others read these queues of
    an exclusive group now. DELETED: topic or group are gone. PAUSED, UNPAUSED: the group. HELD_UP:
    as many messages are in flight as may be, while others are there and somebody waits for them;
    said every second. WANTED: somebody asks for this session (``sessions.py``).
    """

    RESET = "reset"
    REVOKED = "revoked"
    DELETED = "deleted"
    PAUSED = "paused"
    UNPAUSED = "unpaused"
    HELD_UP = "held_up"
    WANTED = "wanted"


class Notice(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """``queue_ids`` are of ``topic``. It is about leases of a generation below ``lease_floor``.

    ``client_id``: the one client of a broadcast group whom it concerns; empty: all of the group.
    ``assignment``: which assignment of the queues took them from ``member_id``. ``code``: of the
    ``StoreError`` that says what was deleted. ``has_retries``: what was delivered again from the
    group's retry queue for the topic is void too.
    """

    kind: NoticeKind
    group: str = ""
    topic: str = ""
    member_id: str = ""
    queue_ids: tuple[int, ...] = ()
    lease_floor: int = 0
    assignment: int = 0
    code: int = 0
    session_id: str = ""
    client_id: str = ""
    has_retries: bool = False
