"""Subscriptions: messages of one or several topics for one group, as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import cast

from ..messages import SubscriptionStats
from ..runtime import EndOfFeed, Reading
from ..sides import AsyncSide
from ..values import Duration, milliseconds, optional_s
from .message import AsyncMessage


class AsyncSubscription:
    """An iterator over messages; it ends when it is closed. Leaving ``async with`` closes it."""

    def __init__(self, side: AsyncSide, reading: Reading, idle_timeout_s: float | None) -> None:
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

    async def get(self, timeout: Duration | None = None) -> AsyncMessage | None:
        """The next message; None when there is none within ``timeout``, or after the end.

        Raises:
            RequestRejected, ConnectionLost: the service ended the subscription.
        """
        return await self._next(optional_s(timeout, "timeout"))

    async def prefetch_more(self, messages: int, size: int = 0) -> None:
        """Let so many more messages and bytes of each topic be here without a result.

        For a program that keeps more than ``prefetch`` before it settles them. A connection that
        breaks and is not resumed begins with ``prefetch`` again.
        """
        self._side.on_loop(lambda: self._reading.prefetch_more(messages, size))

    async def drain(self) -> None:
        """Ask for nothing more. What is here can still be taken and settled, until ``close``."""
        self._side.on_loop(self._reading.stop)

    async def close(self, timeout: Duration = "10s") -> None:
        """Confirm what was settled, give the rest back without an attempt counted.

        What is not confirmed after ``timeout`` is given up, and may be delivered again.
        """
        timeout_s = milliseconds(timeout, "timeout") / 1000
        if not self._reading.is_closed:  # as its client may have done
            await self._side.run(self._reading.close(timeout_s))

    def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        return self

    async def __anext__(self) -> AsyncMessage:
        message = self._take()
        if message is not None:
            return cast("AsyncMessage", message)
        awaited = await self._next(self._idle_timeout_s)
        if awaited is None:
            raise StopAsyncIteration
        return awaited

    async def _next(self, timeout_s: float | None) -> AsyncMessage | None:
        reading = self._reading
        try:
            while (message := reading.next_or_raise()) is None:
                if not await self._side.wait(reading, timeout_s):
                    return None
        except EndOfFeed:
            return None
        return cast("AsyncMessage", message)

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        self._reading.abandon()
