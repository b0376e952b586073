# Made from aio/subscription.py by `python -m clients.generate`; change that instead.
"""Subscriptions: messages of one or several topics for one group, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import cast

from ..messages import SubscriptionStats
from ..runtime import EndOfFeed, Reading
from ..sides import SyncSide
from ..values import Duration, milliseconds, optional_s
from .message import Message


class Subscription:
    """An iterator over messages; it ends when it is closed. Leaving ``with`` closes it."""

    def __init__(self, side: SyncSide, reading: Reading, idle_timeout_s: float | None) -> None:
        self._side = side
        self._reading = reading
        self._idle_timeout_s = idle_timeout_s
        self._take = reading.feed.take

    @property
    def stats(self) -> SubscriptionStats:
        """Counts since the subscription began."""
        return self._reading.feed.stats

    @property
    def transport(self) -> str:
        """How messages come: "websocket" or "rest"."""
        return self._reading.transport

    @property
    def is_ready(self) -> bool:
        """Whether the service has confirmed it. False before that, and while it reconnects."""
        return self._reading.is_ready

    def get(self, timeout: Duration | None = None) -> Message | None:
        """The next message; None when there is none within ``timeout``, or after the end.

        Raises:
            RequestRejected, ConnectionLost: the service ended the subscription.
        """
        return self._next(optional_s(timeout, "timeout"))

    def prefetch_more(self, messages: int, size: int = 0) -> None:
        """Let so many more messages and bytes of each topic be here without a result.

        For a program that keeps more than ``prefetch`` before it settles them. A connection that
        breaks and is not resumed begins with ``prefetch`` again.
        """
        self._side.on_loop(lambda: self._reading.prefetch_more(messages, size))

    def drain(self) -> None:
        """Ask for nothing more. What is here can still be taken and settled, until ``close``."""
        self._side.on_loop(self._reading.stop)

    def close(self, timeout: Duration = "10s") -> None:
        """Confirm what was settled, give the rest back without an attempt counted.

        What is not confirmed after ``timeout`` is given up, and may be delivered again.
        """
        timeout_s = milliseconds(timeout, "timeout") / 1000
        if not self._reading.is_closed:  # as its client may have done
            self._side.run(self._reading.close(timeout_s))

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        message = self._take()
        if message is not None:
            return cast("Message", message)
        awaited = self._next(self._idle_timeout_s)
        if awaited is None:
            raise StopIteration
        return awaited

    def _next(self, timeout_s: float | None) -> Message | None:
        reading = self._reading
        try:
            while (message := reading.next_or_raise()) is None:
                if not self._side.wait(reading, timeout_s):
                    return None
        except EndOfFeed:
            return None
        return cast("Message", message)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self._reading.abandon()
