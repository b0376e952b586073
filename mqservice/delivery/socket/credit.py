"""The credit of one subscription: how much may still be sent to its client, and why nothing is.

    sub, credit ──▶ [Credits] ── spend: fetched ──▶ ... settled, lost: ``restore`` ──▶ [Credits]

States for the client: open ──used up──▶ credit ──more──▶ open; paused while the group is; quota
while the tenant has used up what it may read a second; inflight while it, or its group on a
queue, has as many messages in flight as it may. A state that has passed within a second is
not told: credit is used up all the time.
"""

from __future__ import annotations

import asyncio

from mqservice.protocol.frames import Credit
from mqservice.protocol.limits import CREDIT_BYTES_MAX, CREDIT_MSGS_MAX


class Credits:
    """``available`` is set while a fetch may begin; bytes fall below zero after one large message.

    ``is_stopped``: nothing is fetched any more, whatever there is. ``held_up_ms``: for how long
    the engine's last word that too much is in flight still counts; 0: not at all. ``msgs_most``: so
    many messages were free at once, which is all credit while the client holds nothing.
    """

    __slots__ = (
        "_bytes",
        "_is_stopped",
        "_last_state",
        "_msgs",
        "_reported",
        "available",
        "held_up_ms",
        "is_at_inflight_limit",
        "is_over_quota",
        "is_paused",
        "msgs_most",
    )

    def __init__(self, credit: Credit) -> None:
        self._msgs = self.msgs_most = credit.msgs
        self._bytes = credit.bytes
        self._is_stopped = False
        self.is_paused = False
        self.is_over_quota = False
        self.held_up_ms = 0
        self.is_at_inflight_limit = False
        self.available = asyncio.Event()
        self._last_state = self._reported = "open"
        self._changed()

    @property
    def left(self) -> Credit:
        return Credit(self._msgs, self._bytes)

    @property
    def msgs(self) -> int:
        return self._msgs

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def is_stopped(self) -> bool:
        return self._is_stopped

    def stop(self) -> None:
        self._is_stopped = True
        self._changed()

    def spend(self, msgs: int, body_bytes: int) -> None:
        self._msgs -= msgs
        self._bytes -= body_bytes
        self._changed()

    def restore(self, msgs: int, body_bytes: int) -> None:
        self._msgs += msgs
        self._bytes += body_bytes
        self._changed()

    def add(self, msgs: int, body_bytes: int, *, held_msgs: int, held_bytes: int) -> None:
        """Permits on top, up to the caps for what is free and held together."""
        self._msgs = min(self._msgs + msgs, CREDIT_MSGS_MAX - held_msgs)
        self._bytes = min(self._bytes + body_bytes, CREDIT_BYTES_MAX - held_bytes)
        self._changed()

    def _changed(self) -> None:
        if self._msgs > self.msgs_most:
            self.msgs_most = self._msgs
        if not self._is_stopped and self._msgs > 0 and self._bytes > 0:
            self.available.set()
        else:
            self.available.clear()

    @property
    def state(self) -> str:
        """Why nothing is pushed; ``open`` when it may be."""
        if self.is_paused:
            return "paused"
        if self.is_over_quota:
            return "quota"
        if not self.available.is_set():
            return "credit"
        return "inflight" if self.is_at_inflight_limit or self.held_up_ms > 0 else "open"

    @property
    def is_reported_open(self) -> bool:
        """Whether there is nothing to tell, as mostly."""
        return self._reported == self._last_state == self.state == "open"

    def flow_change(self, *, is_sure: bool = False) -> str | None:
        """What the client is to be told of why it gets messages or not; once each second.

        ``is_sure``: at once, without waiting whether it stays so.
        """
        state = self.state
        is_steady, self._last_state = state == self._last_state or is_sure, state
        if not is_steady or state == self._reported or self._is_stopped:
            return None
        self._reported = state
        return state
